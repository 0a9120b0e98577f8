"""The interface of the screen for the rest of the terminal UI."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from turnlog.agent.terminal.menu import Choices, Menu
from turnlog.agent.terminal.pastes import Pastes
from turnlog.agent.terminal.styled_text import Palette

PickSession = Callable[[], Awaitable[Path | None]]
"""Lets the user pick a session in a full-screen picker; None if they cancel."""


class ScrollbackItem(Struct, frozen=True):
    """Lines for the scrollback."""

    lines: list[str]
    indent: int = 4
    """Indentation of wrapped lines."""
    is_tight: bool = False
    """True if no blank line separates it from a similar item."""
    is_attached: bool = False
    """True if it continues the previous item."""
    is_markdown: bool = False


class TypedInput(Struct, frozen=True):
    """Typed input that has not been dispatched yet."""

    text: str
    is_queued: bool = False
    """True if it was typed during a turn; the session records such prompts as queued."""


class ScreenInterface(Protocol):
    """The screen as seen by code that shows or asks something."""

    style: Palette
    pending: list[TypedInput]
    pastes: Pastes

    @property
    def columns(self) -> int:
        """Width of the terminal."""
        ...

    def show(self, shown: ScrollbackItem | None) -> None:
        """Print something into the scrollback."""
        ...

    async def choose(self, menu: Menu) -> Any:
        """Let the user choose; return None if nothing was chosen."""
        ...

    async def ask(self, menu: Choices, about: Sequence[ScrollbackItem]) -> Any:
        """Show what a question is about, then let the user answer it.

        Rows that do not fit on the screen are folded, and a key shows them all. Keys that were
        pressed before the question was drawn do not answer it.
        """
        ...

    async def run_program(self, command: Sequence[str]) -> None:
        """Run a program on the terminal, and draw the screen again when it has ended."""
        ...

    async def pick_session(self) -> Path | None:
        """Let the user pick a session in the full-screen picker; None if they cancel."""
        ...

    def use_vi(self, is_on: bool) -> None:
        """Switch vi keys on or off in the prompt."""
        ...

    def type_in(self, text: str) -> None:
        """Insert a text into the prompt."""
        ...

    def redraw(self) -> None:
        """Redraw after a change."""
        ...

    def wake(self) -> None:
        """Wake the main loop."""
        ...

    def ring(self, sequence: str) -> None:
        """Send a title, notification or bell to the terminal."""
        ...

    def leave(self) -> None:
        """Exit."""
        ...
