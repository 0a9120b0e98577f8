"""State of the picker: the sessions that match, the selected one, the open question.

Only the screen's thread changes it. An answer from another thread is used only if its generation is
current, that is, if nothing was typed since the request.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from turnlog.index.reports.session_list import ListedSession
from turnlog.picker.session_source import EVERYTHING, Scope, SessionKey, SessionNumbers

if TYPE_CHECKING:
    from turnlog.picker.session_preview import SessionPreview


class PickerMode(Enum):
    """Input modes; the mode decides what a key does."""

    SEARCH = "search"
    """Characters are typed into the query."""
    COMMAND = "command"
    """Characters are commands on the selected session."""
    RENAME = "rename"
    EXPORT = "export"
    DELETE = "delete"
    """A deletion waits for confirmation."""
    HELP = "help"


@dataclass
class PickerState:
    """The state of a picker."""

    scopes: list[Scope] = field(default_factory=lambda: [EVERYTHING])
    scope: int = 0
    mode: PickerMode = PickerMode.SEARCH
    generation: int = 0
    """Number of list requests so far; answers to earlier requests are dropped."""
    found: SessionNumbers = field(default_factory=lambda: SessionNumbers([], {}, None))
    is_known: bool = False
    """False until the first list has arrived."""
    rows: dict[SessionKey, ListedSession] = field(default_factory=dict[SessionKey, ListedSession])
    cursor: int = 0
    top: int = 0
    """The first row on the screen."""
    is_pinned: bool = False
    """True if the user chose the selected session, so that it stays selected while it matches."""
    wanted: str | None = None
    """The file of a session to select as soon as it is listed."""
    preview: "SessionPreview | None" = None
    preview_of: SessionKey | None = None
    live: dict[str, str] = field(default_factory=dict[str, str])
    asked: tuple[int, ListedSession] | None = None
    """The session that a question is about, with the number of its store. By the time the user
    answers, another session may be selected, because the list is refreshed in the background."""
    message: str = ""
    change: str | None = None
    """Journal id of the last change, for undo."""

    @property
    def selected(self) -> SessionKey | None:
        """The number of the selected session."""
        numbers = self.found.numbers
        return numbers[self.cursor] if self.cursor < len(numbers) else None

    @property
    def session(self) -> ListedSession | None:
        """The selected session, once it is loaded."""
        return self.rows.get(self.selected) if self.selected is not None else None

    def take(self, generation: int, found: SessionNumbers) -> bool:
        """Replace the list unless it is outdated; keep a pinned session selected."""
        if generation != self.generation:
            return False
        selected = self.selected
        places = {number: place for place, number in enumerate(found.numbers)}
        if self.is_pinned and selected in places:
            self.cursor = places[selected]
        elif self.is_pinned and found.query == self.found.query:
            # The session is gone, as after a deletion: stay where it was.
            self.cursor = max(0, min(self.cursor, len(found.numbers) - 1))
        else:
            self.cursor, self.is_pinned = 0, False
        self.found, self.is_known = found, True
        return True

    def learn(self, rows: dict[SessionKey, ListedSession]) -> None:
        """Add figures of sessions; select the `wanted` session if it is among them."""
        self.rows |= rows
        for number, row in rows.items():
            if row.path == self.wanted and number in self.found.numbers:
                self.cursor, self.is_pinned = self.found.numbers.index(number), True
                self.wanted = None

    def move(self, step: int) -> None:
        """Move the selection by some rows; it stops at both ends."""
        last = len(self.found.numbers) - 1
        self.cursor = max(0, min(self.cursor + step, last))
        self.is_pinned = self.cursor > 0

    def visible(self, height: int) -> list[SessionKey]:
        """Scroll to the selection; return the numbers of the sessions on the screen."""
        if self.cursor < self.top:
            self.top = self.cursor
        elif self.cursor >= self.top + height:
            self.top = self.cursor - height + 1
        self.top = max(0, min(self.top, len(self.found.numbers) - height))
        return self.found.numbers[self.top : self.top + height]

    def missing(self, height: int) -> list[SessionKey]:
        """Return sessions without loaded figures, from one screen before to one screen after."""
        near = self.found.numbers[max(0, self.top - height) : self.top + 2 * height]
        return [number for number in near if number not in self.rows]
