"""Split turns that a fork shares with the session it was forked from.

A fork starts with a copy of another session's lines, under the same uuids. If the copy ends in the
middle of a turn, the rest gets a separate trace: two sessions that continue the same prompt
differently must not share one.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from weakref import WeakKeyDictionary

from turnlog.conversation.nodes import ChainNode
from turnlog.conversation.session import Session, open_session
from turnlog.format.decode import read_entries
from turnlog.format.entries import ChainEntry
from turnlog.format.fields import given
from turnlog.format.regular_files import is_readable, open_regular, skipping
from turnlog.store.paths import is_session_name
from turnlog.trace.work import Work

FIRST_UUID = re.compile(rb'"uuid":\s*"([^"]+)"')
NEAR = 1 << 12
"""Bytes to read first: most files have their first uuid there, and there may be thousands."""
HEAD = 1 << 16
"""Maximum bytes to search for the first uuid of a file."""


class Origin(NamedTuple):
    """The session that a fork was made from, and a test for lines copied from it."""

    session_id: str
    is_copy: Callable[[ChainNode], bool]
    is_there: bool
    """True if the origin's file exists next to the fork's, and accounts for the copied lines."""


class ForkedTurn(NamedTuple):
    """A turn that a fork continues, split into the copied and the new part."""

    origin: Origin
    copied: Work
    own: Work


def split_forked(turn: Work, session_id: str) -> ForkedTurn | None:
    """Return both parts of a turn that continues after a fork; None for any other turn.

    `session_id` is the fork's own. A call belongs to the part that contains its result.
    """
    if turn.prompt is None or len(turn.nodes) < 2:
        return None
    origin = _origin_of(turn.session, session_id)
    if origin is None or not origin.is_copy(turn.prompt) or origin.is_copy(turn.nodes[-1]):
        return None
    # Example: the origin has prompt P and answer A1. The fork copies both and continues with A2. A1
    # belongs to the origin's trace of P, A2 to a trace of the fork's own.
    copied = {node.index for node in turn.nodes if origin.is_copy(node)}
    theirs = [message for message in turn.messages if message.nodes[0].index in copied]
    mine = [message for message in turn.messages if message.nodes[0].index not in copied]
    done = [call for call in turn.calls if call.result and call.result.index in copied]
    remaining = [call for call in turn.calls if call not in done]
    own = replace(
        turn,
        nodes=[node for node in turn.nodes if node.index not in copied],
        messages=mine,
        calls=remaining,
        is_continued=True,
    )
    # A fork may start with a slash command, which is attached to the last copied turn without
    # continuing it.
    is_continued = own.is_answered or any(call.result for call in remaining)
    if not is_continued or not (origin.is_there or theirs):
        return None
    nodes = [node for node in turn.nodes if node.index in copied]
    return ForkedTurn(origin, replace(turn, nodes=nodes, messages=theirs, calls=done), own)


def _origin_of(session: Session, session_id: str) -> Origin | None:
    if session not in _ORIGINS:
        _ORIGINS[session] = _named_origin(session, session_id) or _sibling_origin(session)
    return _ORIGINS[session]


_ORIGINS: WeakKeyDictionary[Session, Origin | None] = WeakKeyDictionary()


def _named_origin(session: Session, session_id: str) -> Origin | None:
    """Return the origin that the first line of a fork names.

    Every copied line has `forkedFrom` (observed: 2.1.325). In earlier versions, only the first line
    keeps the origin's sessionId (observed: 2.0.42 to 2.1.29); copies are then recognized by
    comparison with the origin's file.
    """
    first = next((e for _, e in read_entries(session.path) if isinstance(e, ChainEntry)), None)
    named = _copied_from(first, session_id)
    if first is None or named is None:
        return None
    path = session.path.with_name(f"{named}.jsonl")
    is_there = is_session_name(path.name) and is_readable(path)
    if is_there and not given(first.forked_from):
        copies = {_key(node) for node in open_session(path).tree.chain}
        return Origin(named, _among(copies), is_there)

    def is_marked(node: ChainNode) -> bool:
        return _copied_from(session.entry(node), session_id) is not None

    return Origin(named, is_marked, is_there)


def _copied_from(entry: object, session_id: str) -> str | None:
    """Return the session from which an entry was copied under the same uuid; None if from none.

    `turnlog clone` assigns new uuids: a clone shares no trace with its origin.
    """
    if not isinstance(entry, ChainEntry):
        return None
    origin = given(entry.forked_from)
    if origin and given(origin.session_id):
        is_same = given(origin.message_uuid) in (None, given(entry.uuid))
        return given(origin.session_id) if is_same else None
    named = given(entry.session_id)
    return named if named and named != session_id else None


def _sibling_origin(session: Session) -> Origin | None:
    """Return the origin of a fork whose lines do not name it.

    Candidates are files with the same first uuid. The one whose first own line is older is the
    origin.
    """
    ours = session.tree.chain
    known = {_key(node) for node in ours}
    copies: set[tuple[str, str]] = set()
    found: str | None = None
    for path in _siblings(session.path):
        theirs = open_session(path).tree.chain
        shared = known & {_key(node) for node in theirs}
        # Of two files with the same first lines, the one that continued later is the fork.
        own, their_own = _first_own(ours, shared), _first_own(theirs, shared)
        if shared and own is not None and (their_own is None or their_own < own):
            copies |= shared
            found = path.stem
    return Origin(found, _among(copies), is_there=True) if found else None


def _among(copies: set[tuple[str, str]]) -> Callable[[ChainNode], bool]:
    def is_copy(node: ChainNode) -> bool:
        return _key(node) in copies

    return is_copy


def _key(node: ChainNode) -> tuple[str, str]:
    """Return a key that a line shares with its copies: uuid and time.

    The uuid alone is not enough: some exporters call the first line of every file `msg-001`.
    """
    return node.uuid or "", node.time or ""


def _first_own(chain: list[ChainNode], shared: set[tuple[str, str]]) -> tuple[str, str] | None:
    """Return the time and uuid of the first line that is not shared."""
    own = (_key(node) for node in chain if _key(node) not in shared)
    return next(((time, uuid) for uuid, time in own), None)


def _siblings(path: Path) -> list[Path]:
    state = path.parent.stat()
    firsts = _first_uuids(path.parent, state.st_mtime_ns)
    own = _first_uuid(path)
    return [other for other, uuid in firsts.items() if uuid == own and own and other != path]


@lru_cache(8)
def _first_uuids(folder: Path, _changed: int) -> dict[Path, bytes | None]:
    """Return the first uuid of each session in a folder; cached until the folder changes."""
    paths = sorted(folder.glob("*.jsonl"))
    return {path: _first_uuid(path) for path in paths if is_session_name(path.name)}


def _first_uuid(path: Path) -> bytes | None:
    with skipping(path), open_regular(path) as file:
        head = file.read(NEAR)
        found = FIRST_UUID.search(head) or FIRST_UUID.search(head + file.read(HEAD))
        return found[1] if found else None
    return None
