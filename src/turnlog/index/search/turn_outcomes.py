"""Find the last answer of the turn that a search hit belongs to."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from turnlog.index.known_files import Files
from turnlog.index.search.hit_lines import Reader
from turnlog.index.searchable_texts import texts_in
from turnlog.secrets import mask

LineOf = tuple[str, int]
"""The path of a session's file, and a line of it."""


class TurnOutcome(Struct, frozen=True):
    """The last answer of a turn, masked."""

    line: int
    at: float | None
    text: str


def turn_outcomes(
    db: sqlite3.Connection, lines: Iterable[LineOf], archive: Path | None
) -> dict[LineOf, TurnOutcome]:
    """Return the last answer of the turn that each line is in, where there is one."""
    found: dict[LineOf, TurnOutcome] = {}
    files = Files(db)
    with closing(Reader(archive)) as reader:
        for path, line in lines:
            row = db.execute(LAST_ANSWER, {"path": path, "line": line}).fetchone()
            if row is None:
                continue
            file, at_line, offset, size, at = row
            text = "\n".join(texts_in(reader.line(files[file], offset, size), "answer"))
            if text:
                found[path, line] = TurnOutcome(at_line, at, mask(text))
    return found


def last_outcome(db: sqlite3.Connection, path: str, archive: Path | None) -> TurnOutcome | None:
    """Return the last answer of a session."""
    row = db.execute(
        "SELECT max(line) FROM docs WHERE file = (SELECT id FROM files"
        " WHERE path = ?) AND kind = 'answer'",
        (path,),
    ).fetchone()
    if row is None or row[0] is None:
        return None
    return next(iter(turn_outcomes(db, [(path, row[0])], archive).values()), None)


# The turn ends at the next prompt of the file.
LAST_ANSWER = """
SELECT d.file, d.line, d.offset, d.size, d.at FROM docs d
WHERE d.file = (SELECT id FROM files WHERE path = :path) AND d.kind = 'answer'
    AND d.line >= :line
    AND d.line < coalesce((SELECT min(p.line) FROM prompts p WHERE p.file = d.file
        AND p.line > :line), 9e18)
ORDER BY d.id DESC LIMIT 1
"""
