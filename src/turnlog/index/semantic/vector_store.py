"""The vectors of an index: written along with the words of a file, deleted with the file.

The column `vectors_doc` of a file names the last text that was processed, so that embedding resumes
where it stopped. All vectors of an index are of one model.
"""

import sqlite3
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from struct import pack, unpack_from
from typing import NamedTuple

from turnlog.index.database import writing
from turnlog.index.semantic.vector_codes import (
    StoredVector,
    cosines,
    distances,
    nearest_places,
    values_of,
)

DOC = 8
"""Size in bytes of the number of a text."""
RESCORED = 250
"""Number of texts with the nearest codes whose rows are compared."""


class TextVector(NamedTuple):
    """The vector of a text, given by its number in `docs`."""

    doc: int
    vector: StoredVector


class SimilarText(NamedTuple):
    doc: int
    similarity: float
    """The cosine of the angle between the vectors."""


def stored_model(db: sqlite3.Connection) -> str | None:
    """Return the name of the model of the vectors; None before the first search by meaning."""
    row = db.execute("SELECT value FROM about WHERE name = 'vectors_model'").fetchone()
    return row[0] if row else None


def use_model(db: sqlite3.Connection, name: str) -> None:
    """Switch the index to a model; delete the vectors of another one."""
    if stored_model(db) == name:
        return
    with writing(db):
        db.execute("DELETE FROM vectors")
        db.execute("UPDATE files SET vectors_doc = 0")
        db.execute("INSERT OR REPLACE INTO about VALUES ('vectors_model', ?)", (name,))


def is_incomplete(db: sqlite3.Connection) -> bool:
    """Return whether texts were indexed without their vectors."""
    statement = "SELECT 1 FROM files WHERE vectors_doc < last_doc LIMIT 1"
    return db.execute(statement).fetchone() is not None


def add_vectors(db: sqlite3.Connection, file: int, last: int, found: list[TextVector]) -> None:
    """Add the vectors of a file's texts up to number `last`, within the caller's transaction."""
    if found:
        docs = pack(f"<{len(found)}q", *(each.doc for each in found))
        codes = b"".join(each.vector.code for each in found)
        rows = b"".join(each.vector.row for each in found)
        db.execute(
            "INSERT INTO vectors (file, docs, codes, rows) VALUES (?, ?, ?, ?)",
            (file, docs, codes, rows),
        )
    db.execute("UPDATE files SET vectors_doc = ? WHERE id = ?", (last, file))


def rows_of_session(db: sqlite3.Connection, path: str) -> list[bytes]:
    """Return the vectors of a session, given by its file, without those of its sub-agents."""
    statement = (
        "SELECT v.docs, v.rows FROM vectors v JOIN files f ON f.id = v.file WHERE f.path = ?"
    )
    return [
        row
        for docs, rows in db.execute(statement, (path,))
        for row in _split(rows, len(docs) // DOC)
    ]


class Nearest:
    """The texts of an index by their similarity to a vector, the most similar first."""

    def __init__(self, db: sqlite3.Connection, vector: StoredVector) -> None:
        self.db = db
        self.wanted = values_of(vector.row)
        size = len(vector.code)
        batches = [
            (batch, docs, codes)
            for batch, docs, codes in db.execute("SELECT id, docs, codes FROM vectors")
            # A code of another size is of a model that another process chose in the meantime.
            if len(codes) == len(docs) // DOC * size
        ]
        self.batches: list[int] = [batch for batch, _, _ in batches]
        self.ends = [*accumulate(len(docs) // DOC for _, docs, _ in batches)]
        """The number of texts up to the end of each batch."""
        self.docs = b"".join(docs for _, docs, _ in batches)
        self.distances = distances(vector.code, b"".join(codes for _, _, codes in batches))

    def __len__(self) -> int:
        return len(self.distances)

    def best(self, start: int, count: int = RESCORED) -> list[SimilarText]:
        """Return the texts with the nearest codes from rank `start` on, the most similar first."""
        places = nearest_places(self.distances, start, start + count)
        found = cosines(self.wanted, map(self._row, places))
        docs = (unpack_from("<q", self.docs, DOC * place)[0] for place in places)
        return sorted(map(SimilarText, docs, found), key=lambda each: -each.similarity)

    def _row(self, place: int) -> bytes:
        """Return a vector; an empty one if another process has deleted it since."""
        batch = bisect_right(self.ends, place)
        position = place - (self.ends[batch - 1] if batch else 0)
        size = len(self.wanted)
        found = self.db.execute(
            "SELECT substr(rows, ?, ?) FROM vectors WHERE id = ?",
            (position * size + 1, size, self.batches[batch]),
        ).fetchone()
        return found[0] if found else b""


def _split(rows: bytes, count: int) -> Sequence[bytes]:
    size = len(rows) // count
    return [rows[start : start + size] for start in range(0, len(rows), size)]
