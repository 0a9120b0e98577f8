"""Lay out a session as one line of the list, for any width.

Columns that do not fit are left out, the least important first.
"""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from turnlog.conversation.models import window_holding
from turnlog.format.timestamps import age
from turnlog.index.reports.session_list import ListedSession
from turnlog.picker.cells import fit, fit_end, shown, width_of
from turnlog.text import money, percent

Fragment = tuple[str, str]
"""A style and a text."""

DAY = 86_400
TITLE = 24
"""Minimum cells of the title."""
WIDE = 110
"""Minimum width of the list, in cells, for columns of full width."""
TAG_SHARE = 2
"""A tag takes at most one half of the title's cells."""
LIVE_MARKS = {"waiting for permission": "◆", "waiting for input": "◆", "working": "●", "idle": "○"}
LIVE_WORDS = {"waiting for permission": "permission", "waiting for input": "input"}
"""Short forms of states that are too long for a column."""
HEALTH_MARKS = {"ok": "✓", "broken": "✗", "unchecked": "·"}


class RowColumn(NamedTuple):
    """A column of the list."""

    name: str
    narrow: int
    """Its cells below WIDE."""
    wide: int
    rank: int
    """Columns of the highest rank are left out first."""
    is_right: bool = False


COLUMNS = (
    RowColumn("live", 1, 12, 1),
    RowColumn("ok", 2, 2, 2, is_right=True),
    RowColumn("age", 4, 4, 0, is_right=True),
    RowColumn("title", TITLE, TITLE, 0),
    RowColumn("project", 9, 18, 3),
    RowColumn("branch", 8, 16, 7),
    RowColumn("cost", 8, 8, 4, is_right=True),
    RowColumn("ctx", 4, 4, 5, is_right=True),
    RowColumn("left", 5, 5, 6, is_right=True),
)
STYLES = {
    "live": "class:live",
    "age": "class:dim",
    "project": "class:project",
    "branch": "class:dim",
    "cost": "",
    "ctx": "",
    "left": "class:dim",
}


class RowFacts(NamedTuple):
    """Facts that all rows of a list share."""

    live: Mapping[str, str]
    """The states of running sessions, by id."""
    kept_days: int
    """Days after which the client deletes a session."""
    now: float


class RowLayout:
    """The columns that fit into a width; the column `live` is narrow without running sessions."""

    def __init__(self, width: int, has_live: bool = True) -> None:
        self.width = width
        chosen = list(COLUMNS)
        if not has_live:
            # Only wide enough for a mark: the title gets the rest.
            chosen[0] = chosen[0]._replace(wide=chosen[0].narrow)
        # Drop the least important column until the rest fits; the title always stays.
        while len(chosen) > 1 and _needed(chosen, width) > width:
            chosen.remove(max(chosen, key=lambda each: each.rank))
        self.cells = {each.name: each.wide if width >= WIDE else each.narrow for each in chosen}
        self.cells["title"] += max(0, width - _needed(chosen, width))
        self.columns = chosen

    def heading(self) -> list[Fragment]:
        """Return the line above the list."""
        names = {"live": "" if self.cells.get("live", 0) < 4 else "live", "left": "kept"}
        texts = {each.name: names.get(each.name, each.name) for each in self.columns}
        return [("class:heading", self._line(texts))]

    def row(self, session: ListedSession, facts: RowFacts, is_selected: bool) -> list[Fragment]:
        """Return a session as styled fragments that fill the width exactly."""
        texts = _texts(session, facts)
        if self.cells.get("live", 0) < 4:
            texts["live"] = texts["live"][:1]
        lead = "▸ " if is_selected else "  "
        base = "class:selected" if is_selected else ""
        found: list[Fragment] = [(base, lead)]
        for number, column in enumerate(self.columns):
            gap = " " if number + 1 < len(self.columns) else ""
            style = _style(column.name, texts[column.name])
            tag = self._tag(session) if column.name == "title" else ""
            found += [(f"{base} class:tag", tag)] if tag else []
            cell = self._cell(column, texts[column.name], width_of(tag))
            found.append((f"{base} {style}", cell + gap))
        return found

    def waiting(self, is_selected: bool) -> list[Fragment]:
        """Return a row whose session is still being read."""
        style, mark = ("class:selected", "▸") if is_selected else ("class:dim", " ")
        return [(style, fit(f"{mark} …", self.width))]

    def _line(self, texts: Mapping[str, str]) -> str:
        return "  " + " ".join(self._cell(each, texts[each.name]) for each in self.columns)

    def _tag(self, session: ListedSession) -> str:
        """Return the tag of a session as shown before the title: `#release `."""
        tag, most = shown(session.tag or ""), self.cells["title"] // TAG_SHARE - 1
        return f"{fit(f'#{tag}', min(width_of(tag) + 1, most))} " if tag else ""

    def _cell(self, column: RowColumn, text: str, used: int = 0) -> str:
        cells = self.cells[column.name] - used
        # Projects often share a prefix, so their ends are kept.
        if column.name == "project":
            return fit_end(text, cells)
        return fit(text, cells, is_right=column.is_right)


def _needed(columns: list[RowColumn], width: int) -> int:
    """Return the width of some columns, including the selection mark and gaps of one cell."""
    cells = [each.wide if width >= WIDE else each.narrow for each in columns]
    return 2 + sum(cells) + len(cells) - 1


def _texts(session: ListedSession, facts: RowFacts) -> dict[str, str]:
    state = facts.live.get(session.id)
    mark = LIVE_MARKS.get(state, "●") if state else ""
    return {
        "live": f"{mark} {LIVE_WORDS.get(state, state)}" if state else "",
        "ok": HEALTH_MARKS[health_of(session)],
        "age": age(datetime.fromtimestamp(session.last_active, UTC)),
        "title": shown(session.title or "") or session.id,
        "project": shown(session.project or "").rpartition("/")[2],
        "branch": shown(session.branch or ""),
        "cost": f"{money(session.cost_usd)}{session.marks}",
        "ctx": percent(fill_of(session)),
        "left": days_left(session, facts.kept_days, facts.now),
    }


def _style(name: str, text: str) -> str:
    if name == "ok":
        return "class:broken" if text == HEALTH_MARKS["broken"] else "class:dim"
    if name == "live" and text.startswith("◆"):
        return "class:waiting"
    # Two characters mean at most nine days: `9d`.
    if (name == "left" and text in ("now", "<1d")) or (name == "left" and len(text) == 2):
        return "class:waiting"
    return STYLES.get(name, "")


def health_of(session: ListedSession) -> str:
    """Return what the last check of a session found: ok, broken or unchecked."""
    if not session.is_checked:
        return "unchecked"
    return "broken" if session.finding else "ok"


def fill_of(session: ListedSession) -> float | None:
    """Return the share of the context window that the last request filled; None if unknown."""
    if not session.context_tokens or not session.context_model:
        return None
    return session.context_tokens / window_holding(session.context_model, session.context_tokens)


def days_left(session: ListedSession, kept_days: int, now: float | None = None) -> str:
    """Return the days until the client deletes a session; `now` if it will at its next start."""
    ends = session.modified + kept_days * DAY
    days = (ends - (time.time() if now is None else now)) / DAY
    if days <= 0:
        return "now"
    return "<1d" if days < 1 else f"{days:.0f}d" if days < 1000 else "999d+"
