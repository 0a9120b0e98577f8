"""Write texts into the full-text index."""

import sqlite3
from typing import NamedTuple

import msgspec

from turnlog.format.jsonl import FileState
from turnlog.index.ingest.text_reader import Doc, DocCarry, Docs
from turnlog.index.semantic.vector_codes import StoredVector
from turnlog.index.semantic.vector_store import TextVector, add_vectors, stored_model
from turnlog.index.tokenizer import in_column

_encode = msgspec.json.Encoder().encode
_decode_carry = msgspec.json.Decoder(DocCarry).decode


class Wordless(NamedTuple):
    """A file whose texts are not fully indexed."""

    id: int
    path: str
    state: FileState
    """Its state when the figures were read."""
    reached: int
    is_gone: bool
    carry: DocCarry

    @property
    def size(self) -> int:
        """The number of bytes left to read."""
        return self.reached - self.carry.bookmark.offset


class PartVectors(NamedTuple):
    """The vectors of a part's texts."""

    model: str
    found: list[tuple[int, StoredVector]]
    """Each vector with the position of its text in the part."""


def wordless_files(db: sqlite3.Connection) -> list[Wordless]:
    """Return the files whose texts are not fully indexed."""
    rows = db.execute(
        "SELECT id, path, inode, size, mtime_ns, reached, is_gone, words_carry FROM files"
        " WHERE words_reached < reached"
    )
    return [
        Wordless(id_, path, FileState(*state), reached, bool(gone), _decode_carry(carry))
        for id_, path, *state, reached, gone, carry in rows
    ]


class WordWriter:
    """Writes texts within one transaction."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        row = db.execute("SELECT value FROM about WHERE name = 'next_doc'").fetchone()
        self.next_doc: int = row[0]

    def add(self, file: Wordless, docs: Docs, vectors: PartVectors | None = None) -> None:
        """Add the texts of a part, unless the file changed or another process was faster."""
        row = self.db.execute(
            "SELECT id, inode, size, mtime_ns, words_reached, reached, vectors_doc = last_doc"
            " FROM files WHERE path = ?",
            (file.path,),
        ).fetchone()
        start = file.carry.bookmark.offset
        if row is None or row[:5] != (file.id, *file.state, start):
            return
        end = docs.carry.bookmark.offset
        # A torn last line may have been completed since the figures were read. Its texts refer to
        # a prompt that has no row yet, so they wait for the next sync.
        if end <= row[5]:
            first = self.next_doc
            self._add_docs(file.id, docs.found)
            last = self.next_doc - 1 if docs.found else None
            self.db.execute(
                "UPDATE files SET words_reached = ?, words_carry = ?,"
                " last_doc = coalesce(?, last_doc) WHERE id = ?",
                (end, _encode(docs.carry).decode(), last, file.id),
            )
            # If vectors of earlier texts are missing, `embed_missing` makes all of them later.
            if vectors and last and row[6] and stored_model(self.db) == vectors.model:
                found = [TextVector(first + place, vector) for place, vector in vectors.found]
                add_vectors(self.db, file.id, last, found)

    def finish(self) -> None:
        """Store the next free document id."""
        self.db.execute("UPDATE about SET value = ? WHERE name = 'next_doc'", (self.next_doc,))

    def _add_docs(self, file: int, docs: list[Doc]) -> None:
        first = self.next_doc
        self.next_doc += len(docs)
        prompts: list[int | None] = [None]
        statement = "SELECT id FROM prompts WHERE file = ? ORDER BY id"
        prompts += [id_ for (id_,) in self.db.execute(statement, (file,))]
        self.db.executemany(
            "INSERT INTO docs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            ((id_, file, *doc[:-2], prompts[doc.prompt]) for id_, doc in enumerate(docs, first)),
        )
        self.db.executemany(
            "INSERT INTO words (rowid, asked, said, done) VALUES (?, ?, ?, ?)",
            ((id_, *in_column(doc.kind, doc.text)) for id_, doc in enumerate(docs, first)),
        )
