"""The two phases of a sync: figures always, words only for searches.

Reports need only figures, which take a fraction of the time that words take. Both continue where
they stopped; words never go beyond the figures.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from turnlog.errors import Damaged
from turnlog.format.jsonl import Line, read_lines, read_raw_lines
from turnlog.index.ingest.fact_reader import read_facts
from turnlog.index.ingest.facts import Carry, FileFacts
from turnlog.index.ingest.figure_writer import KnownFile, SourceFile, Writer
from turnlog.index.ingest.text_reader import Docs, read_docs
from turnlog.index.ingest.text_writer import PartVectors, Wordless, WordWriter
from turnlog.index.ingest.workers import Phase
from turnlog.index.semantic.embedding_models import TextChoice
from turnlog.store.catalog import SessionNames, names_of


class FigureJob(NamedTuple):
    """A file whose figures are to be read, starting at the offset in `carry`."""

    source: SourceFile
    carry: Carry
    is_new: bool
    """True if existing rows of the file are to be replaced."""
    known: KnownFile | None
    """The state of those rows when the job was planned."""

    @property
    def size(self) -> int:
        return max(0, self.source.state.size - self.carry.bookmark.offset)


class FigurePart(NamedTuple):
    """The figures of a part of a file."""

    job: FigureJob
    start: int
    """Offset of its first byte."""
    facts: FileFacts
    names: SessionNames = SessionNames()
    """Set in the last part only."""

    @property
    def size(self) -> int:
        return self.facts.carry.bookmark.offset - self.start


def read_figures(job: FigureJob, limit: int) -> Iterator[FigurePart]:
    """Yield the figures of a file in parts of at most `limit` bytes plus one line."""
    waiting: FigureJob | None = job
    while waiting and (part := read_part(waiting, limit)):
        yield part._replace(names=read_names(job.source)) if part.facts.is_last else part
        rest = part.job._replace(carry=part.facts.carry, is_new=False)
        waiting = None if part.facts.is_last else rest


def read_part(job: FigureJob, limit: int) -> FigurePart | None:
    """Read a part of a file without its names; return None if the file no longer exists."""
    source, start = job.source, job.carry.bookmark.offset
    try:
        facts = read_facts(source.stem, _raws(source, start), job.carry, source.owner, limit)
    except (OSError, Damaged):
        return None
    return FigurePart(job._replace(carry=Carry()), start, facts)


def _lines(source: SourceFile, start: int) -> Iterator[Line]:
    return source.archived.lines(start) if source.archived else read_lines(source.name, start)


def _raws(source: SourceFile, start: int) -> Iterator[bytes]:
    if source.archived:
        return (line.raw for line in source.archived.lines(start))
    return read_raw_lines(source.name, start)


def read_names(source: SourceFile) -> SessionNames:
    """Return the names of a session; none if it no longer exists."""
    if source.is_subagent:
        return SessionNames()
    archived = source.archived
    try:
        return archived.names if archived else names_of(source.path)
    except OSError:
        return SessionNames()


def _write_figures(db: sqlite3.Connection, parts: Sequence[FigurePart]) -> None:
    writer = Writer(db)
    for part in parts:
        _write_part(writer, part)
    writer.settle()


def _write_part(writer: Writer, part: FigurePart) -> None:
    """Write a part, unless another process already wrote it."""
    job, path = part.job, part.job.source.name
    # Files are read outside of the transaction, so two syncs may read the same lines at once. The
    # rows decide: a part counts only if the index has read the file exactly up to the start of the
    # part. For example A and B both read bytes 0-900. A commits first, so `reached` is 900 when B
    # gets the write lock; B expects 0 and drops its part. Otherwise every message would be added
    # twice.
    known = writer.known(path)
    if job.is_new:
        # Rows that changed since planning and match the file came from a faster process. Rows of
        # another state, such as those of a file that was rewritten again, are replaced.
        if known and known != job.known and known.is_of(job.source):
            return
        if known:
            writer.remove(path)
    elif known is None or known.reached != part.start:
        return
    writer.add(job.source, part.facts, part.names, is_known=not job.is_new)


class WordJob(NamedTuple):
    """A file whose texts are to be read up to where its figures end."""

    source: SourceFile
    file: Wordless
    is_embedded: bool = False
    """True to embed the texts as well, with the static model."""

    @property
    def size(self) -> int:
        return self.file.size


class WordPart(NamedTuple):
    """The texts of a part of a file."""

    file: Wordless
    docs: Docs
    vectors: PartVectors | None

    @property
    def size(self) -> int:
        return self.docs.carry.bookmark.offset - self.file.carry.bookmark.offset


def _read_words(job: WordJob, limit: int) -> Iterator[WordPart]:
    file = job.file
    while file.size > 0:
        start = file.carry.bookmark.offset
        try:
            lines = _lines(job.source, start)
            end = min(start + limit, file.reached)
            docs = read_docs(job.source.stem, lines, file.carry, end)
        except (OSError, Damaged):
            return
        if docs.carry.bookmark.offset == start:  # truncated since its figures were read
            return
        yield WordPart(file, docs, _embed_docs(docs) if job.is_embedded else None)
        file = file._replace(carry=docs.carry)


def _embed_docs(docs: Docs) -> PartVectors:
    # The vocabulary is loaded for the first text only: an index without vectors never needs it.
    from turnlog.index.semantic.static_model import static_model

    choice, model = TextChoice(), static_model()
    chosen = [
        place
        for place, doc in enumerate(docs.found)
        if choice.is_worth_embedding(doc.kind, doc.text)
    ]
    vectors = model.embed_texts(docs.found[place].text for place in chosen)
    pairs = zip(chosen, vectors, strict=True)
    return PartVectors(model.name, [(place, vector) for place, vector in pairs if vector])


def _write_words(db: sqlite3.Connection, parts: Sequence[WordPart]) -> None:
    writer = WordWriter(db)
    for part in parts:
        writer.add(part.file, part.docs, part.vectors)
    writer.finish()


FIGURES = Phase(read_figures, _write_figures)
WORDS = Phase(_read_words, _write_words)
