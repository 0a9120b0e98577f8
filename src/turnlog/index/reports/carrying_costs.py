"""The carrying costs of all sessions, computed on demand and cached in the index.

They are not computed during a sync: most users never ask for them, and a sync reads appended lines
only, whereas a new message changes the cost of everything before it.
"""

import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from turnlog.conversation.carried_items import CarriedItem
from turnlog.conversation.carrying import carrying_of
from turnlog.conversation.carrying_groups import tool_name
from turnlog.conversation.session import open_session
from turnlog.format.decode import encode_sound
from turnlog.index.database import Index, writing
from turnlog.index.sync_policy import Progress
from turnlog.secrets import cut_whole
from turnlog.store.batches import gathered
from turnlog.store.parallel import map_files

READING = 1
"""Increment when the same session produces different costs than before."""
CHUNK = 256 << 20
"""Bytes of session files whose costs are stored at once."""
LONGEST_TITLE = 100
"""Maximum characters of a turn's prompt."""


class CarriedTurn(Struct, array_like=True):
    """A turn of a session."""

    n: int
    line: int
    time: str | None
    title: str


class CarriedPart(Struct, array_like=True):
    """The calls of one tool for one file in one turn, and their cost."""

    turn: int | None
    """Position in the list of turns."""
    tool: str
    """The name of a tool, or of another kind of item."""
    file: str | None
    items: int
    bytes: int
    sent: int
    carried: float
    own: float
    is_system: bool

    @property
    def cost(self) -> float:
        return self.carried + self.own


class SessionCosts(Struct, array_like=True):
    """The carrying costs of a session; the parts add up to its cost."""

    turns: list[CarriedTurn]
    parts: list[CarriedPart]
    unpriced: list[str]
    """Models without a price, whose messages are excluded."""


class CarriedSession(NamedTuple):
    """A session of a store and its costs."""

    id: str
    path: str
    store: str
    project: str | None
    title: str | None
    costs: SessionCosts


class _Unit(NamedTuple):
    """A session's file with the files of its sub-agents."""

    path: str
    id: str
    store: str
    project: str | None
    title: str | None
    state: str
    excluded: frozenset[str]


def session_costs(
    index: Index, project: str | None, progress: Progress
) -> Iterator[CarriedSession]:
    """Yield the costs of all sessions, or those of one project; compute what is not cached."""
    units = [unit for unit in _units(index.db) if _is_in(unit, project)]
    known = dict(index.db.execute("SELECT path, state FROM carrying"))
    _compute(index, [unit for unit in units if known.get(unit.path) != unit.state], progress)
    by_path = {unit.path: unit for unit in units}
    decoder = msgspec.json.Decoder(SessionCosts)
    # Not every unit has a row: its file may have disappeared while it was read.
    for path, costs in index.db.execute("SELECT path, costs FROM carrying"):
        if unit := by_path.get(path):
            yield CarriedSession(
                unit.id, path, unit.store, unit.project, unit.title, decoder.decode(costs)
            )


def _is_in(unit: _Unit, project: str | None) -> bool:
    return project is None or project.lower() in (unit.project or "").lower()


def _compute(index: Index, units: Sequence[_Unit], progress: Progress) -> None:
    """Compute and store the costs of sessions, a chunk at a time: an interrupt loses little."""
    sizes = {unit.path: _size(unit.path) for unit in units}
    total, done = sum(sizes.values()), 0
    progress(0, total)
    readable = [unit for unit in units if sizes[unit.path]]
    for chunk in gathered(readable, lambda unit: sizes[unit.path], CHUNK):
        excluded = {unit.path: unit.excluded for unit in chunk if unit.excluded}
        found: dict[str, bytes] = {}
        with index.disconnected():
            paths = [Path(unit.path) for unit in chunk]
            for size, costs in map_files(partial(_costs_of_files, excluded), paths):
                found |= costs
                done += size
                progress(done, total)
        _store(index.db, [(u.path, u.state, found[u.path]) for u in chunk if u.path in found])


def _store(db: sqlite3.Connection, rows: list[tuple[str, str, bytes]]) -> None:
    with writing(db):
        db.execute("DELETE FROM carrying WHERE path NOT IN (SELECT path FROM files)")
        db.executemany("INSERT OR REPLACE INTO carrying VALUES (?, ?, ?)", rows)


def _costs_of_files(excluded: dict[str, frozenset[str]], paths: Sequence[Path]) -> dict[str, bytes]:
    """Return the costs of sessions in JSON, by path; runs in a worker process."""
    found: dict[str, bytes] = {}
    for path in paths:
        try:
            costs = costs_of_file(path, excluded.get(str(path), frozenset()))
        except OSError:  # deleted since the store was scanned
            continue
        found[str(path)] = encode_sound(costs)
    return found


def costs_of_file(path: Path, excluded: frozenset[str] = frozenset()) -> SessionCosts:
    """Return the costs of one session, added up by turn, tool and file."""
    found = carrying_of(open_session(path), excluded)
    turns: dict[int, int] = {}
    rows: list[CarriedTurn] = []
    parts: dict[tuple[int | None, str, str | None], CarriedPart] = {}
    for item in found.items:
        place = None
        if item.turn:
            place = turns.setdefault(item.turn.line, len(rows))
            if place == len(rows):
                title = cut_whole(" ".join(item.turn.title.split()), LONGEST_TITLE)
                rows.append(CarriedTurn(item.turn.n, item.turn.line, item.turn.time, title))
        _add(parts, place, item)
    return SessionCosts(rows, list(parts.values()), found.unpriced)


def _add(
    parts: dict[tuple[int | None, str, str | None], CarriedPart],
    turn: int | None,
    item: CarriedItem,
) -> None:
    tool = tool_name(item)
    is_system = item.kind == "system"
    new = CarriedPart(turn, tool, item.file, 0, 0, 0, 0.0, 0.0, is_system)
    part = parts.setdefault((turn, tool, item.file), new)
    part.items += 1
    part.bytes += item.bytes
    part.sent += item.sent
    part.carried += item.carried
    part.own += item.own


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


class _FileRow(NamedTuple):
    id: int
    path: str
    store: str
    session: str | None
    is_subagent: int
    project: str | None
    title: str | None
    state: str


def _units(db: sqlite3.Connection) -> list[_Unit]:
    """Return the sessions of the index, and sub-agents whose session is gone."""
    rows = db.execute(
        "SELECT id, path, store, session, is_subagent, project, title,"
        " printf('%d %d %d', inode, size, mtime_ns) FROM files WHERE NOT is_gone ORDER BY id"
    )
    files = [_FileRow(*row) for row in rows]
    agents: dict[tuple[str, str | None], list[_FileRow]] = {}
    for file in files:
        if file.is_subagent:
            agents.setdefault((_folder(file), file.session), []).append(file)
    groups = [
        [file, *agents.pop((_folder(file), Path(file.path).stem), [])]
        for file in files
        if not file.is_subagent
    ]
    # The remaining sub-agents have no session: each is a unit of its own.
    groups += [[file] for rest in agents.values() for file in rest]
    copied = _copied(db)
    return [_unit(group, _excluded(db, group, copied)) for group in groups]


def _folder(file: _FileRow) -> str:
    """Return the project folder that a file is in, at any depth."""
    projects = Path(file.store, "projects")
    path = Path(file.path)
    is_inside = path.is_relative_to(projects)
    return str(projects / path.relative_to(projects).parts[0] if is_inside else path.parent)


def _unit(files: list[_FileRow], excluded: frozenset[str]) -> _Unit:
    main = files[0]
    states = "\n".join(sorted(f"{file.path} {file.state}" for file in files))
    elsewhere = " ".join(sorted(excluded))
    state = f"{READING}-{zlib.crc32(states.encode()):08x}-{zlib.crc32(elsewhere.encode()):08x}"
    id_ = main.session or main.path
    return _Unit(main.path, id_, main.store, main.project, main.title, state, excluded)


def _copied(db: sqlite3.Connection) -> dict[int, set[str]]:
    """Return the keys of each file's messages that count in another file."""
    found: dict[int, set[str]] = {}
    for file, key in db.execute("SELECT file, key FROM messages WHERE counts = 0"):
        found.setdefault(file, set()).add(key)
    return found


def _excluded(
    db: sqlite3.Connection, files: list[_FileRow], copied: dict[int, set[str]]
) -> frozenset[str]:
    """Return the messages of a session that count in another one."""
    keys = {key for file in files for key in copied.get(file.id, ())}
    if not keys:
        return frozenset()
    # A sub-agent may start from a copy of the conversation: the copy counts within the session.
    statement = "SELECT key FROM messages WHERE file = ? AND counts = 1"
    return frozenset(keys).difference(
        key for file in files for (key,) in db.execute(statement, (file.id,))
    )
