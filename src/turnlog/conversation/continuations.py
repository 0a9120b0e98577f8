"""Links between sessions: the one that a session was resumed or forked from, and its successors."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from turnlog.format.decode import read_entries
from turnlog.format.entries import ChainEntry
from turnlog.format.fields import given
from turnlog.format.jsonl import read_lines
from turnlog.format.regular_files import is_readable
from turnlog.format.state import ContinuedIn
from turnlog.store.paths import is_session_name

MARK = b'"continued-in"'


@dataclass(frozen=True, slots=True)
class Links:
    """The ids of a session's predecessor and successors; deleted sessions are listed too."""

    previous: str | None
    next: list[str]


def links_of(path: Path) -> Links:
    """Return the ids of the session that a file continues and of those that continue it."""
    # A file may lack `continued-in` lines. A follower is then recognised by its own first entry,
    # which still carries the id of the session it was copied from.
    recorded = [given(entry.continued_in_session_id) for entry in _continued(path)]
    followers = [other.stem for other in _neighbours(path) if previous_of(other) == path.stem]
    return Links(previous_of(path), list(dict.fromkeys([*filter(None, recorded), *followers])))


def previous_of(path: Path) -> str | None:
    """Return the id of the session whose entries this file starts with, or None."""
    for _, entry in read_entries(path):
        if isinstance(entry, ChainEntry):
            origin = given(entry.forked_from)
            forked = given(origin.session_id) if origin else None
            found = forked or given(entry.session_id)
            return found if found != path.stem else None
    return None


def _continued(path: Path) -> Iterator[ContinuedIn]:
    # Searching raw bytes first is much cheaper than decoding every line of a file without the mark.
    if any(MARK in line.raw for line in read_lines(path)):
        for _, entry in read_entries(path):
            if isinstance(entry, ContinuedIn):
                yield entry


def _neighbours(path: Path) -> Iterator[Path]:
    for other in sorted(path.parent.glob("*.jsonl")):
        if is_session_name(other.name) and other != path and is_readable(other):
            yield other
