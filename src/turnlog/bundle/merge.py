"""Compare a session of a bundle with the same session in the store.

Lines count as equal if they are the same after redaction. The sender of a redacted bundle still has
the secrets: a session that a colleague continued must extend the sender's own, not become a fork.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from functools import cached_property
from itertools import islice
from pathlib import Path

from turnlog.edit.redact.redaction import find_all
from turnlog.edit.redact.replacement import RedactedPart, RedactionFinds, redact_json, redact_part
from turnlog.edit.redact.secret_finder import Finder
from turnlog.edit.tracked_files import without_foreign_files
from turnlog.format.jsonl import read_lines
from turnlog.store.footprint import footprint_of
from turnlog.store.paths import Store


class Relation(StrEnum):
    """The relation of a bundled session to the same session in the store."""

    NEW = "new"
    """The store has no session with this id."""
    SAME = "same"
    BEHIND = "behind"
    """The session in the store has everything, and more."""
    AHEAD = "ahead"
    """The bundle continues the session in the store."""
    DIVERGED = "diverged"
    """Both were continued."""


class LineComparison:
    """Compares lines with those of a session in the store."""

    def __init__(self, store: Store, session: Path, directory: str, is_redacted: bool) -> None:
        self._store, self._session, self._is_redacted = store, session, is_redacted
        self._directory = directory

    @cached_property
    def _finder(self) -> Finder:
        found = footprint_of(self._store, self._session)
        parts = [RedactedPart(path) for path in found.files]
        return find_all(parts, (), lambda count: None)[1]

    def are_equal(self, own: bytes, other: bytes) -> bool:
        """Return whether a line of the store and one of the bundle are the same."""
        own, other = own.rstrip(b"\r\n"), other.rstrip(b"\r\n")
        if own == other:
            return True
        # An import removes tracked files outside of the project; the sender's line still has them.
        own, other = (without_foreign_files(raw, self._directory)[0] for raw in (own, other))
        if own == other or not self._is_redacted:
            return own == other
        return self._redacted(own) == self._redacted(other)

    def is_redacted_from(self, own: Path, other: bytes) -> bool:
        """Return whether a text of the bundle is a file of the store with its secrets replaced."""
        if not self._is_redacted:
            return False
        pieces = redact_part(RedactedPart(own), self._finder, RedactionFinds())
        return b"".join(pieces) == other

    def _redacted(self, raw: bytes) -> str:
        text = raw.decode("utf-8", "surrogateescape")
        return redact_json(text, self._finder, lambda at, span: None)


def relation_of(own: Path, other: Path, are_equal: Callable[[bytes, bytes], bool]) -> Relation:
    """Return how the log `other` relates to `own`: the same, ahead, behind or diverged."""
    ours, theirs = _lines(own), _lines(other)
    while True:
        one, two = next(ours, None), next(theirs, None)
        if one is None or two is None:
            break
        if not are_equal(one, two):
            return Relation.DIVERGED
    if one is None and two is None:
        return Relation.SAME
    return Relation.AHEAD if one is None else Relation.BEHIND


def combined(relations: Iterable[Relation]) -> Relation:
    """Return the relation of a session from those of its logs.

    Nothing may be lost: a session with one log ahead and another one behind diverged.

    >>> combined([Relation.SAME, Relation.AHEAD]), combined([Relation.BEHIND, Relation.AHEAD])
    (<Relation.AHEAD: 'ahead'>, <Relation.DIVERGED: 'diverged'>)
    """
    found = set(relations) - {Relation.SAME}
    if not found:
        return Relation.SAME
    return found.pop() if len(found) == 1 else Relation.DIVERGED


def extended(own: Path, other: Path) -> Iterator[bytes]:
    """Yield the lines of the log `own`, then those that `other` has in addition."""
    count = 0
    for count, raw in enumerate(_lines(own), 1):  # noqa: B007
        yield raw if raw.endswith(b"\n") else raw + b"\n"
    yield from islice(_lines(other), count, None)


def _lines(path: Path) -> Iterator[bytes]:
    return (line.raw for line in read_lines(path))
