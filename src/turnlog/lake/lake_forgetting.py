"""Remove sessions from a lake for good, on behalf of all machines.

Tombstones are committed first: from then on the rows do not count, and no push restores them. Then
every part that has rows of the forgotten files is rewritten without them, or deleted.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from shlex import join, quote
from typing import Any

from turnlog.errors import Damaged, NotFound, UsageError
from turnlog.lake.lake_compaction import ORPHAN_GRACE, Compacted, rewrite_group
from turnlog.lake.lake_names import NameFilter
from turnlog.lake.lake_parts import PartPlace, parse_place, require_version
from turnlog.lake.lake_schema import ROOT, TABLE_OF_UNITS
from turnlog.lake.lake_settings import LakeSettings, names_for, this_machine
from turnlog.lake.lake_storage import LakeStorage, PartGone, StoredFile, open_existing
from turnlog.lake.lake_units import UnitKey
from turnlog.lake.live_units import (
    FORGOTTEN,
    UnitRow,
    live_parts,
    own_part,
    read_all_units,
    winners_of,
)
from turnlog.lake.unit_writer import tombstone, write_rows
from turnlog.store.deletion_consent import Consent, Deletion, require_yes

LakeFile = tuple[str, str]
"""A machine and one of its files."""


@dataclass(frozen=True)
class ForgetRequest:
    """A request to forget all sessions of a user, or one session on all machines."""

    user: str | None = None
    session: str | None = None
    is_dry_run: bool = False
    consent: Consent = require_yes


@dataclass
class ForgottenRows:
    """The result of forgetting."""

    dest: str
    machines: int = 0
    files: int = 0
    rows: int = 0
    rewritten: int = 0
    """Parts that were written again without the forgotten rows."""
    deleted: int = 0
    problems: list[str] = field(default_factory=list[str])
    """Parts that could not be read or rewritten: forgetting is not complete."""

    def add_damaged(self, message: str) -> None:
        """Add a damaged part, once, with the command that replaces it on its machine."""
        line = f"{message} (try: turnlog lake push {quote(self.dest)} --again)"
        if line not in self.problems:
            self.problems.append(line)


def forget(dest: str, settings: LakeSettings, request: ForgetRequest) -> ForgottenRows:
    """Remove all rows of a user or of a session, physically and for good.

    Damaged parts are left as they are and reported; all others are processed.
    """
    if (request.user is None) == (request.session is None):
        hint = "turnlog lake forget DEST --user ada"
        raise UsageError("choose either a user or a session", hint)
    storage = open_existing(dest)
    require_version(storage)
    done = ForgottenRows(dest)
    damaged: dict[str, Damaged] = {}
    units = read_all_units(storage, damaged=damaged)
    for error in damaged.values():
        done.add_damaged(error.message)
    winners = winners_of(row for some in units.values() for row in some)
    files = _matching(storage, settings, request, winners, done)
    affected = [row for row in winners.values() if (row.machine, row.file) in files]
    done.machines = len({machine for machine, _ in files})
    done.files, done.rows = len(files), sum(row.rows for row in affected)
    if not files and not done.problems:
        named = request.user or request.session
        raise NotFound(f"{dest} has nothing of {named}", f"turnlog lake status {quote(dest)}")
    if request.is_dry_run or not files:
        return done
    # Ask now, while nothing has been written.
    request.consent(_deletion(dest, request, done))
    for machine in sorted({machine for machine, _ in files}):
        own = {path: some for path, some in units.items() if _machine_of(path) == machine}
        is_partial = machine in map(_machine_of, damaged)
        _forget_machine(storage, machine, own, files, done, is_partial=is_partial)
    return done


def _deletion(dest: str, request: ForgetRequest, done: ForgottenRows) -> Deletion:
    option = ["--user", request.user] if request.user else ["--session", request.session or ""]
    command = join(["turnlog", "lake", "forget", dest, *option, "--yes"])
    return Deletion(f"{done.rows:,} rows of {done.files:,} files in {dest}", [], command)


def _matching(
    storage: LakeStorage,
    settings: LakeSettings,
    request: ForgetRequest,
    winners: Mapping[UnitKey, UnitRow],
    done: ForgottenRows,
) -> set[LakeFile]:
    """Return the files of a user or a session."""
    keep = NameFilter(names_for(settings, this_machine()))
    # Match both the plain and the hashed name: each machine decides for itself which one it pushes.
    columns, wanted = ("user",), {request.user, keep.key_of(request.user)}
    if request.session:
        columns = ("session", "opened_by")
        wanted = {request.session, keep.identifier(request.session)}
    # Dead rows match, too, if the file has no live rows: an earlier attempt may have been
    # interrupted between committing its tombstones and deleting the rows.
    live = {(key.machine, key.file): row for key, row in _live_sessions(winners).items()}
    found: set[LakeFile] = set()
    seen: set[LakeFile] = set()
    for file in storage.walk(f"{ROOT}/sessions"):
        for row in _session_rows(storage, file.path, columns, done):
            own = row["machine"], row["file"]
            seen.add(own)
            is_current = own not in live or live[own].write_id == row["write_id"]
            if is_current and any(row[name] in wanted for name in columns):
                found.add(own)
    if request.user:  # the rows of `units` name the user, too, if those of a session are damaged
        unseen = (row for row in winners.values() if (row.machine, row.file) not in seen)
        found |= {(row.machine, row.file) for row in unseen if row.user in wanted}
    return found


def _live_sessions(winners: Mapping[UnitKey, UnitRow]) -> dict[UnitKey, UnitRow]:
    return {
        key: row for key, row in winners.items() if key.table == "sessions" and not row.is_retracted
    }


def _session_rows(
    storage: LakeStorage, path: str, columns: Sequence[str], done: ForgottenRows
) -> Iterator[dict[str, Any]]:
    if parse_place(path) is None:
        return
    try:
        table = own_part(storage, path, storage.read(path))
    except PartGone:
        return
    except Damaged as error:
        done.add_damaged(error.message)
        return
    if table is not None:
        yield from table.select(["machine", "file", "write_id", *columns]).to_pylist()


def _machine_of(path: str) -> str:
    place = parse_place(path)
    return place.machine if place else ""


def _forget_machine(
    storage: LakeStorage,
    machine: str,
    units: Mapping[str, list[UnitRow]],
    files: set[LakeFile],
    done: ForgottenRows,
    *,
    is_partial: bool,
) -> None:
    """Forget files of one machine; `is_partial` if a part of its units is damaged."""
    rows = [row for some in units.values() for row in some]
    keys = {row.key for row in rows if (row.machine, row.file) in files}
    # Once the tombstones are committed, the rows do not count, even if the cleanup is interrupted.
    tombstones = _tombstones(keys)
    kept_part = write_rows(storage, machine, tombstones)
    winners = winners_of([*rows, *tombstones])
    moved, replaced = _rewrite_live(storage, machine, rows, winners, files, done)
    left = winners_of([*winners.values(), *moved])
    merged = write_rows(storage, machine, list(left.values()))
    # The merged part may have the same content, and so the same name, as an existing one.
    gone = {*units, *replaced, kept_part.path} - {merged.path}
    # Parts that are no longer committed may have rows of the files, too.
    known = {row.path for row in rows if row.path}
    skipped = live_paths(left.values()) | gone
    for file in _dead_parts(storage, machine, skipped, files, done):
        if file.path in known or _is_orphan(file, done, is_partial=is_partial):
            gone.add(file.path)
    # Delete sessions last: after an interruption, the next attempt finds the files by their rows.
    for path in sorted(gone, key=lambda each: (each.startswith(f"{ROOT}/sessions/"), each)):
        storage.delete(path)
        done.deleted += 1
    # A damaged part without live rows is gone, too. Paths have digests, so no other line has them.
    done.problems = [line for line in done.problems if not any(path in line for path in gone)]


def live_paths(winners: Iterable[UnitRow]) -> set[str]:
    """Return the paths of all parts with live rows."""
    return {path for parts in live_parts(winners).values() for path in parts}


def _tombstones(keys: Iterable[UnitKey]) -> list[UnitRow]:
    write_id = os.urandom(8).hex()
    return [tombstone(key, FORGOTTEN, write_id) for key in sorted(keys)]


def _rewrite_live(
    storage: LakeStorage,
    machine: str,
    rows: Sequence[UnitRow],
    winners: Mapping[UnitKey, UnitRow],
    files: set[LakeFile],
    done: ForgottenRows,
) -> tuple[list[UnitRow], set[str]]:
    """Rewrite live parts without rows of the files; return the new unit rows and the old parts."""
    touched = {row.path for row in rows if row.path and (row.machine, row.file) in files}
    moved: list[UnitRow] = []
    replaced: set[str] = set()
    live = {
        path: some
        for parts in live_parts(winners.values()).values()
        for path, some in parts.items()
    }
    for path in sorted(touched):
        place = parse_place(path)
        if path not in live or place is None or place.day is None:
            replaced.add(path)
            continue
        outcome = Compacted(done.dest)
        own = {path: live[path]}
        committed = rewrite_group(storage, place.table, place.day, machine, own, outcome)
        if committed:
            moved += committed
            replaced.add(path)
            done.rewritten += 1
        for message in outcome.damaged:
            done.add_damaged(message)
    return moved, replaced


def _dead_parts(
    storage: LakeStorage,
    machine: str,
    skipped: set[str],
    files: set[LakeFile],
    done: ForgottenRows,
) -> Iterator[StoredFile]:
    """Yield a machine's parts that have rows of the files, except those of the skipped paths."""
    for file in storage.walk(ROOT):
        place = parse_place(file.path)
        if place is None or place.machine != machine or place.table == TABLE_OF_UNITS:
            continue
        if file.path not in skipped and _mentions(storage, place, files, done):
            yield file


def _is_orphan(file: StoredFile, done: ForgottenRows, *, is_partial: bool) -> bool:
    """Return whether an uncommitted part can be deleted; if not, report it."""
    if is_partial:
        # It may have live rows of other files: the damaged part may be what commits them.
        done.add_damaged(f"{done.dest}/{file.path} has rows that a damaged part may have committed")
        return False
    if time.time() - file.mtime > ORPHAN_GRACE:
        return True
    # A running push may be about to commit it, with rows of other files.
    done.problems.append(f"{file.path} may belong to a running push: forget again in a day")
    return False


def _mentions(
    storage: LakeStorage, place: PartPlace, files: set[LakeFile], done: ForgottenRows
) -> bool:
    try:
        table = own_part(storage, place.path, storage.read(place.path))
    except Damaged as error:
        done.add_damaged(error.message)
        return False
    except PartGone:
        return False
    if table is None:
        return False
    pairs = zip(table["machine"].to_pylist(), table["file"].to_pylist(), strict=True)
    return any(pair in files for pair in pairs)
