"""Add up the work of session files in memory, before any of it is in the index.

The first report of a store takes its figures from here, while the index is still being written. A
tally has the rows that the view `work` returns once the index is built, in the same order, so that
even sums of floating-point numbers are the same. It has no titles: few reports show them.
"""

import os
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from turnlog.conversation.cost import understates_output
from turnlog.index.database import create_in_memory, writing
from turnlog.index.ingest.facts import CallFact, Carry, FileFacts, MessageFact, PromptFact
from turnlog.index.ingest.figure_writer import KEYED, Writer
from turnlog.index.ingest.phases import FigureJob, FigurePart, read_names, read_part
from turnlog.store.catalog import SessionNames
from turnlog.store.parallel import CONTEXT

WHOLE = 1 << 60
"""A limit above the size of any file, so that each is read in one part."""
UNANSWERED = ("command", "bash_input")
"""Kinds of prompts that are turns only if a model answered."""

WorkRow = tuple[Any, ...]
"""The columns of `work` without the file."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(FileFacts).decode
_counts = itemgetter(0, 1, 2, 3, 4)


class TalliedFile(NamedTuple):
    """The work of one file, added up as if no other file had a copy of it."""

    path: str
    session: str | None
    project: str | None
    started: float | None
    ended: float | None
    keys: tuple[list[str], ...]
    """Keys of its prompts, messages and calls, by which copies in other files are recognized."""
    work: list[WorkRow]
    facts: range
    """Position in the spool of all its facts, from which the index is written later."""

    def part(self, job: FigureJob, spool: "FactSpool") -> FigurePart:
        """Return the file's figures in the form that the index writer takes."""
        names = read_names(job.source)
        return FigurePart(job._replace(carry=Carry()), 0, spool.read(self.facts), names)


class FactSpool:
    """Facts of files, in memory that several processes share.

    Sending them through the pipes of a pool would copy them four times while other processes wait.
    """

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("turnlog-facts")
        self._end = CONTEXT.Value("q", 0)

    def add(self, facts: FileFacts) -> range:
        """Append facts; return the range of bytes that they occupy."""
        content = _encode(facts)
        # Only reserve the space under the lock: processes write their facts at the same time.
        with self._end.get_lock():
            place = range(self._end.value, self._end.value + len(content))
            self._end.value = place.stop
        written = 0
        while written < len(content):
            written += os.pwrite(self.descriptor, content[written:], place.start + written)
        return place

    def read(self, place: range) -> FileFacts:
        content = bytearray()
        while piece := os.pread(
            self.descriptor, len(place) - len(content), place.start + len(content)
        ):
            content += piece
        return _decode(content)

    def close(self) -> None:
        os.close(self.descriptor)


class StoreTally(NamedTuple):
    """The work of all files of a store."""

    files: list[TalliedFile]
    jobs: dict[str, FigureJob]
    """The job that read each file, by path."""
    spool: FactSpool


def tally_file(job: FigureJob, spool: FactSpool) -> TalliedFile | None:
    """Read a new file and add up its work; return None if it cannot be read."""
    part = read_part(job, WHOLE)
    if part is None:
        return None
    facts, source = part.facts, job.source
    if source.is_subagent:
        facts.mark_subagent()
    return TalliedFile(
        source.name,
        source.owner or facts.session,
        facts.cwd,
        facts.started,
        facts.ended,
        ([prompt.key for prompt in facts.prompts], list(facts.said), list(facts.uses)),
        [*_add_messages(facts), *_add_calls(facts), *_add_turns(facts)],
        spool.add(facts),
    )


def _add_messages(facts: FileFacts) -> Iterator[WorkRow]:
    groups: defaultdict[WorkRow, list[MessageFact]] = defaultdict(list)
    for said in facts.said.values():
        groups[_quarter(said.at), said.model, said.branch, said.is_subagent].append(said)
    for group, members in groups.items():
        # In the order of the database index that the report reads, for the sum of costs.
        figures = sorted((said.figures for said in members), key=_counts)
        *counts, _, costs = zip(*figures, strict=True)
        sums = [sum(each) for each in counts]
        known = [cost for cost in costs if cost is not None]
        understated = sum(understates_output(said.version) for said in members)
        unpriced = len(costs) - len(known)
        work = (len(members), sum(sums), *sums, sum(known) if known else None)
        yield (*group, 0, 0.0, 0.0, *work, unpriced, understated, 0, 0, 0, 0)


def _add_calls(facts: FileFacts) -> Iterator[WorkRow]:
    groups: defaultdict[WorkRow, list[CallFact]] = defaultdict(list)
    for use in facts.uses.values():
        groups[_quarter(use.at), use.model, use.branch, use.is_subagent].append(use)
    for group, members in groups.items():
        errors = sum(bool(use.is_error) and not use.is_rejected for use in members)
        added, removed = sum(use.added for use in members), sum(use.removed for use in members)
        yield (*group, *NO_MESSAGES, len(members), errors, added, removed)


NO_MESSAGES = (0, 0.0, 0.0, 0, 0, 0, 0, 0, 0, 0, None, 0, 0)


def _add_turns(facts: FileFacts) -> Iterator[WorkRow]:
    for prompt in facts.prompts:
        if prompt.model is not None or prompt.kind not in UNANSWERED:
            yield _turn(prompt)


def _turn(prompt: PromptFact) -> WorkRow:
    elapsed = None if prompt.at is None or prompt.ended is None else prompt.ended - prompt.at
    seconds = elapsed if prompt.working is None else prompt.working
    figures = (1, seconds, elapsed, *NO_MESSAGES[3:], 0, 0, 0, 0)
    return (_quarter(prompt.at), prompt.model, prompt.branch, 0, *figures)


def _quarter(at: float | None) -> int | None:
    # Towards zero, like the CAST of the index's column.
    return None if at is None else int(at / 900)


def assemble(tally: StoreTally) -> sqlite3.Connection:
    """Return a database in memory that answers reports on work from tallied files."""
    db, files, jobs = create_in_memory(), tally.files, tally.jobs
    with writing(db):
        db.executemany(ADD_FILE, (_file_row(jobs[file.path], file) for file in files))
        copied = _write_copies(db, tally)
        db.execute("CREATE TABLE tally AS SELECT * FROM work")
        rows = (
            (id_, *row)
            for id_, file in enumerate(files, 1)
            if file.path not in copied
            for row in file.work
        )
        db.executemany(f"INSERT INTO tally VALUES ({', '.join('?' * 22)})", rows)
    db.executescript(REPLACE_WORK)
    return db


def _file_row(job: FigureJob, file: TalliedFile) -> tuple[Any, ...]:
    source = job.source
    described = file.session, source.is_subagent, file.project
    return source.name, source.store, source.stem, *described, file.started, file.ended


def _write_copies(db: sqlite3.Connection, tally: StoreTally) -> set[str]:
    """Write the files that share a key with another one, so that exactly one copy counts."""
    # Few files have copies, and only the writer has the rules for deduping them. For all other
    # files, sums are enough.
    shared = [_repeated(file.keys[rank] for file in tally.files) for rank in range(len(KEYED))]
    writer, copied = Writer(db), set[str]()
    for file in tally.files:
        if any(not own.isdisjoint(keys) for own, keys in zip(shared, file.keys, strict=True)):
            copied.add(file.path)
            source, facts = tally.jobs[file.path].source, tally.spool.read(file.facts)
            writer.add(source, facts, SessionNames(), is_known=False)
    writer.end_first_build()
    return copied


def _repeated(lists: Iterable[list[str]]) -> set[str]:
    """Return the keys that occur more than once, in one list or in several.

    >>> sorted(_repeated([["a", "b"], ["b", "c", "c"]]))
    ['b', 'c']
    """
    seen, repeated = set[str](), set[str]()
    for keys in lists:
        own = set(keys)
        repeated |= seen & own
        seen |= own
        if len(own) < len(keys):
            repeated.update(key for key in own if keys.count(key) > 1)
    return repeated


ADD_FILE = """
INSERT INTO files (path, store, opened_by, session, is_subagent, project, started, ended,
    size, mtime_ns, inode, reached, carry)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, '')
"""

# The same order as in the view: messages, calls, turns. Messages and calls are in the order of the
# database index that they are read from, turns in the order in which they were written.
REPLACE_WORK = """
DROP VIEW work;
CREATE TABLE work AS
SELECT * FROM tally ORDER BY
    messages = 0, turns, file, CASE turns WHEN 0 THEN quarter END, CASE turns WHEN 0 THEN model END,
    CASE turns WHEN 0 THEN branch END, CASE turns WHEN 0 THEN is_subagent END, rowid;
DROP TABLE messages;
CREATE TABLE messages AS SELECT file, quarter, model, 1 AS counts FROM work WHERE messages > 0;
CREATE INDEX messages_at_work ON messages (counts, file);
"""
