"""Turns that a fork shares with the session it was made from.

A fork begins with a copy of another session's lines, under the same uuids. Where the copy ends in
the middle of a turn, the rest is the fork's own, and gets a trace of its own: two sessions that
continue one prompt differently must not meet in one trace.
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
from turnlog.format.regular_files import is_readable
from turnlog.store.paths import is_session_name
from turnlog.trace.work import Work

FIRST_UUID = re.compile(rb'"uuid":\s*"([^"]+)"')
NEAR = 1 << 12
"""Bytes in which most files have it: a folder may hold thousands of them."""
HEAD = 1 << 16
"""Bytes in which the first uuid of a file is looked for."""


class Origin(NamedTuple):
    """The session that a fork was made from, and which lines are copies of its lines."""

    session_id: str
    is_copy: Callable[[ChainNode], bool]
    is_there: bool
    """Whether the session's own file is beside the fork's: it tells of the copied lines."""


class ForkedTurn(NamedTuple):
    """A turn that a fork continues."""

    origin: Origin
    copied: Work
    own: Work


def split_forked(turn: Work, session_id: str) -> ForkedTurn | None:
    """Return both parts of a turn that goes on after a fork; None for any other turn.

    `session_id` is the session's own. A call belongs to whoever got its result.
    """
    if turn.prompt is None or len(turn.nodes) < 2:
        return None
    origin = _origin_of(turn.session, session_id)
    if origin is None or not origin.is_copy(turn.prompt) or origin.is_copy(turn.nodes[-1]):
        return None
    copied = {node.index for node in turn.nodes if origin.is_copy(node)}
    own = [node for node in turn.nodes if node.index not in copied]
    mine = [message for message in turn.messages if message.nodes[0].index not in copied]
    theirs = [message for message in turn.messages if message.nodes[0].index in copied]
    done = [call for call in turn.calls if call.result and call.result.index in copied]
    left = [call for call in turn.calls if call not in done]
    nodes = [node for node in turn.nodes if node.index in copied]
    return ForkedTurn(
        origin,
        replace(turn, nodes=nodes, messages=theirs, calls=done),
        replace(turn, nodes=own, messages=mine, calls=left, is_continued=True),
    )


def _origin_of(session: Session, session_id: str) -> Origin | None:
    if session not in _ORIGINS:
        _ORIGINS[session] = _named_origin(session, session_id) or _sibling_origin(session)
    return _ORIGINS[session]


_ORIGINS: WeakKeyDictionary[Session, Origin | None] = WeakKeyDictionary()


def _named_origin(session: Session, session_id: str) -> Origin | None:
    """Return the origin that the first line names, and by which all copies can be told."""
    first = next((e for _, e in read_entries(session.path) if isinstance(e, ChainEntry)), None)
    named = _copied_from(first, session_id)
    if named is None:
        return None

    def is_copy(node: ChainNode) -> bool:
        return _copied_from(session.entry(node), session_id) is not None

    is_there = session.path.with_name(f"{named}.jsonl").is_file()
    return Origin(named, is_copy, is_there)


def _copied_from(entry: object, session_id: str) -> str | None:
    """Return the session whose line an entry is a copy of, under the same uuid.

    `forkedFrom` is written by 2.1.x. Some copies keep the sessionId of the original. What
    `turnlog clone` makes has uuids of its own, and shares no trace with anything.
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
    """Return the origin of a fork whose lines do not name it: a file that begins with its uuid.

    Both files have the same first lines. The one that went on earlier after these is the origin.
    """
    known = {node.uuid for node in session.tree.chain if node.uuid}
    shared: set[str] = set()
    found: str | None = None
    for path in _siblings(session.path):
        other = open_session(path).tree.chain
        theirs = {node.uuid for node in other if node.uuid}
        ours, their_first = _first_time(session.tree.chain, theirs), _first_time(other, known)
        if ours is not None and (their_first is None or their_first < ours):
            shared |= theirs
            found = path.stem

    def is_copy(node: ChainNode) -> bool:
        return node.uuid in shared

    return Origin(found, is_copy, is_there=True) if found else None


def _first_time(chain: list[ChainNode], shared: set[str]) -> tuple[str, str] | None:
    """Return when a session first had a line of its own."""
    own = (node for node in chain if node.uuid and node.uuid not in shared)
    return next(((node.time or "", node.uuid or "") for node in own), None)


def _siblings(path: Path) -> list[Path]:
    state = path.parent.stat()
    firsts = _first_uuids(path.parent, state.st_mtime_ns)
    own = _first_uuid(path)
    return [other for other, uuid in firsts.items() if uuid == own and own and other != path]


@lru_cache(8)
def _first_uuids(folder: Path, _changed: int) -> dict[Path, bytes | None]:
    """Return the first uuid of each session in a folder, until the folder changes."""
    paths = sorted(folder.glob("*.jsonl"))
    return {path: _first_uuid(path) for path in paths if is_session_name(path.name)}


def _first_uuid(path: Path) -> bytes | None:
    try:
        if not is_readable(path):
            return None
        with path.open("rb") as file:
            head = file.read(NEAR)
            found = FIRST_UUID.search(head) or FIRST_UUID.search(head + file.read(HEAD))
    except OSError:
        return None
    return found[1] if found else None
