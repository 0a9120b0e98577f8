"""From arguments to an opened session and a place in it."""

from turnlog.conversation.session import Session, open_session
from turnlog.store.find import find_session
from turnlog.store.paths import Store


def open_named(store: Store, text: str) -> Session:
    """Open the session that a user named."""
    return open_session(find_session(store, text).path)


def leaf_of(session: Session, uuid: str | None) -> int | None:
    """The rank of the leaf that a user named; None for the active one."""
    return session.tree.rank_of(session.node(uuid).uuid) if uuid else None
