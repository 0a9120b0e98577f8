"""From arguments to an opened session and a place in it."""

import os
from pathlib import Path

from turnlog.conversation.session import Session, open_session
from turnlog.errors import UsageError
from turnlog.store.find import find_session
from turnlog.store.paths import Store, is_session_name


def open_named(store: Store, text: str) -> Session:
    """Open the session that a user named."""
    return open_session(find_session(store, text).path)


def leaf_of(session: Session, uuid: str | None) -> int | None:
    """The rank of the leaf that a user named; None for the active one."""
    return session.tree.rank_of(session.node(uuid).uuid) if uuid else None


def own_file(store: Store, text: str) -> Path:
    """The file of a session that a user named.

    It must be one of the store: elsewhere, what lies beside a file need not belong to it.
    """
    path = Path(os.path.normpath(find_session(store, text).path.absolute()))
    if not is_session_name(path.name):
        raise UsageError(f"{path.stem} is a sub-agent: name its session", "turnlog ls")
    if not (store.projects.is_dir() and path.parent.parent.samefile(store.projects)):
        raise UsageError(f"{path} is not in {store.projects}", "turnlog where")
    return store.projects / path.parent.name / path.name
