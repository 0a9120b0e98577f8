"""Events that the agent loop emits, for the terminal UI and for stream-json output."""

from typing import Any

from msgspec import Struct

from turnlog.format.json_values import Fields


class Streamed(Struct, frozen=True):
    """A streaming event of the Messages API, as it was received."""

    event: Fields


class Recorded(Struct, frozen=True):
    """An entry that was written to the session."""

    entry: Fields


class CallStarted(Struct, frozen=True):
    """A call was allowed and is about to run."""

    call_id: str
    tool: str
    input: Fields


class CallDenied(Struct, frozen=True):
    """A call was denied without a question: by a rule or mode, or as nobody could be asked."""

    call_id: str
    tool: str
    reason: str
    """The message to the model."""


class Printed(Struct, frozen=True):
    """Output of a running call."""

    call_id: str
    text: str


class Retrying(Struct, frozen=True):
    """A request failed and will be retried."""

    attempt: int
    attempts: int
    """Maximum number of retries."""
    wait: float
    reason: str
    status: int | None
    """The HTTP status; None if there was no response."""


class FellBack(Struct, frozen=True):
    """A model is overloaded, and the fallback model replaces it."""

    original: str
    fallback: str


class Notice(Struct, frozen=True):
    """A message for the user, such as hook output or the result of a compaction."""

    text: str
    is_error: bool = False
    hook: str = ""
    """The hook that the message comes from, such as `PreToolUse:Bash`."""


class TurnEnded(Struct, frozen=True):
    """The end of a turn."""

    reason: str
    """done, refused, interrupted, failed, max_turns, max_budget, blocked or deferred."""
    text: str
    """The last answer, or the error message."""
    seconds: float
    requests: int
    usage: Fields
    """Tokens of the turn including sub-agents, under the API's field names."""
    cost: float
    denials: list[Fields] = []
    """Denied calls: tool_name, tool_use_id, tool_input."""
    models: dict[str, Fields] = {}
    """Tokens and dollars per model, in the shape of the client's `result` message."""
    api_seconds: float = 0.0
    """Time spent in API requests."""


class Inside(Struct, frozen=True):
    """An event of a sub-agent."""

    agent_id: str
    call_id: str
    """The call that started it."""
    event: Any


Event = (
    Streamed
    | Recorded
    | CallStarted
    | CallDenied
    | Printed
    | Retrying
    | FellBack
    | Notice
    | TurnEnded
    | Inside
)
