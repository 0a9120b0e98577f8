"""Report the machines, tables and parts of a lake, and make a local copy of it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from shlex import quote

from turnlog.errors import UsageError
from turnlog.lake.lake_parts import COPY_MARK, copied_from, parse_place, require_version
from turnlog.lake.lake_schema import NO_DAY, ROOT, TABLE_OF_UNITS
from turnlog.lake.lake_settings import this_machine
from turnlog.lake.lake_storage import (
    LakeStorage,
    PartGone,
    StoredFile,
    no_lake,
    open_existing,
    open_storage,
    retried,
)
from turnlog.lake.live_units import UnitRow, live_parts, read_all_units, winners_of
from turnlog.lake.teams import TEAMS_FILE


@dataclass
class MachineStatus:
    """The live files and rows of one machine."""

    machine: str
    host: str | None
    user: str | None
    is_this: bool
    files: int = 0
    rows: int = 0
    first_day: str | None = None
    last_day: str | None = None
    written: float = 0
    """Time of its last write."""


@dataclass
class LakeTableStatus:
    """The live parts of one table."""

    table: str
    rows: int = 0
    parts: int = 0
    bytes: int = 0


@dataclass
class LakeStatus:
    """The state of a lake."""

    dest: str
    machines: list[MachineStatus] = field(default_factory=list[MachineStatus])
    tables: list[LakeTableStatus] = field(default_factory=list[LakeTableStatus])
    bytes: int = 0
    """Bytes of all files, live or not."""
    dead_parts: int = 0
    """Parts without live rows; `compact` deletes them."""
    dead_bytes: int = 0
    missing: list[str] = field(default_factory=list[str])
    """Live parts that are missing from the storage."""
    foreign: list[str] = field(default_factory=list[str])
    """Files that turnlog did not write."""
    keys: list[str] = field(default_factory=list[str])
    """Fingerprints of the keys of hashed names; copies on machines with different keys do not
    match, and their turns count twice."""


def lake_status(dest: str) -> LakeStatus:
    """Summarize a lake."""
    storage = open_existing(dest)
    require_version(storage)
    files = {file.path: file for file in storage.walk(ROOT)}
    if not files:
        raise no_lake(dest)
    units = read_all_units(storage)
    winners = winners_of(row for rows in units.values() for row in rows)
    live = [row for row in winners.values() if not row.is_retracted]
    done = LakeStatus(dest, _machines(live), bytes=sum(file.size for file in files.values()))
    done.keys = sorted({row.names_key for row in live if row.names_key})
    paths = set(units)
    for table, parts in sorted(live_parts(live).items()):
        found = [files[path] for path in parts if path in files]
        rows = sum(row.rows for units in parts.values() for row in units)
        size = sum(file.size for file in found)
        done.tables.append(LakeTableStatus(table, rows, len(parts), size))
        done.missing += sorted(path for path in parts if path not in files)
        paths.update(parts)
    for path, file in sorted(files.items()):
        if parse_place(path) is None:
            done.foreign.append(path)
        elif path not in paths:
            done.dead_parts += 1
            done.dead_bytes += file.size
    return done


def _machines(rows: Iterable[UnitRow]) -> list[MachineStatus]:
    found: dict[str, MachineStatus] = {}
    seen: set[tuple[str, str]] = set()
    this = this_machine().id
    for row in rows:
        new = MachineStatus(row.machine, row.host, row.user, row.machine == this)
        each = found.setdefault(row.machine, new)
        each.rows += row.rows
        # A machine may be renamed, or change hands: its last write names it.
        if row.written >= each.written:
            each.written, each.host, each.user = row.written, row.host, row.user
        if row.day != NO_DAY:
            each.first_day = min(each.first_day or row.day, row.day)
            each.last_day = max(each.last_day or row.day, row.day)
        if (row.machine, row.file) not in seen:
            seen.add((row.machine, row.file))
            each.files += 1
    return sorted(found.values(), key=lambda each: -each.written)


@dataclass
class PulledLake:
    """The result of a pull."""

    dest: str
    folder: str
    parts: int = 0
    """Parts that were copied."""
    bytes: int = 0
    kept: int = 0
    """Parts that the copy had already."""
    deleted: int = 0


def pull(dest: str, folder: str, *, is_dry_run: bool = False) -> PulledLake:
    """Copy a lake's live parts and teams to a directory, which then is a lake itself.

    Parts never change, so only new ones are copied.
    """
    source, target = open_existing(dest), open_storage(folder)
    require_version(source)
    # Pulling deletes old parts: in the wrong folder it would delete another lake.
    if copied_from(target) != dest and target.walk(ROOT):
        hint = f"turnlog lake pull {quote(dest)} NEW_FOLDER"
        raise UsageError(f"{folder} has a lake that is not a copy of {dest}", hint)
    if not is_dry_run:
        target.write(COPY_MARK, f"{dest}\n".encode())
    return retried(lambda: _pull(source, target, is_dry_run))


def _pull(source: LakeStorage, target: LakeStorage, is_dry_run: bool) -> PulledLake:
    done = PulledLake(source.dest, target.dest)
    units = read_all_units(source)
    winners = winners_of(row for rows in units.values() for row in rows)
    live = {path for parts in live_parts(winners.values()).values() for path in parts}
    there = {file.path: file for file in target.walk(ROOT)}
    sizes = {file.path: file.size for file in source.walk(ROOT)}
    # Copy the units last: until then, readers see the copy's previous state.
    wanted = [*sorted(live), *sorted(units)]
    missing = [path for path in wanted if not _has(there, path, sizes.get(path))]
    done.kept = len(wanted) - len(missing)
    if not is_dry_run:
        _copy_teams(source, target)
    for path in missing:
        content = b"" if is_dry_run else source.read(path)
        done.parts += 1
        done.bytes += sizes.get(path, len(content))
        if not is_dry_run:
            target.write(path, content)
    _delete_old(target, there, {*wanted}, is_dry_run, done)
    return done


def _copy_teams(source: LakeStorage, target: LakeStorage) -> None:
    """Give a copy the teams of its lake.

    The cells of `--k` depend on the teams: with other teams, comparing a copy with its lake could
    single out fewer than k people.
    """
    teams, known = _content(source, TEAMS_FILE), _content(target, TEAMS_FILE)
    if teams is None and known is not None:
        target.delete(TEAMS_FILE)
    elif teams is not None and teams != known:
        target.write(TEAMS_FILE, teams)


def _content(storage: LakeStorage, path: str) -> bytes | None:
    try:
        return storage.read(path)
    except PartGone:
        return None


def _has(there: dict[str, StoredFile], path: str, size: int | None) -> bool:
    return path in there and there[path].size == size


def _delete_old(
    target: LakeStorage,
    there: dict[str, StoredFile],
    wanted: set[str],
    is_dry_run: bool,
    done: PulledLake,
) -> None:
    """Delete parts that the lake no longer has, the units first."""
    old = [path for path in there if path not in wanted and parse_place(path)]
    for path in sorted(old, key=lambda each: (f"/{TABLE_OF_UNITS}/" not in each, each)):
        done.deleted += 1
        if not is_dry_run:
            target.delete(path)
