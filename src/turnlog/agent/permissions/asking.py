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
    updated_input: Fields | None = None
    """The input to run the call with, if a program changed it."""
    updates: tuple[Fields, ...] = ()
    """Changes to the permissions that come with an approval, in the client's format."""
    is_program: bool = False
    """True if a program answers: its refusal ends the turn only if it asks for that."""
    ends_turn: bool = False


Ask = Callable[[Question], Awaitable[PermissionReply]]
