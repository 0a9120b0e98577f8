"""Change or export the selected session; every change can be undone through the journal.

The modules for editing are imported on use, so that they do not delay the first paint.
"""

import os
from pathlib import Path
from typing import NamedTuple

from turnlog.errors import Conflict, UsageError
from turnlog.index.reports.session_list import ListedSession
from turnlog.store.paths import Store, expand_user
from turnlog.text import plural


class ActionResult(NamedTuple):
    """The outcome of an action."""

    message: str
    change: str | None = None
    """Its id in the journal, for undo."""
    selected: str | None = None
    """The file of the session to select next."""


def rename(store: Store, session: ListedSession, title: str) -> ActionResult:
    """Give a session a title."""
    from turnlog.edit.service import rename_session

    path = _own_file(store, session)
    renaming = rename_session(store, path, title)
    change = renaming.record.id if renaming.record else None
    return ActionResult(f"renamed to {renaming.title}", change)


def delete(store: Store, session: ListedSession) -> ActionResult:
    """Remove a session with all its files; the journal keeps them."""
    from turnlog.edit.removal import plan_removal
    from turnlog.edit.service import remove_sessions

    path = _own_file(store, session)
    removal = plan_removal(store, [path])
    record = remove_sessions(store, removal)
    files = plural(len(removal.sizes), "file")
    return ActionResult(f"deleted {path.stem[:8]}, {files}", record.id if record else None)


def fork(store: Store, session: ListedSession) -> ActionResult:
    """Copy a session to a new one with new ids, and select the copy."""
    from turnlog.conversation.session import open_session
    from turnlog.edit.plan_builder import EditOptions
    from turnlog.edit.service import clone_session

    path = _own_file(store, session)
    result = clone_session(store, open_session(path), EditOptions())
    change = result.record.id if result.record else None
    message = f"forked as {result.clone.id[:8]}; Enter resumes the copy"
    return ActionResult(message, change, str(result.clone.path))


def undo(change: str) -> ActionResult:
    """Undo a change by its id."""
    from turnlog.edit.journal import open_journal

    return ActionResult(f"undone: {open_journal().undo(change).title}")


def export(store: Store, session: ListedSession, name: str) -> ActionResult:
    """Write a session to a new file, whose extension names the format; secrets are masked."""
    from turnlog.conversation.session import open_session
    from turnlog.render.export import export_options, export_session

    target = expand_user(name).absolute()
    # A typo must neither overwrite a file nor create one among the sessions.
    if os.path.lexists(target):
        raise Conflict(f"{target} exists")
    if target.resolve().is_relative_to(store.projects.resolve()):
        raise UsageError(f"{target} is in {store.projects}")
    options = export_options(target, {})
    export_session(open_session(Path(session.path)), target, options)
    return ActionResult(f"exported to {target}")


def _own_file(store: Store, session: ListedSession) -> Path:
    from turnlog.store.session_lookup import require_in_store

    return require_in_store(store, Path(session.path))
