"""Restore the messages, leaf, model and mode of a session to resume it.

In a long session, only the part after the last compaction is read, if that is sufficient.
"""

import re
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from msgspec import Struct

from turnlog.agent.session.recorder import Recorder
from turnlog.agent.session.session_totals import KIND as TOTALS
from turnlog.agent.workspace.access import ApprovalMode
from turnlog.conversation.branch import since_compaction
from turnlog.conversation.context import MissingEnd, missing_end
from turnlog.conversation.node_log import NodeLog, ReadExtent
from turnlog.conversation.nodes import SYNTHETIC, BoundaryNode, ChainNode, UserNode
from turnlog.conversation.prompts import ASKING, LOCAL
from turnlog.conversation.session import open_session
from turnlog.conversation.tree import Tree, is_compaction
from turnlog.edit.plan import encoded
from turnlog.errors import Conflict, NotFound
from turnlog.format.decode import values_of
from turnlog.format.json_values import Fields, is_array, is_object
from turnlog.format.jsonl import Line, append_lines, read_lines_backwards
from turnlog.format.private_files import create_private_folder
from turnlog.format.regular_files import collect_skipped
from turnlog.format.timestamps import parse_timestamp
from turnlog.store.catalog import list_sessions
from turnlog.store.paths import Store

SMALL = 1 << 20
"""Sessions of at most this many bytes are read completely."""
NEAR = 8 << 20
"""Maximum bytes before a compaction to search for the messages that it preserved."""
MODE = "permission-mode"
BOUNDARY = b'"compact_boundary"'
SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
"""A slug that is safe as a file name, as the session's plan is saved under it."""
NEVER_RESTORED = (ApprovalMode.PLAN, ApprovalMode.BYPASS)
"""Permission modes that are not restored, as the client documents."""


class Resumed(Struct, frozen=True):
    """The state of a session at its end."""

    chain: list[Fields] = []
    """The entries of its context."""
    leaf: str | None = None
    missing: MissingEnd | None = None
    last_time: str | None = None
    """The latest timestamp of any entry."""
    model: str | None = None
    mode: ApprovalMode | None = None
    slug: str | None = None
    totals: Fields | None = None
    """The last recorded totals, from a `cost-state` entry."""
    todos: list[Fields] = []
    """The to-do list as TodoWrite last set it."""


def reopen(path: Path, at: str | None = None) -> Resumed:
    """Read a session for resuming it, at its end or at an earlier entry."""
    log = NodeLog(path) if at else _log_of(path)
    leaf = _rank(log.tree, at) if at else log.tree.active_leaf
    if leaf is None:
        raise NotFound(f"{path} contains no conversation", "turnlog ls")
    nodes = since_compaction(log.tree, leaf)
    chain = list(log.values(nodes))
    times = [node.time for node in log.nodes if parse_timestamp(node.time)]
    return Resumed(
        chain=chain,
        leaf=log.tree.chain[leaf].uuid,
        missing=missing_end(chain),
        last_time=max(times, default=None, key=_moment),
        model=_last(_models(chain)),
        mode=_mode(log, nodes, chain),
        todos=_todos(chain),
        slug=_last(slug for entry in chain if SLUG.fullmatch(slug := str(entry.get("slug") or ""))),
        totals=_last_value(log, TOTALS),
    )


def fork_totals(path: Path) -> Fields | None:
    """Return the totals of a session, from which a fork continues (2.1.325, observed)."""
    return _last_value(_log_of(path), TOTALS)


def continue_session(recorder: Recorder, resumed: Resumed) -> None:
    """Make a recorder continue a session."""
    recorder.chain = resumed.chain
    recorder.leaf = resumed.leaf
    recorder.missing = resumed.missing
    recorder.totals.continue_from(resumed.totals)
    moment = parse_timestamp(resumed.last_time)
    if moment:
        recorder.last_time = max(recorder.last_time, moment)


def _rank(tree: Tree, uuid: str) -> int:
    rank = tree.rank_of(uuid)
    if rank is None:
        raise NotFound(f"No message found with message.uuid of: {uuid}", "turnlog show SESSION")
    return rank


def check_dropped(path: Path, at: str, prompt: str) -> None:
    """Raise `Conflict` unless resuming at an entry drops exactly the turn of one prompt.

    The session may contain later entries that the caller has not seen, such as a queued prompt.
    """
    session = open_session(path)
    tree = session.tree
    kept = {node.uuid for node in session.branch_to(_rank(tree, at))}
    dropped = [node for node in session.branch_to(tree.active_leaf) if node.uuid not in kept]
    asked = [
        node.uuid
        for node in dropped
        if isinstance(node, UserNode) and node.prompt in ASKING | LOCAL
    ]
    if asked != [prompt]:
        why = "the dropped entries belong to other prompts" if asked else "it drops no prompt"
        raise Conflict(f"Resume rejected by --resume-drops-turn: {why}")


def fork(path: Path, copy: Path, at: str | None = None) -> None:
    """Copy the conversation of a session into a new one, up to an entry.

    As in client 2.1.325, lines keep their uuids, and nothing else of the session is copied.
    """
    session = open_session(path)
    leaf = _rank(session.tree, at) if at else session.tree.active_leaf
    nodes = session.branch_to(leaf)
    create_private_folder(copy.parent)
    append_lines(copy, (encoded(_owned(value, copy.stem)) for value in session.values(nodes)))


def latest_in(store: Store, cwd: Path) -> Path:
    """Return the most recently active session of a directory."""
    with collect_skipped():  # unreadable files must not make a chat fail
        found = list_sessions(store, str(cwd))
    if not found:
        raise NotFound(f"no session was started in {cwd}", "turnlog ls")
    return found[0].path


def _log_of(path: Path) -> NodeLog:
    """Read a session's entries: all, or a sufficient tail."""
    if path.stat().st_size > SMALL:
        # The fast path for long sessions. It is safe because `_is_sufficient` falls back to reading
        # everything if anything in the tail refers to an entry before it.
        log = NodeLog(path, ReadExtent(_tail_start(path)))
        if _is_sufficient(log.tree):
            return log
    return NodeLog(path)


def _tail_start(path: Path) -> int:
    """Return the offset of the last compaction, including messages before it that it preserved."""
    boundary: int | None = None
    missing: set[bytes] = set()
    for line in read_lines_backwards(path):
        if boundary is None:
            found = _boundary_in(line)
            if found is None:
                continue
            boundary, missing = line.offset, {_own_uuid(uuid) for uuid in found}
        else:
            missing -= {each for each in missing if each in line.raw}
        if not missing or boundary - line.offset > NEAR:
            return line.offset if not missing else boundary
    return 0


def _boundary_in(line: Line) -> list[str] | None:
    """Return the uuids that the compaction in a line preserved; None if it has no compaction."""
    # The bytes may be quoted in a message, so a match is decoded before it counts.
    for value in values_of(line) if BOUNDARY in line.raw else ():
        if is_object(value) and value.get("subtype") == "compact_boundary":
            about = value.get("compactMetadata")
            kept = about.get("preservedMessages") if is_object(about) else None
            uuids = kept.get("uuids") if is_object(kept) else None
            return list(map(str, uuids)) if is_array(uuids) else []
    return None


def _own_uuid(uuid: str) -> bytes:
    return f'"uuid":"{uuid}"'.encode()


def _is_sufficient(tree: Tree) -> bool:
    """Return whether nothing in a tail refers to an earlier entry.

    The branch must start in the tail, and the tail must contain the leaf that the client recorded.
    """
    leaf = tree.active_leaf
    if leaf is None or (tree.tip_note and tree.rank_of(tree.tip_note.leaf) is None):
        return False
    path = tree.resumed_path(leaf)
    first = tree.chain[path[-1]]
    is_linked = all(tree.rank_of(tree.chain[a].parent) == b for a, b in pairwise(path))
    if not is_compaction(first) or not is_linked:
        return False
    return all(tree.rank_of(uuid) is not None for uuid in _preserved(first))


def _preserved(node: ChainNode) -> Iterable[str]:
    preserved = node.preserved if isinstance(node, BoundaryNode) else None
    return (preserved.uuids or ()) if preserved else ()


def _models(chain: list[Fields]) -> Iterable[str]:
    messages = [entry.get("message") for entry in chain if entry.get("type") == "assistant"]
    named = [message.get("model") for message in messages if is_object(message)]
    return (model for model in named if isinstance(model, str) and model != SYNTHETIC)


def _mode(log: NodeLog, nodes: list[ChainNode], chain: list[Fields]) -> ApprovalMode | None:
    """Return the last recorded permission mode: that of the last prompt or of a later switch."""
    asked = [
        (node.index, entry["permissionMode"])
        for node, entry in zip(nodes, chain, strict=True)
        if "permissionMode" in entry
    ]
    switched = [node for node in log.nodes if node.kind == MODE][-1:]
    asked += [
        (node.index, entry.get("permissionMode"))
        for node, entry in zip(switched, log.values(switched), strict=True)
    ]
    named: Any = max(asked, default=(0, None), key=lambda each: each[0])[1]
    known = [mode for mode in ApprovalMode if mode.value == named and mode not in NEVER_RESTORED]
    return known[0] if known else None


def _last_value(log: NodeLog, kind: str) -> Fields | None:
    """Return the last entry of a kind that is not part of the conversation."""
    nodes = [node for node in log.nodes if node.kind == kind][-1:]
    return next(log.values(nodes), None)


def _todos(chain: list[Fields]) -> list[Fields]:
    results = [entry["toolUseResult"] for entry in chain if is_object(entry.get("toolUseResult"))]
    lists = [each["newTodos"] for each in results if is_array(each.get("newTodos"))]
    return [todo for todo in lists[-1] if is_object(todo)] if lists else []


def _last(values: Iterable[str]) -> str | None:
    return next(iter(list(values)[::-1]), None)


def _moment(time: str | None) -> float:
    moment = parse_timestamp(time)
    return moment.timestamp() if moment else 0.0


def _owned(value: Fields, session_id: str) -> Fields:
    """Return an entry with the id of another session."""
    names = {"sessionId", "session_id"} & value.keys()
    return value | dict.fromkeys(names, session_id)
