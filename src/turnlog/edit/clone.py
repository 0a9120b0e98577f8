"""Copy a session under a new id: every uuid is replaced, and so is every reference to it."""

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnlog.conversation.backup_listings import KINDS, listings_in, outdated_backups
from turnlog.conversation.nodes import ChainNode
from turnlog.conversation.session import Session
from turnlog.edit.effect import Tally
from turnlog.edit.plan import Plan, carry_out, encoded, id_replacer
from turnlog.format.decode import read_entries, split_values
from turnlog.format.entries import ChainEntry
from turnlog.format.json_values import is_object
from turnlog.format.jsonl import Line, line_end, read_lines
from turnlog.store.footprint import Footprint, footprint_of
from turnlog.store.paths import META_SUFFIX, Store

NewId = Callable[[], str]
ANSWER, MESSAGE_ID = b'"assistant"', b'"id":"msg_'
"""Found in lines of the model, and in those whose message has an id, as nearly all have."""
USER, RESULT = b'"user"', b'"tool_result"'
"""Found in lines of the user, and in those that only have results of calls."""
SAFE_LENGTH = 16
"""Minimum length of an id that is unique enough to be replaced wherever it occurs."""


@dataclass(frozen=True)
class Clone:
    """A new session to be written: its files and their contents."""

    id: str
    path: Path
    files: dict[Path, Iterable[bytes]]


def plan_clone(
    store: Store,
    session: Session,
    plan: Plan,
    tally: Tally | None = None,
    new_id: NewId = lambda: str(uuid.uuid4()),
) -> Clone:
    """Plan a copy of a session with all its files in the same folder, edited by a plan."""
    name = new_id()
    path = session.path.with_name(f"{name}.jsonl")
    found = footprint_of(store, session.path)
    # Agent ids keep their length, which differs between client versions.
    names = dict.fromkeys(map(_agent_id, found.subagents))
    agents = {name: _hex(new_id, len(name)) for name in names}
    plan.ids = _renewed_of(found, new_id) | _renewed(plan, new_id)
    swap = id_replacer(plan.ids)
    rename = _sparing(plan.transcript, _renaming(session.id, name, agents))
    files: dict[Path, Iterable[bytes]] = {}
    # Backups are copies of the user's files, not session data: their content must not change.
    outdated = outdated_copies(store, session, plan, found.backups)
    for old in found.backups:
        if old in outdated:
            continue
        files[_moved(old, session.id, name)] = _raw_lines(old)
    for old in [*found.sidecars, *found.todos]:
        lines = map(rename, map(swap, _raw_lines(old)))
        is_agent = old.name.startswith("agent-") and old.suffix == ".jsonl"
        files[_moved(old, session.id, name)] = (
            _with_origin(lines, session.id, plan.ids) if is_agent else lines
        )
    for old in found.subagents:
        new = old.with_name(old.name.replace(_agent_id(old), agents[_agent_id(old)], 1))
        lines = map(rename, map(swap, _raw_lines(old)))
        files[new] = _with_origin(lines, session.id, plan.ids)
    files[path] = _with_origin(map(rename, carry_out(plan, tally)), session.id, plan.ids)
    return Clone(name, path, files)


def outdated_copies(
    store: Store, session: Session, plan: Plan, backups: Iterable[Path]
) -> list[Path]:
    """Return the backups of a session that would have the wrong content after a plan.

    Two branches from one prompt use the same names for their backups, and the later one overwrites
    those of the other. Without its lines, `/rewind` would restore its files on the other branch.
    The plan may be for a repaired copy of the session.
    """
    dropped = any(plan.log.nodes[index].kind in KINDS for index in plan.dropped)
    if not dropped and plan.log.path == session.path:
        return []
    before, after = listings_in(session), listings_in(plan.log, without=plan.dropped)
    gone = outdated_backups(before, after)
    folder = store.file_history / session.path.stem
    # Versions that a sync set aside begin with the name of the backup, too.
    return [
        path for path in backups if path.parent == folder and path.name.partition(".")[0] in gone
    ]


def _renewed(plan: Plan, new_id: NewId) -> dict[str, str | None]:
    """Map each kept uuid to a new one, and each dropped uuid to its kept ancestor's new uuid."""
    renewed: dict[str, str | None] = {}
    for node in plan.log.nodes:
        if isinstance(node, ChainNode) and node.uuid and node.uuid not in plan.ids:
            renewed[node.uuid] = new_id()
    gone = {old: renewed.get(heir, heir) if heir else None for old, heir in plan.ids.items()}
    return renewed | gone


def _renewed_of(found: Footprint, new_id: NewId) -> dict[str, str | None]:
    """Map each uuid in the files of sub-agents to a new one."""
    nested = [path for path in found.sidecars if path.name.startswith("agent-")]
    return {
        entry.uuid: new_id()
        for path in [*nested, *found.subagents]
        for _, entry in read_entries(path)
        if isinstance(entry, ChainEntry) and isinstance(entry.uuid, str)
    }


def _renaming(old: str, new: str, agents: dict[str, str]) -> Callable[[bytes], bytes]:
    """Return a function that replaces the session id and agent ids in a line.

    Message texts are rewritten too, because they tell the model the paths of the session's files.
    """
    known = {f'"sessionId":"{old}"': f'"sessionId":"{new}"'}
    for agent, renewed in agents.items():
        known[f'"{agent}"'] = f'"{renewed}"'
        known[f"agentId: {agent}"] = f"agentId: {renewed}"
    # A session named "notes" must not rename every mention of notes in the conversation.
    if len(old) >= SAFE_LENGTH:
        known[old] = new
    pairs = [(before.encode(), after.encode()) for before, after in known.items()]

    def rename(line: bytes) -> bytes:
        for before, after in pairs:
            line = line.replace(before, after)
        return line

    return rename


def _sparing(path: Path | None, rename: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Wrap `rename` so that it leaves the path of one file unchanged."""
    if path is None:
        return rename
    name = json.dumps(str(path), ensure_ascii=False).encode()[1:-1]
    return lambda line: name.join(map(rename, line.split(name)))


def _moved(path: Path, old: str, new: str) -> Path:
    """Return the path in the new session for a file of the old one."""
    parts = [new if part == old else part for part in path.parts[:-1]]
    return Path(*parts, path.name.replace(old, new) if path.name.startswith(old) else path.name)


def _hex(new_id: NewId, length: int) -> str:
    return new_id().replace("-", "")[:length]


def _agent_id(path: Path) -> str:
    return path.name.removeprefix("agent-").removesuffix(META_SUFFIX).removesuffix(".jsonl")


def _with_origin(
    lines: Iterable[bytes], origin: str, ids: dict[str, str | None]
) -> Iterator[bytes]:
    """Record the origin in the first entry, like the client's own forks do.

    Also in each prompt, and in each message without an id, which only their uuids identify:
    reports count them once.
    """
    # The first of several old uuids with one new uuid is the entry's own, see `_renewed`.
    former = {new: old for old, new in reversed(ids.items()) if new}
    is_first = True
    for line in lines:
        noted = None
        if is_first:
            noted = _noted(line, origin, former)
            is_first = noted is None
        elif (ANSWER in line and MESSAGE_ID not in line) or (USER in line and RESULT not in line):
            noted = _noted_line(line, origin, former)
        yield noted or line


def _noted(raw: bytes, origin: str, former: dict[str, str]) -> bytes | None:
    """Add the origin to a line's first entry with a uuid; return None if no entry has one."""
    pieces, rest = split_values(Line(raw, 0, 0))
    for position, (value, _) in enumerate(pieces):
        uuid = value.get("uuid") if is_object(value) else None
        if is_object(value) and isinstance(uuid, str):
            # It keeps its first origin, as in `_noted_line`.
            note = _first_origin(value) if _has_only_uuid(value) else None
            # An entry that was added by the edit has no original: it names itself.
            note = note or {"sessionId": origin, "messageUuid": former.get(uuid, uuid)}
            parts = [piece.raw for piece in pieces]
            parts[position] = encoded(value | {"forkedFrom": note})
            return b" ".join([*parts, rest]).rstrip() + line_end(raw)
    return None


def _noted_line(raw: bytes, origin: str, former: dict[str, str]) -> bytes | None:
    """Add the origin to a prompt or a message without an id; return None for any other line."""
    pieces, rest = split_values(Line(raw, 0, 0))
    value = pieces[0].value if len(pieces) == 1 and not rest.strip() else None
    uuid = value.get("uuid") if is_object(value) else None
    if not is_object(value) or not isinstance(uuid, str) or uuid not in former:
        return None
    if not _has_only_uuid(value) or _first_origin(value):
        return None
    if "forkedFrom" in value:  # the client's fork of a session names the uuid that was replaced
        return raw.replace(f'"messageUuid":"{uuid}"'.encode(), _field("messageUuid", former[uuid]))
    # Inserted, not encoded again: every other byte stays as it is.
    note = encoded({"sessionId": origin, "messageUuid": former[uuid]})
    head, brace, tail = raw.rpartition(b"}")
    return b"".join([head, b',"forkedFrom":', note, brace, tail])


def _field(name: str, value: str) -> bytes:
    return json.dumps({name: value}, separators=(",", ":")).encode()[1:-1]


def _has_only_uuid(value: Mapping[str, Any]) -> bool:
    """Return whether an entry is a prompt, or a message without the id of the API."""
    message = value.get("message")
    is_nameless = is_object(message) and not message.get("id")
    return is_nameless and value.get("type") in ("assistant", "user")


def _first_origin(value: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the origin that a clone of a clone inherits; forks name their own uuid instead."""
    note = value.get("forkedFrom")
    is_older = is_object(note) and note.get("messageUuid") not in (None, value.get("uuid"))
    return note if is_object(note) and is_older else None


def _raw_lines(path: Path) -> Iterator[bytes]:
    return (line.raw for line in read_lines(path))
