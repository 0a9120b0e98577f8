"""Make the vectors that an index lacks, from the lines of texts that are indexed already.

Needed for an index that was built before the first search by meaning, after a change of the model,
and for endpoints. Vectors of appended lines are otherwise made along with their words.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from json import dumps
from pathlib import Path
from typing import NamedTuple

from turnlog.index.database import writing
from turnlog.index.ingest.workers import Progress
from turnlog.index.known_files import File, Files
from turnlog.index.search.hit_lines import Reader
from turnlog.index.searchable_texts import text_at
from turnlog.index.semantic.embedding_models import KINDS, EmbeddingModel, TextChoice
from turnlog.index.semantic.vector_store import TextVector, add_vectors, stored_model
from turnlog.index.tokenizer import searchable

BATCH = 512
"""Texts whose vectors are written in one transaction."""
TYPICAL = 16 << 10
"""Bytes that each text counts as, because progress is measured in bytes."""


class _TextBatch(NamedTuple):
    """Consecutive texts of a file."""

    file: int
    start: int
    """The number of the last text before the batch."""
    end: int
    docs: list[tuple[int, str]]
    """The number of each text, and the text."""


def embed_missing(
    db: sqlite3.Connection, model: EmbeddingModel, archive: Path | None, progress: Progress
) -> None:
    """Make the vectors of all texts that have none yet; an interrupted run loses one batch."""
    waiting = db.execute(
        "SELECT id, vectors_doc, last_doc FROM files WHERE vectors_doc < last_doc"
    ).fetchall()
    total = sum(last - start for _, start, last in waiting)
    done = 0
    files = Files(db)
    with closing(Reader(archive)) as reader:
        for number, start, last in waiting:
            if not _is_known(db, number):
                continue
            for batch in _batches(files, reader, files[number], start, last):
                _write(db, model, batch)
                done += batch.end - batch.start
                progress(done * TYPICAL, total * TYPICAL)


def _is_known(db: sqlite3.Connection, number: int) -> bool:
    """Return whether a file is still in the index: another process may have removed it."""
    return db.execute("SELECT 1 FROM files WHERE id = ?", (number,)).fetchone() is not None


def _batches(
    files: Files, reader: Reader, file: File, start: int, last: int
) -> Iterator[_TextBatch]:
    """Yield the texts of a file in order."""
    rows = files.db.execute(
        "SELECT id, offset, size, part, kind FROM docs WHERE file = ? AND id BETWEEN ? AND ?"
        " AND kind IN (SELECT value FROM json_each(?)) ORDER BY id",
        (file.id, start + 1, last, dumps(KINDS)),
    ).fetchall()
    choice = TextChoice()
    docs: list[tuple[int, str]] = []
    for doc, offset, size, part, kind in rows:
        if len(docs) >= BATCH:
            yield _TextBatch(file.id, start, docs[-1][0], docs)
            start, docs = docs[-1][0], []
        text = searchable(text_at(reader.line(file, offset, size), part))
        if choice.is_worth_embedding(kind, text):
            docs.append((doc, text))
    yield _TextBatch(file.id, start, last, docs)


def _write(db: sqlite3.Connection, model: EmbeddingModel, batch: _TextBatch) -> None:
    """Embed texts and write their vectors, unless another process was faster."""
    vectors = model.embed_texts(text for _, text in batch.docs)
    pairs = zip(batch.docs, vectors, strict=True)
    found = [TextVector(doc, vector) for (doc, _), vector in pairs if vector]
    with writing(db):
        row = db.execute("SELECT vectors_doc FROM files WHERE id = ?", (batch.file,)).fetchone()
        if row == (batch.start,) and stored_model(db) == model.name:
            add_vectors(db, batch.file, batch.end, found)
