"""Push the rows of changed session files to a lake.

Rows count once they are committed. If a push is killed before that, the next one writes them again.
A push without changes writes nothing.
"""

import hmac
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from turnlog.errors import Damaged
from turnlog.format.regular_files import watch_skipped
from turnlog.index.database import current_version
from turnlog.index.sync_policy import SILENT, Feedback, synced_index
from turnlog.lake.lake_names import NameFilter
from turnlog.lake.lake_parts import refuse_copy, require_version
from turnlog.lake.lake_settings import (
    LakeMachine,
    LakeSettings,
    decode_settings,
    encode_settings,
    lake_folder,
    names_for,
    this_machine,
)
from turnlog.lake.lake_storage import LakeStorage, open_storage, require_dest, retried
from turnlog.lake.lake_texts import all_rows
from turnlog.lake.lake_units import Unit, UnitKey, units_of
from turnlog.lake.live_units import UnitRow, list_unit_parts, read_unit_parts, unit_rows
from turnlog.lake.push_state import PushState, open_push_state
from turnlog.lake.unit_writer import SCHEMA, UnitWriter
from turnlog.store.batches import bounded
from turnlog.store.stores import AnyStores, each_store

BATCH_BYTES = 256 << 20
"""Bytes of session files whose rows are committed at once."""
BATCH_FILES = 5000

Step = Callable[[int, int], None]
"""Called with the bytes done so far and the total."""


@dataclass(frozen=True)
class PushOptions:
    """Options of a push."""

    since: float | None = None
    """Push only files with entries since this time, in seconds since 1970."""
    is_dry_run: bool = False
    again: bool = False
    """Write all rows again, even those that the lake should have already."""
    step: Step = lambda done, total: None


@dataclass
class Pushed:
    """The result of a push."""

    dest: str
    machine: str
    version: int = 0
    files: int = 0
    """Session files whose rows were written or retracted."""
    unchanged: int = 0
    """Session files that were not pushed: the lake has their rows, or `since` leaves them out."""
    units: int = 0
    """Units that were written: one per table, file and day."""
    rows: int = 0
    retracted: int = 0
    """Units that were retracted."""
    parts: int = 0
    bytes: int = 0
    """Bytes written."""
    source_bytes: int = 0
    """Bytes of the session files that were read."""
    forgotten: int = 0
    """Files left out because they were removed by `lake forget`."""
    damaged: list[str] = field(default_factory=list[str])
    """Damaged parts of `units` that this push has replaced."""


class SourceRow(NamedTuple):
    """A session file of the index, with a fingerprint of everything its rows depend on."""

    number: int
    file: str
    store: str
    size: int
    fingerprint: str
    is_chosen: bool
    """False if it has no entries since `PushOptions.since`."""


def push(
    stores: AnyStores,
    dest: str,
    settings: LakeSettings,
    options: PushOptions | None = None,
    feedback: Feedback = SILENT,
) -> Pushed:
    """Bring a lake up to date with the sessions of this machine."""
    options = options or PushOptions()
    require_dest(dest)
    # Sync the index first: that may fork, which pyarrow's threads would not survive.
    with watch_skipped() as skipped, synced_index(stores, feedback=feedback) as index:
        storage, machine = open_storage(dest), this_machine()
        keep = NameFilter(names_for(settings, machine))
        require_version(storage)
        refuse_copy(storage)
        done = Pushed(dest, machine.id)
        with open_push_state(lake_folder(), storage, machine.id) as state:
            _load(storage, machine.id, state, done, again=options.again)
            # One transaction, so that the rows of a file match its fingerprint.
            index.db.execute("BEGIN")
            try:
                _Push(storage, machine, keep, state, options, done).run(
                    index.db, listed_stores(stores, skipped)
                )
            finally:
                index.db.execute("COMMIT")
            if not options.is_dry_run:
                state.note_settings(encode_settings(settings))
                # Delete damaged parts only now that everything they committed is committed again.
                for path in done.damaged:
                    storage.delete(path)
    return done


def last_settings(dest: str) -> LakeSettings | None:
    """Return the settings of the last push to a lake from this machine."""
    with open_push_state(lake_folder(), open_storage(dest), this_machine().id) as state:
        return decode_settings(state.settings) if state.settings else None


def _load(
    storage: LakeStorage, machine: str, state: PushState, done: Pushed, *, again: bool
) -> None:
    """Bring the state up to date with the units that the lake has of this machine."""
    if again:
        state.clear()
    retried(lambda: _load_listed(storage, machine, state, done))


def _load_listed(storage: LakeStorage, machine: str, state: PushState, done: Pushed) -> None:
    listed = list_unit_parts(storage, machine)
    known = state.known_parts()
    # A part that is gone was either merged into another one or deleted by someone. If it was
    # deleted, the lake has lost its units, and they have to be written again.
    is_reduced = not known <= set(listed)
    found: dict[str, list[UnitRow]] = {}
    damaged: list[str] = []
    for path in listed:
        if path in known and not is_reduced:
            continue
        try:
            for name, table in read_unit_parts(storage, [path]):
                found[name] = list(unit_rows(table))
        except Damaged:
            # Its units are unknown now, so their rows are written again.
            damaged.append(path)
    done.damaged = damaged
    with state.writing():
        before = state.digests() if is_reduced else {}
        if is_reduced:
            state.drop_units()
        for path, rows in found.items():
            state.merge(path, rows)
        if is_reduced:
            after = state.digests()
            state.drop_files({key[0] for key in before if before[key] != after.get(key)})


class _Push:
    """One push; the caller holds the state's lock and a transaction of the index."""

    def __init__(
        self,
        storage: LakeStorage,
        machine: LakeMachine,
        keep: NameFilter,
        state: PushState,
        options: PushOptions,
        done: Pushed,
    ) -> None:
        self.storage, self.machine, self.keep = storage, machine, keep
        self.state, self.options, self.done = state, options, done
        self.writer: UnitWriter | None = None

    def run(self, db: sqlite3.Connection, there: Sequence[str]) -> None:
        """Push changed files; retract those that are gone from `there`, the listed stores."""
        done, state = self.done, self.state
        secret = self.machine.secret
        sources = list(source_rows(db, secret, self.keep, self.options.since))
        gone = self._gone_units(
            {each.file for each in sources}, [file_id(secret, one) for one in there]
        )
        forgotten, known = state.forgotten(), state.fingerprints()
        changed = [
            each
            for each in sources
            if each.is_chosen and each.file not in forgotten
            if self.options.again or known.get(each.file) != each.fingerprint
        ]
        done.forgotten = sum(source.file in forgotten for source in sources)
        done.unchanged = len(sources) - len(changed) - done.forgotten
        total = sum(source.size for source in changed)
        # Retract with the last batch, so that a session that was moved is never without rows.
        *batches, last = [*batches_of(changed)] or [[]]
        for batch, retracted in (*((each, set[UnitKey]()) for each in batches), (last, gone)):
            self._push_files(db, batch, retracted)
            done.source_bytes += sum(source.size for source in batch)
            self.options.step(done.source_bytes, total)

    def _push_files(
        self, db: sqlite3.Connection, batch: Sequence[SourceRow], gone: set[UnitKey]
    ) -> None:
        """Write the changed units of some files and retract the `gone` ones, in one commit."""
        by_number = {source.number: source for source in batch}
        known = {source.file: self.state.units_of(source.file) for source in batch}
        # Units of the files that have no rows any more: they are retracted.
        missing = {
            UnitKey(self.machine.id, table, file, day)
            for file, units in known.items()
            for (table, day), unit in units.items()
            if not unit.is_retracted
        }
        written: list[Unit] = []
        for found in all_rows(db, list(by_number), self.keep):
            file = by_number[found.number].file
            for unit in units_of(self.machine.id, found.table, file, found.rows):
                missing.discard(unit.key)
                old = known[file].get((unit.key.table, unit.key.day))
                if self.options.again or not (old and old.has(unit.digest())):
                    written.append(unit)
        self._write(written, missing | gone, {source.file: source.store for source in batch})
        if not self.options.is_dry_run:
            with self.state.writing():
                self.state.drop_files({key.file for key in gone})
                # After the commit: a crash in between only repeats work.
                self.state.set_fingerprints((each.file, each.fingerprint) for each in batch)

    def _gone_units(self, present_files: set[str], stores: Iterable[str]) -> set[UnitKey]:
        """Return the live units of files that are gone, deleted or forgotten."""
        live = self.state.live_files(stores)
        # A push that was running when a file was forgotten may have added another day to it.
        gone = (live - present_files) | (live & self.state.forgotten())
        return {
            UnitKey(self.machine.id, table, file, day)
            for file in gone
            for (table, day), unit in self.state.units_of(file).items()
            if not unit.is_retracted
        }

    def _write(
        self, units: Sequence[Unit], retracted: Iterable[UnitKey], stores: Mapping[str, str]
    ) -> None:
        gone = sorted(retracted)
        done = self.done
        done.files += len({key.file for key in (*(unit.key for unit in units), *gone)})
        done.units += len(units)
        done.rows += sum(unit.rows for unit in units)
        done.retracted += len(gone)
        if self.options.is_dry_run or not (units or gone):
            return
        if self.writer is None:
            done.version = self.state.next_version()
            self.writer = UnitWriter(self.storage, self.machine.id, done.version, self.keep)
        staged = self.writer.stage(units, gone, stores)
        path, size = self.writer.commit(staged)
        with self.state.writing():
            self.state.merge(path, staged.rows)
        done.parts += len(staged.contents) + 1
        done.bytes += size


def listed_stores(stores: AnyStores, skipped: Iterable[str]) -> list[str]:
    """Return the stores whose session files could all be listed.

    In other stores, a file that was not found may still exist: the disk may not be mounted, or a
    folder may be unreadable for the moment.
    """
    unlisted = [f"{path}{os.sep}" for path in skipped if _hides_files(path)]
    return [
        str(each.root)
        for each in each_store(stores)
        if each.projects.is_dir()
        if not any(path.startswith(f"{each.root}{os.sep}") for path in unlisted)
    ]


def _hides_files(path: str) -> bool:
    """Return whether there may be unlisted files below a skipped path; a file itself is listed."""
    try:
        if os.path.isdir(path):  # noqa: PTH112
            os.scandir(path).close()
        else:
            os.lstat(path)  # fails in a folder that may be listed but not searched
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def file_id(secret: bytes, path: str) -> str:
    """Return the id of a file or a store, which reveals nothing without the machine's secret."""
    return hmac.new(secret, os.fsencode(path), sha256).hexdigest()[:16]


def source_rows(
    db: sqlite3.Connection, secret: bytes, keep: NameFilter, since: float | None = None
) -> Iterator[SourceRow]:
    """Yield the session files of an index, the oldest first."""
    names = keep.names
    facts = [SCHEMA, current_version(), sorted(names.consents), names.is_hashed]
    facts += [keep.fingerprint, names.user, names.host]
    # The rows of a file depend on the settings: with another consent, all files are pushed again.
    settings = sha256(repr(facts).encode()).hexdigest()[:16]
    rows = db.execute(
        "SELECT f.id, f.path, f.store, f.inode, f.size, f.mtime_ns, f.reached, f.is_gone,"
        " c.message, coalesce(f.ended, f.mtime_ns / 1e9) FROM files f LEFT JOIN checks c"
        " USING (path, inode, size, mtime_ns) ORDER BY f.started, f.id"
    )
    for number, path, store, inode, size, mtime, reached, is_gone, message, ended in rows:
        state = f"{settings} {inode} {size} {mtime} {reached} {is_gone} {message or ''}"
        yield SourceRow(
            number,
            file_id(secret, path),
            file_id(secret, store),
            size,
            sha256(state.encode(errors="replace")).hexdigest()[:32],
            since is None or ended >= since,
        )


def batches_of(sources: Iterable[SourceRow]) -> Iterator[list[SourceRow]]:
    """Yield the files in groups that fit in memory."""
    return bounded(sources, lambda source: source.size, BATCH_BYTES, BATCH_FILES)
