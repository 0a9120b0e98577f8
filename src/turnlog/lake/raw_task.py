"""A task of a raw ingestion: read some raw files and write their units to the lake.

A task may run on any machine, and more than once. Every attempt writes under its own `write_id` and
commits complete units, so the rows of exactly one attempt count, however far the others got.
"""

import hmac
import sys
import time
from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import chain
from typing import NamedTuple

import msgspec
from msgspec import Struct, field

from turnlog.lake.lake_names import LakeNames, NameFilter
from turnlog.lake.lake_rows import FileRows, file_rows
from turnlog.lake.lake_schema import TEXTS
from turnlog.lake.lake_storage import LakeStorage, open_storage
from turnlog.lake.lake_texts import text_rows
from turnlog.lake.lake_units import Unit, UnitKey, units_of
from turnlog.lake.raw_files import RawFile, RawFolder
from turnlog.lake.raw_index import RawRead, read_raw, temporary_index
from turnlog.lake.unit_writer import UnitWriter

MOST_PROBLEMS = 20
"""Maximum number of problem files that a task names; it counts all of them."""


class KnownUnit(NamedTuple):
    """A unit that the lake has of a file."""

    table: str
    day: str
    sha256: str


class RawSource(Struct):
    """A file of a task, and the units that the lake has of it."""

    file: RawFile
    id: str
    known: list[KnownUnit] = field(default_factory=list[KnownUnit])


class RawMachine(Struct):
    """The machine that files of a raw folder came from, and the version to write."""

    id: str
    version: int
    user: str | None
    host: str | None
    sources: list[RawSource]


class RawTask(Struct):
    """The files and settings of one worker task."""

    raw: str
    dest: str
    names: LakeNames
    machines: list[RawMachine]
    is_dry_run: bool = False


class RawSummary(Struct):
    """Counts of what a task read and wrote."""

    files: int = 0
    """Files that were read."""
    bytes: int = 0
    """Bytes of those files, as stored."""
    changed: int = 0
    """Files with units that were written or retracted."""
    rows: int = 0
    units: int = 0
    retracted: int = 0
    parts: int = 0
    written: int = 0
    """Bytes written."""
    malformed: int = 0
    """Lines that are not a single JSON object."""
    malformed_files: int = 0
    unreadable: int = 0
    """Files that could not be read."""
    seconds: float = 0
    """Sum of the time that all tasks took, even if they ran at the same time."""
    cpu_seconds: float = 0
    peak: int = 0
    """Maximum memory of a task's process, in bytes."""
    problems: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Some of the files that are unreadable or have malformed lines, with the reason."""

    def add(self, other: "RawSummary") -> None:
        """Add the counts of another task."""
        peak = max(self.peak, other.peak)
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.peak = peak


_encode = msgspec.msgpack.Encoder().encode
_decode_task = msgspec.msgpack.Decoder(RawTask).decode
_decode_summary = msgspec.msgpack.Decoder(RawSummary).decode


def run_encoded(task: bytes) -> bytes:
    """Run an encoded task; return the encoded summary."""
    start, busy = time.monotonic(), time.process_time()
    done = run_task(_decode_task(task))
    done.seconds, done.cpu_seconds = time.monotonic() - start, time.process_time() - busy
    done.peak = _peak()
    return _encode(done)


def encode_task(task: RawTask) -> bytes:
    """Return a task as bytes that can be sent to another machine."""
    return _encode(task)


def decode_summary(summary: bytes) -> RawSummary:
    """Return the summary that a worker sent."""
    return _decode_summary(summary)


def run_task(task: RawTask) -> RawSummary:
    """Read the files of a task, and write the units that the lake does not have."""
    done = RawSummary()
    storage, folder = open_storage(task.dest), RawFolder(task.raw)
    for machine in task.machines:
        keep = NameFilter(task.names._replace(user=machine.user, host=machine.host))
        with temporary_index() as (index, scratch):
            sources = {source.file.name: source for source in machine.sources}
            files = [source.file for source in machine.sources]
            with_texts = TEXTS in task.names.consents
            # Texts are read after all figures, so keep the copies until then.
            found = list(read_raw(index, scratch, folder, files, keep_copies=with_texts))
            _note(done, found)
            read = {each.number: sources[each.file.name] for each in found if each.number}
            rows = file_rows(index.db, list(read), keep)
            texts = {each.number: each.text for each in found if each.number and each.text}
            more = text_rows(texts, keep) if with_texts else ()
            changes = _changes(machine, chain(rows, more), read)
            _write(task, storage, machine, keep, done, changes)
    return done


class _Changes(NamedTuple):
    """Units to write and to retract, so that a lake matches some files."""

    units: list[Unit]
    retracted: list[UnitKey]
    stores: dict[str, str]


def _changes(machine: RawMachine, rows: Iterable[FileRows], read: dict[int, RawSource]) -> _Changes:
    """Compare the rows of files with the units that the lake has of them."""
    known = {
        UnitKey(machine.id, unit.table, source.id, unit.day): unit.sha256
        for source in read.values()
        for unit in source.known
    }
    missing, units = set(known), list[Unit]()
    for found in rows:
        for unit in units_of(machine.id, found.table, read[found.number].id, found.rows):
            missing.discard(unit.key)
            if known.get(unit.key) != unit.digest():
                units.append(unit)
    stores = {source.id: machine.id for source in read.values()}
    return _Changes(units, sorted(missing), stores)


def _write(
    task: RawTask,
    storage: LakeStorage,
    machine: RawMachine,
    keep: NameFilter,
    done: RawSummary,
    changes: _Changes,
) -> None:
    done.changed += len({key.file for key in (*(u.key for u in changes.units), *changes.retracted)})
    done.units += len(changes.units)
    done.rows += sum(unit.rows for unit in changes.units)
    done.retracted += len(changes.retracted)
    if task.is_dry_run or not (changes.units or changes.retracted):
        return
    writer = UnitWriter(storage, machine.id, machine.version, keep)
    staged = writer.stage(*changes)
    done.written += writer.commit(staged)[1]
    done.parts += len(staged.contents) + 1


def _note(done: RawSummary, found: Sequence[RawRead]) -> None:
    """Add files that were read, and those that could not be, to the summary."""
    for each in found:
        if each.reason is not None:
            done.unreadable += 1
            _name_problem(done, each, each.reason)
            continue
        done.files += 1
        done.bytes += each.file.size
        if each.malformed:
            done.malformed += each.malformed
            done.malformed_files += 1
            _name_problem(done, each, f"malformed lines: {each.malformed}")


def _name_problem(done: RawSummary, read: RawRead, reason: str) -> None:
    if len(done.problems) < MOST_PROBLEMS:
        done.problems.append((read.file.name, reason))


def _peak() -> int:
    """Return the maximum memory of this process; 0 if the system does not report it."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    # macOS counts bytes, Linux kilobytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def raw_id(key: bytes, kind: str, name: str) -> str:
    """Return the id of a machine or a file of a raw folder, the same in every run with a key."""
    return hmac.new(key, f"raw {kind} {name}".encode(), sha256).hexdigest()[:16]
