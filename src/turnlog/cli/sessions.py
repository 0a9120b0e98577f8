"""Resolve arguments to an open session, a leaf or a line."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from turnlog.cli.suggested_commands import to_type
from turnlog.cli.terminal import echo
from turnlog.conversation.nodes import ChainNode
from turnlog.conversation.session import Session, open_session
from turnlog.errors import NotFound, UsageError
from turnlog.store.paths import Store
from turnlog.store.session_lookup import find_in_store, find_session, only_archived
from turnlog.store.stores import AnyStores, each_store, holder_of
from turnlog.text import plural

if TYPE_CHECKING:
    from turnlog.store.archive.archive import ArchiveManifest


def open_named(stores: AnyStores, text: str) -> Session:
    """Open the session that an argument names."""
    return open_session(find_session(stores, text).path)


def open_lazily(stores: AnyStores, text: str) -> Session:
    """Open the session that an argument names, to show parts of it; if large, with its node table.

    A session that is only in the archive is opened from there.
    """
    from turnlog.index.session_tables import open_cached_session

    try:
        path = find_session(stores, text).path
    except NotFound:
        archived = only_archived(text)
        if len(archived) != 1:
            raise
        return _open_archived(archived[0])
    return open_cached_session(holder_of(stores, path), path)


def _open_archived(manifest: "ArchiveManifest") -> Session:
    """Open a copy of an archived session; it is removed when the command ends."""
    from tempfile import TemporaryDirectory

    import click

    from turnlog.store.archive.archive import open_archive
    from turnlog.store.archive.restore import restore_transcript

    folder = click.get_current_context().with_resource(TemporaryDirectory(prefix="turnlog-"))
    session = open_session(restore_transcript(open_archive(), manifest, Path(folder)))
    name = manifest.session
    hint = to_type(f"turnlog restore {quote(name)}")
    echo(f"turnlog: {name} is only in the archive (to resume it: {hint})", err=True)
    return session


def leaf_of(session: Session, uuid: str | None) -> int | None:
    """Return the rank of a leaf by its uuid; None for the active one."""
    return session.tree.rank_of(session.node(uuid).uuid) if uuid else None


def own_files(stores: AnyStores, texts: Iterable[str], command: str) -> tuple[Store, list[Path]]:
    """Return the store and files of the named sessions; raise UsageError for several stores."""
    found = [find_in_store(stores, text) for text in texts]
    holders = list(dict.fromkeys(each.store for each in found))
    if len(holders) > 1:
        raise _several_stores(holders, command)
    holder = holders[0] if holders else only_store(stores, command)
    return holder, list(dict.fromkeys(each.path for each in found))


def only_store(stores: AnyStores, command: str) -> Store:
    """Return the only store, for a change to all of it; raise UsageError if there are several."""
    first, *others = each_store(stores)
    if others:
        raise _several_stores([first, *others], command)
    return first


def _several_stores(stores: Sequence[Store], command: str) -> UsageError:
    roots = " and ".join(str(store.root) for store in stores)
    # A change is undone as a whole, and belongs to one store.
    hint = f"turnlog --store {quote(str(stores[0].root))} {command}"
    return UsageError(f"{command} changes one store at a time, not {roots}", hint)


class LinePlace(NamedTuple):
    """The turn and branch that contain a line."""

    session: Session
    """The session, or a sub-agent inside its file."""
    leaf: int | None
    """Leaf of the branch that contains it; None for the active one."""
    turn: int
    line: int
    """The effective line, if several have the same uuid."""


def place_of(session: Session, line: int) -> LinePlace:
    """Find the turn that contains a line, on the active branch or another one."""
    if number := session.turn_at(line):
        return LinePlace(session, None, number, line)
    for holder in _holders(session):
        node = next((each for each in holder.nodes if each.line == line), None)
        rank = _rank_of(holder, node) if isinstance(node, ChainNode) else None
        if rank is None:
            continue
        target = holder.tree.chain[rank]
        for leaf in _leaves_at(holder, rank):
            for turn in holder.turns_to(leaf):
                if target in turn.nodes:
                    return LinePlace(holder, leaf, turn.n, target.line)
    if line > session.last_line:
        count = plural(session.last_line, "line")
        hint = f"turnlog entries {quote(session.id)}"
        raise NotFound(f"{session.path.name} has {count}, no line {line}", hint)
    hint = f"turnlog raw {quote(session.id)} --line {line}"
    raise NotFound(f"line {line} of {session.path.name} is in no turn", hint)


def _holders(session: Session) -> Iterator[Session]:
    """Yield a session and the sub-agents inside its file."""
    yield session
    for agent in session.subagents:
        if agent.root is not None:
            yield session.open_subagent(agent)


def _rank_of(session: Session, node: ChainNode) -> int | None:
    chain = session.tree.chain
    by_place = (rank for rank, each in enumerate(chain) if each.index == node.index)
    return session.tree.rank_of(node.uuid) if node.uuid else next(by_place, None)


def _leaves_at(session: Session, rank: int) -> Iterator[int]:
    """Yield the active leaf, then the last leaf below a node: their branches may contain it."""
    tree = session.tree
    if tree.active_leaf is not None:
        yield tree.active_leaf
    while rank in tree.children:
        rank = tree.children[rank][-1]
    yield rank
