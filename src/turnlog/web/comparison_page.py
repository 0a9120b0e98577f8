"""Two sessions side by side: their figures, tools and files, and their prompts aligned."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from difflib import SequenceMatcher
from typing import NamedTuple

from turnlog.format.json_values import Fields
from turnlog.index import service
from turnlog.index.reports.session_list import MARK_NOTES, CallSummary, ListedSession, ListFilters
from turnlog.index.sync_policy import deferred_sync
from turnlog.secrets import mask
from turnlog.text import duration, exact_money, short_count
from turnlog.web.library import FoundSession, Library
from turnlog.web.parameters import PageRequest

MOST_PROMPTS = 1_000
"""Maximum number of prompts to align."""
MOST_NAMES = 30
"""Maximum number of tools and of files to compare."""


class ComparedSession(NamedTuple):
    """One of the two sessions."""

    key: str
    title: str
    listed: ListedSession | None
    calls: CallSummary
    prompts: list[str]
    lines: list[int]
    """The line of each prompt."""


def comparison(request: PageRequest) -> Fields:
    """Return the values of the page; without two keys, it explains how to choose sessions."""
    keys = [key for name in "ab" if (key := request.key(name))]
    if len(keys) < 2:
        return {
            "sessions": [],
            "facts": [],
            "cost_notes": [],
            "tools": [],
            "files": [],
            "prompts": [],
            "is_cut": False,
        }
    first, second = (_read(request.library, key) for key in keys)
    return {
        "sessions": [first, second],
        "facts": list(_facts(first, second)),
        "cost_notes": list(_cost_notes(first, second)),
        "tools": _counts(first.calls.tools, second.calls.tools),
        "files": _counts(first.calls.files, second.calls.files),
        "prompts": list(align_prompts(first, second)),
        "is_cut": max(len(each.prompts) for each in (first, second)) == MOST_PROMPTS,
    }


def _read(library: Library, key: str) -> ComparedSession:
    found = library.find(key)
    listed = _listed(library, found)
    with deferred_sync():
        calls = service.call_summary(library.stores, found.path)
    with library.sessions.use(found.store, found.path) as opened:
        pages = opened.pages(None)
        prompts = pages.labels(1, MOST_PROMPTS)
        lines = [(turn.prompt or turn.nodes[0]).line for turn in pages.turns[:MOST_PROMPTS]]
    title = mask(listed.title or "") if listed else ""
    return ComparedSession(key, title or found.path.stem, listed, calls, prompts, lines)


def _listed(library: Library, found: FoundSession) -> ListedSession | None:
    page = library.page(ListFilters(ids=(found.path.stem,)), 0, 20)
    return next((each for _, each in page.sessions if each.path == str(found.path)), None)


def _facts(*pair: ComparedSession) -> Iterator[tuple[str, list[str]]]:
    """Yield rows of the table of facts: a name and a text per session."""
    listed = [session.listed for session in pair]
    for name, text_of in FACTS.items():
        yield name, [mask(text_of(each)) if each else "" for each in listed]


def _cost_notes(*pair: ComparedSession) -> Iterator[str]:
    """Yield the explanation of each mark that the costs have."""
    marks = "".join(session.listed.marks for session in pair if session.listed)
    yield from (f"{mark} {note}" for mark, note in MARK_NOTES.items() if mark in marks)


def _moment(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M")


def _length(session: ListedSession) -> str:
    return "" if session.started is None else duration(session.last_active - session.started)


FACTS: dict[str, Callable[[ListedSession], str]] = {
    "project": lambda session: session.project or "",
    "git branch": lambda session: session.branch or "",
    "models": lambda session: ", ".join(session.models),
    "started": lambda session: _moment(session.started),
    "last active": lambda session: _moment(session.last_active),
    "length": _length,
    "turns, all branches": lambda session: str(session.turns),
    "calls": lambda session: f"{session.calls} ({session.errors} failed)",
    "sub-agents": lambda session: str(session.subagents),
    "tokens": lambda session: short_count(session.tokens),
    "cost": lambda session: f"{exact_money(session.cost_usd)}{session.marks}",
}
"""The table of facts: a name, and the function that formats its value."""


def _counts(first: Mapping[str, int], second: Mapping[str, int]) -> list[tuple[str, int, int]]:
    """Return counts by name, the most frequent first."""
    names = sorted(first.keys() | second.keys())
    names.sort(key=lambda name: -first.get(name, 0) - second.get(name, 0))
    return [(mask(name), first.get(name, 0), second.get(name, 0)) for name in names[:MOST_NAMES]]


def align_prompts(first: ComparedSession, second: ComparedSession) -> Iterator[Fields]:
    """Yield rows with the prompts of both sessions; equal prompts share a row."""
    # `autojunk` stays on, although it may leave frequent prompts ("continue") in long lists
    # unpaired: without it, two sessions of a thousand such prompts take ten seconds.
    matcher = SequenceMatcher(None, first.prompts, second.prompts)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        for step in range(max(i2 - i1, j2 - j1)):
            yield {
                "is_equal": tag == "equal",
                "sides": [
                    _side(first, i1 + step) if i1 + step < i2 else None,
                    _side(second, j1 + step) if j1 + step < j2 else None,
                ],
            }


def _side(session: ComparedSession, place: int) -> Fields:
    return {
        "key": session.key,
        "n": place + 1,
        "line": session.lines[place],
        "text": session.prompts[place],
    }
