"""A session as a new one: a new id, new uuids, and every reference to them new as well."""

import json
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from turnlog.conversation.nodes import ChainNode, Node
from turnlog.conversation.session import Session
from turnlog.edit.plan import Plan, carry_out, swapping
from turnlog.format.jsonl import read_lines
from turnlog.store.paths import Store, sidecar_folder

NewId = Callable[[], str]


@dataclass(frozen=True)
class Clone:
    """A new session, to be written: its files and what is in them."""

    id: str
    path: Path
    files: dict[Path, Iterable[bytes]]


def plan_clone(
    store: Store, session: Session, plan: Plan, new_id: NewId = lambda: str(uuid.uuid4())
) -> Clone:
    """Make of a session, as a plan wants it, a new one beside it, with sidecars and backups."""
    name = new_id()
    path = session.path.with_name(f"{name}.jsonl")
    first = next((n for n in _chain(session.nodes) if n.index not in plan.dropped), None)
    plan.ids = _renewed(session.nodes, plan, new_id)
    lines = _renamed(carry_out(plan), session.id, name)
    if first and first.uuid:
        origin = {"sessionId": session.id, "messageUuid": first.uuid}
        lines = _with_origin(lines, plan.ids.get(first.uuid), origin)
    files: dict[Path, Iterable[bytes]] = {path: lines}
    folder = sidecar_folder(session.path)
    for old in _files_below(folder):
        new = sidecar_folder(path) / old.relative_to(folder)
        files[new] = _renamed(_copied(old, plan.ids), session.id, name)
    for old in _files_below(store.file_history / session.id):
        files[store.file_history / name / old.name] = _copied(old, {})
    return Clone(name, path, files)


def _renewed(nodes: list[Node], plan: Plan, new_id: NewId) -> dict[str, str | None]:
    """A new id for each uuid; that of its heir for one that is gone."""
    renewed: dict[str, str | None] = {}
    for node in _chain(nodes):
        if node.uuid and node.uuid not in plan.ids:
            renewed[node.uuid] = new_id()
    gone = {old: renewed.get(heir) if heir else None for old, heir in plan.ids.items()}
    return renewed | gone


def _renamed(lines: Iterable[bytes], old: str, new: str) -> Iterator[bytes]:
    """The session's own id and paths, wherever they stand: texts tell the model where files lie."""
    for line in lines:
        yield line.replace(old.encode(), new.encode())


def _with_origin(
    lines: Iterable[bytes], first: str | None, origin: dict[str, str]
) -> Iterator[bytes]:
    """Note in the first entry where it comes from, as the client's own branches do."""
    mark = f'"uuid":"{first}"'.encode()
    is_noted = False
    for line in lines:
        if not is_noted and mark in line:
            is_noted = True
            fields = json.loads(line) | {"forkedFrom": origin}
            yield json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        else:
            yield line


def _copied(path: Path, ids: dict[str, str | None]) -> Iterator[bytes]:
    swap = swapping(ids)
    for line in read_lines(path):
        yield swap(line.raw)


def _files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _chain(nodes: Iterable[Node]) -> Iterator[ChainNode]:
    return (node for node in nodes if isinstance(node, ChainNode))
