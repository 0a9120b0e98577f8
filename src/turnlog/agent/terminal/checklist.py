"""The task list on the screen: what is in progress and what comes next, with a count of the rest.

It shows the tasks of TaskCreate, or the steps of TodoWrite.
"""

from collections import Counter

from turnlog.agent.terminal.styled_text import Style, cut, one_line
from turnlog.agent.workspace.task_list import numbers_in
from turnlog.format.json_values import Fields
from turnlog.render.tool_views import BOXES

MOST = 5
"""Tasks shown at a time, as in the client."""
ROLES = {"completed": "dim", "in_progress": "bold"}
WORDS = {"pending": "pending", "in_progress": "in progress", "completed": "completed"}
LONGEST = 1_000
"""Maximum characters of a task that are processed: it is cut to one row anyway."""


class Checklist:
    """The tasks, and whether they are shown."""

    def __init__(self) -> None:
        self._items: list[Fields] = []
        self._is_wanted: bool | None = None
        """None until the user shows or hides it; until then it is shown while a task is open."""

    @property
    def is_empty(self) -> bool:
        return not self._items

    @property
    def active_form(self) -> str:
        """The text of the task in progress; empty if there is none."""
        doing = [each for each in self._items if each.get("status") == "in_progress"]
        texts = [str(each.get("activeForm") or _name(each)) for each in doing]
        return cut(one_line(texts[0][:LONGEST]), 60) if texts else ""

    def take(self, items: list[Fields]) -> None:
        """Replace the items."""
        self._items = _ranked(items)

    def toggle(self, is_running: bool) -> None:
        """Show the list if it is hidden, and hide it if it is shown."""
        self._is_wanted = not self._is_shown(is_running)

    def rows(self, style: Style, room: int, is_running: bool) -> list[str]:
        """Return the rows of the list; none if it is hidden or done."""
        if not self._is_shown(is_running):
            return []
        shown, rest = self._items[:MOST], self._items[MOST:]
        rows = [_row(each, style, room) for each in shown]
        counts = Counter(str(each.get("status")) for each in rest)
        left = ", ".join(f"{counts[name]} {word}" for name, word in WORDS.items() if counts[name])
        return [*rows, *([style(cut(f"  … +{left}", room), "dim")] if left else [])]

    def _is_shown(self, is_running: bool) -> bool:
        if self._is_wanted is not None:
            return self._is_wanted and bool(self._items)
        is_open = any(each.get("status") != "completed" for each in self._items)
        return is_open or (is_running and bool(self._items))


def _ranked(items: list[Fields]) -> list[Fields]:
    """Return tasks by relevance: those in progress, those that can start, the others."""
    unfinished = {str(each.get("id")) for each in items if each.get("status") != "completed"}

    def rank(task: Fields) -> int:
        if task.get("status") != "pending":
            return 0 if task.get("status") == "in_progress" else 3
        return 2 if unfinished.intersection(numbers_in(task, "blockedBy")) else 1

    return sorted(items, key=rank)


def _name(item: Fields) -> str:
    return str(item.get("subject") or item.get("content") or "")


def _row(item: Fields, style: Style, room: int) -> str:
    status = str(item.get("status"))
    text = one_line(_name(item)[:LONGEST])
    return style(cut(f"{BOXES.get(status, '☐')} {text}", room), ROLES.get(status, "text"))
