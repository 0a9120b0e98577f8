"""What a tool is: its name, what it takes, what it would touch, and the function that does it."""

from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any

from msgspec import Struct

from turnlog.agent.access import Access
from turnlog.agent.workspace import Workspace
from turnlog.format.values import Fields

CALL_ID: ContextVar[str] = ContextVar("call_id", default="")
"""The call that is being carried out; nothing for what the user runs."""
Output = Callable[[str], None]
"""Is told what a call prints, while it runs."""


class Outcome(Struct, frozen=True):
    """What came of a call."""

    content: str | list[Fields]
    """What the model is told: text, or blocks."""
    data: Any = None
    """What the session keeps of it besides, as `toolUseResult`."""
    is_error: bool = False


class ToolError(Exception):
    """A call that failed: its text is what the model is told."""


class Tool(Struct, frozen=True):
    """A tool that the model may call."""

    name: str
    description: str
    schema: Fields
    """JSON Schema of what it takes."""
    read: Callable[[Fields], Any]
    """Its input as a typed value; raises `ToolError` for one that does not fit."""
    touches: Callable[[Any, Workspace], Sequence[Access]]
    """What a call would touch."""
    run: Callable[[Any, Workspace, Output], Awaitable[Outcome]]
    """Carries a call out; raises `ToolError` where it fails; may be cancelled at any moment."""
    is_parallel: bool = False
    """Whether calls may run side by side with others: those that change nothing."""
    server: str | None = None
    """The MCP server it belongs to, as its name spells it."""
