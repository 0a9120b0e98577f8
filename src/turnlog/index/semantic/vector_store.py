"""The vectors of an index: written along with the words of a file, deleted with the file.

Of each file, `vectors_doc` is the last text that was looked at, so vectors continue where they
stopped. All vectors of an index are of one model.
"""

import sqlite3
from collections.abc import Sequence
from heapq import nsmallest
from struct import pack, unpack
from typing import NamedTuple

from turnlog.index.database import writing
from turnlog.index.semantic.vector_codes import StoredVector, cosine, distances, values_of

RESCORED = 250
"""Texts whose codes are nearest, and whose rows are compared."""


class TextVector(NamedTuple):
    """The vector of a text, given by its number in `docs`."""

    doc: int
    vector: StoredVector


class SimilarText(NamedTuple):
    doc: int
    similarity: float
    """The cosine of the angle between the vectors."""


class _Place(NamedTuple):
    """Where a vector is stored."""

    batch: int
    position: int
    doc: int


def stored_model(db: sqlite3.Connection) -> str | None:
    """Return the name of the model of the vectors; None before the first search for a meaning."""
    row = db.execute("SELECT value FROM about WHERE name = 'vectors_model'").fetchone()
    return row[0] if row else None


def use_model(db: sqlite3.Connection, name: str) -> None:
    """Have the index hold the vectors of a model; those of another one are deleted."""
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
        row for docs, rows in db.execute(statement, (path,)) for row in _split(rows, len(docs) // 8)
    ]


class Nearest:
    """The texts of an index by their similarity to a vector, the most similar first."""

    def __init__(self, db: sqlite3.Connection, vector: StoredVector) -> None:
        self.db = db
        self.wanted = values_of(vector.row)
        self.places: list[_Place] = []
        self.distances: list[int] = []
        for batch, docs, codes in db.execute("SELECT id, docs, codes FROM vectors"):
            numbers = unpack(f"<{len(docs) // 8}q", docs)
            # A code of another size is of a model that another process chose in the meantime.
            if len(codes) == len(numbers) * len(vector.code):
                self.distances += distances(vector.code, codes)
                self.places += [_Place(batch, *pair) for pair in enumerate(numbers)]

    def best(self, start: int, count: int = RESCORED) -> list[SimilarText]:
        """Return the texts whose codes are nearest, from a place in that order on."""
        numbers = nsmallest(start + count, range(len(self.places)), self.distances.__getitem__)
        places = [self.places[number] for number in numbers[start:]]
        found = [SimilarText(place.doc, self._similarity(place)) for place in places]
        return sorted(found, key=lambda each: -each.similarity)

    def _similarity(self, place: _Place) -> float:
        size = len(self.wanted)
        found = self.db.execute(
            "SELECT substr(rows, ?, ?) FROM vectors WHERE id = ?",
            (place.position * size + 1, size, place.batch),
        ).fetchone()
        # Another process may have deleted it since.
        return cosine(values_of(found[0]), self.wanted) if found else 0.0


def _split(rows: bytes, count: int) -> Sequence[bytes]:
    size = len(rows) // max(1, count)
    return [rows[start : start + size] for start in range(0, len(rows), max(1, size))]
