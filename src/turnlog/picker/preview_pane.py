"""Format the preview of the selected session: the texts around a match, or the last texts."""

import re
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from turnlog.index.reports.session_list import ListedSession
from turnlog.picker.background_work import CHECKED
from turnlog.picker.cells import fit, shown, without_combining
from turnlog.picker.row_layout import Fragment, RowFacts, days_left, fill_of, health_of
from turnlog.store.paths import Store
from turnlog.store.stores import store_argument
from turnlog.text import exact_money, file_size, harmless, percent, plural, short_id

if TYPE_CHECKING:
    from turnlog.picker.session_preview import PreviewText, SessionPreview

NAMES = {"prompt": "you", "answer": "model", "summary": "summary", "result": "result"}
STYLES = {"prompt": "class:prompt", "answer": "class:answer"}
BEFORE = 70
"""Maximum cells of a text that comes before the match."""
BLANKS = re.compile(r"\n\s*\n+")


def facts_line(session: ListedSession, facts: RowFacts, width: int) -> list[Fragment]:
    """Return the line above a preview, with the facts that a row has no room for."""
    parts = [
        short_id(session.id),
        plural(session.turns, "turn"),
        exact_money(session.cost_usd),
        f"context {percent(fill_of(session)) or '?'}",
        _kept(days_left(session, facts.kept_days, facts.now)),
        shown(session.project or ""),
        shown(session.branch or ""),
    ]
    found: list[Fragment] = [
        ("class:rule", fit("── " + " · ".join(filter(None, parts)) + " ", width))
    ]
    if health_of(session) == "unchecked":
        found += [("", "\n"), ("class:dim", fit(f"· {_unchecked(session)}", width))]
    if health_of(session) == "broken":
        found += [("", "\n"), ("class:broken", fit(f"✗ {shown(session.finding or '')}", width))]
    return found


def _unchecked(session: ListedSession) -> str:
    try:
        size = Path(session.path).stat().st_size
    except OSError:
        return "not checked: the file is gone"
    if size <= CHECKED:
        return "not checked yet"
    path = Path(session.path)
    store = store_argument(Store(path.parents[2]), path)
    return f"not checked, as it has {file_size(size)}: turnlog check {quote(session.id[:8])}{store}"


def _kept(days: str) -> str:
    return "deleted at the client's next start" if days == "now" else f"kept {days}"


def preview_fragments(preview: "SessionPreview | None") -> list[Fragment]:
    """Return the texts of a preview, with the match marked."""
    if preview is None:
        return [("class:dim", "nothing to show yet")]
    found: list[Fragment] = []
    has_match = any(text.is_match for text in preview.texts)
    for text in preview.texts:
        has_match = has_match and not text.is_match
        if has_match:
            # Cut texts before the match to one line each, so that the match itself is visible.
            found.append(("class:dim", f"  {fit(shown(text.snippet.text), BEFORE).rstrip()}\n"))
            continue
        found += _heading(text)
        found += _body(text)
        found.append(("", "\n"))
    return found


def _heading(text: "PreviewText") -> list[Fragment]:
    place = text.place
    name = shown(place.tool) if place.tool else NAMES.get(place.kind, place.kind)
    if place.tool and place.kind == "result":
        name = f"→ {name}"
    when = ""
    if place.at is not None:
        moment = datetime.fromtimestamp(place.at, UTC).astimezone()
        when = f"  {moment:%Y-%m-%d %H:%M}"
    mark = "▶ " if text.is_match else "  "
    return [("class:match" if text.is_match else "class:dim", f"{mark}{name}{when}"), ("", "\n")]


def _body(text: "PreviewText") -> list[Fragment]:
    """Return a text as styled fragments, with matches marked and control characters removed."""
    style = STYLES.get(text.place.kind, "class:dim")
    snippet = text.snippet
    pieces: list[Fragment] = []
    end = 0
    for start, stop in snippet.marks:
        pieces += [
            (style, _safe(snippet.text[end:start])),
            ("class:mark", _safe(snippet.text[start:stop])),
        ]
        end = stop
    return [*pieces, (style, _safe(snippet.text[end:]).rstrip()), ("", "\n")]


def _safe(text: str) -> str:
    return without_combining(harmless(BLANKS.sub("\n", text).expandtabs(4), keep=r"\n"))
