"""Permission questions and the user's replies."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

from msgspec import Struct

from turnlog.agent.permissions.policy import Verdict
from turnlog.format.json_values import Fields


class Question(Struct, frozen=True):
    """A call that nothing allows and nothing forbids."""

    call_id: str
    tool: str
    input: Fields
    verdict: Verdict
    """The reason to ask, and the rules that would allow it from now on."""
    agent_id: str | None = None
    """The sub-agent that wants it."""
    agent_type: str = ""
    """The kind of that sub-agent."""
    place: Path = Path()
    """The directory that relative paths start at."""


class PermissionReply(Struct, frozen=True):
    """The user's reply to a question."""

    kind: Literal["allow", "deny"]
    remember: tuple[str, ...] = ()
    """Rules that allow such calls from now on."""
    feedback: str = ""
    """Feedback for the model; a refusal without it ends the turn."""


Ask = Callable[[Question], Awaitable[PermissionReply]]
