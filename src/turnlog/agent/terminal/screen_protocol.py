"""What the rest of the console may ask of the screen, and what is shown on it."""

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct

from turnlog.agent.terminal.menu import Choices, Menu
from turnlog.agent.terminal.pastes import Pastes
from turnlog.agent.terminal.styled_text import Style


class ScrollbackItem(Struct, frozen=True):
    """Something to put into the scrollback."""

    lines: list[str]
    indent: int = 4
    """Cells before the rest of a line that is too long."""
    is_tight: bool = False
    """Whether it stands close to another one like it."""
    is_attached: bool = False
    """Whether it belongs to what was shown last."""
    is_markdown: bool = False


class Waiting(Struct, frozen=True):
    """What the user typed that is still to be done."""

    text: str
    is_queued: bool = False
    """Whether it was typed while something was going on; the session then says so."""


class Face(Protocol):
    """The screen, for those who have something to show or to ask."""

    style: Style
    waiting: list[Waiting]
    pastes: Pastes

    @property
    def columns(self) -> int:
        """How wide the terminal is."""
        ...

    def show(self, shown: ScrollbackItem | None) -> None:
        """Print something into the scrollback."""
        ...

    async def choose(self, menu: Menu) -> Any:
        """Let the user choose; None if nothing was chosen."""
        ...

    async def ask(self, menu: Choices, about: Sequence[ScrollbackItem]) -> Any:
        """Let the user answer an unexpected question; what it is about is shown first.

        What does not fit on the screen is folded, and a key shows all of it. Keys that were
        pressed before the question was drawn do not answer it.
        """
        ...

    def type_in(self, text: str) -> None:
        """Put a text into the prompt."""
        ...

    def redraw(self) -> None:
        """Something has changed."""
        ...

    def wake(self) -> None:
        """There is something to do."""
        ...

    def ring(self, sequence: str) -> None:
        """Send the terminal a title, a notification or a bell."""
        ...

    def leave(self) -> None:
        """End."""
        ...
