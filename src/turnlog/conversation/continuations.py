"""Sessions that go on with another one: resumed into a new file, forked, or cleared."""

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
    """The sessions next to one, by their ids; those that are gone are named all the same."""

    previous: str | None
    next: list[str]


def links_of(path: Path) -> Links:
    """What a session goes on with, and what goes on with it."""
    told = [given(entry.continued_in_session_id) for entry in _continued(path)]
    followers = [each.stem for each in _neighbours(path) if previous_of(each) == path.stem]
    return Links(previous_of(path), list(dict.fromkeys([*filter(None, told), *followers])))


def previous_of(path: Path) -> str | None:
    """The session whose lines this one starts with: its first entry has that one's id."""
    for _, entry in read_entries(path):
        if isinstance(entry, ChainEntry):
            origin = given(entry.forked_from)
            forked = given(origin.session_id) if origin else None
            found = forked or given(entry.session_id)
            return found if found != path.stem else None
    return None


def _continued(path: Path) -> Iterator[ContinuedIn]:
    if any(MARK in line.raw for line in read_lines(path)):
        for _, entry in read_entries(path):
            if isinstance(entry, ContinuedIn):
                yield entry


def _neighbours(path: Path) -> Iterator[Path]:
    for each in sorted(path.parent.glob("*.jsonl")):
        if is_session_name(each.name) and each != path and is_readable(each):
            yield each
