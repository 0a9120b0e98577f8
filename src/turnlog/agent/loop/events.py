"""What happens while the loop works, for whoever shows it: a screen, or lines for a program."""

from typing import Any

from msgspec import Struct

from turnlog.format.json_values import Fields


class Streamed(Struct, frozen=True):
    """A piece of an answer, as the API sent it: the event of its stream."""

    event: Fields


class Recorded(Struct, frozen=True):
    """A line that was written to the session."""

    entry: Fields


class CallStarted(Struct, frozen=True):
    """A call is about to run: its input is complete, and it was allowed."""

    call_id: str
    tool: str
    input: Fields


class Printed(Struct, frozen=True):
    """What a running call printed."""

    call_id: str
    text: str


class Retrying(Struct, frozen=True):
    """The API did not answer; it is asked again."""

    attempt: int
    attempts: int
    """How often it is asked again, at most."""
    wait: float
    reason: str
    status: int | None
    """The status of its answer; None where there was none."""


class Notice(Struct, frozen=True):
    """Something that the user should know: what a hook said, what was compacted."""

    text: str
    is_error: bool = False


class TurnEnded(Struct, frozen=True):
    """The turn is over."""

    reason: str
    """done, refused, interrupted, failed, max_turns, max_budget, blocked."""
    text: str
    """The last answer, or what went wrong."""
    seconds: float
    requests: int
    usage: Fields
    """Tokens of the turn, sub-agents included, by the API's names."""
    cost: float
    denials: list[Fields] = []
    """Calls that were not allowed: tool_name, tool_use_id, tool_input."""
    models: dict[str, Fields] = {}
    """Tokens and dollars by model, as the client's result has them."""
    api_seconds: float = 0.0
    """How long the API was at work."""


class Inside(Struct, frozen=True):
    """What happens in a sub-agent."""

    agent_id: str
    call_id: str
    """The call that started it."""
    event: Any


Event = Streamed | Recorded | CallStarted | Printed | Retrying | Notice | TurnEnded | Inside
