"""Edit, clone, rename, tag, move and remove sessions, for commands and library users.

Open sessions are refused before anything is written, and every change is recorded in the journal,
so that it can be undone.
"""

import shlex
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from turnlog.conversation.session import Session
from turnlog.edit.apply import apply_changes, create_session, replace_session, require_idle
from turnlog.edit.check.checks import needs_straightening
from turnlog.edit.check.findings import Finding
from turnlog.edit.clone import Clone, outdated_copies, plan_clone
from turnlog.edit.effect import Effect
from turnlog.edit.journal import Record, open_journal
from turnlog.edit.move import Move
from turnlog.edit.plan import carry_out
from turnlog.edit.plan_builder import (
    COMPRESS,
    STRAIGHTEN,
    EditOptions,
    Prepared,
    build_plan,
    changes_anything,
    prepared,
)
from turnlog.edit.removal import Removal
from turnlog.edit.session_title import clean_tag, clean_title, tag_changes, title_changes
from turnlog.errors import TurnlogError, UsageError
from turnlog.store.catalog import describe, locate_session
from turnlog.store.footprint import footprint_of, root_of
from turnlog.store.paths import Store, client_store
from turnlog.store.symlinks import require_no_link


class EditOutcome(NamedTuple):
    """The outcome of an edit, or of its preview."""

    effect: Effect
    mended: list[Finding]
    """Findings that a repair removed."""
    left: list[Finding]
    """Findings that a repair could not remove."""
    record: Record | None
    """The change in the journal; None for a preview, and if nothing changed."""
    is_change: bool


class CloneResult(NamedTuple):
    """A clone that was written, or would be."""

    clone: Clone
    effect: Effect
    mended: list[Finding]
    left: list[Finding]
    straightened_for: str | None
    """The client version that made straightening necessary; None if it was not."""
    record: Record | None = None
    """The change in the journal; None for a preview."""


class Renaming(NamedTuple):
    """A new title, and the change in the journal if it was written."""

    title: str
    record: Record | None


class Tagging(NamedTuple):
    """A session's new tag and its previous one; None means no tag."""

    tag: str | None
    before: str | None
    record: Record | None
    """The change in the journal; None for a preview, and if nothing changed."""


def edit_session(
    store: Store, session: Session, options: EditOptions, *, dry_run: bool = False
) -> EditOutcome:
    """Change a session in place; with `dry_run`, only compute the effect."""
    if not (options.transforms or options.until or options.branch):
        raise UsageError("no edit was requested", "turnlog edit --help")
    if not dry_run:
        require_idle(store, session.path)
    record = None
    with prepared(session, options) as ready:
        lines = carry_out(ready.plan, ready.tally)
        if dry_run:
            deque(lines, maxlen=0)
        else:
            title = f"edit of {session.id} ({', '.join(options.transforms) or 'cut'})"
            copies = footprint_of(store, session.path).backups
            outdated = outdated_copies(store, session, ready.plan, copies)
            require_no_link(root_of(store, session.path), [session.path, *outdated])
            record = replace_session(open_journal(), title, session, lines, outdated)
    effect = ready.tally.effect()
    is_change = bool(ready.mended or effect.is_change) if dry_run else record is not None
    return EditOutcome(effect, ready.mended, ready.left, record, is_change)


def clone_session(
    store: Store,
    session: Session,
    options: EditOptions,
    *,
    client_version: str | None = None,
    dry_run: bool = False,
) -> CloneResult:
    """Copy a session to a new one with new ids; with `dry_run`, only compute the effect.

    Unless the options decide it, the clone is straightened if the client that will resume it
    (`client_version`, by default the one that wrote the session) would otherwise lose history.
    """
    target = _straightened_for(session, options, client_version)
    extended = replace(options, transforms=[*options.transforms, STRAIGHTEN]) if target else options
    with prepared(session, extended) as ready:
        # The clone gets a UUID as its name, so an invalid old name counts as repaired.
        renamed = [finding for finding in ready.left if finding.kind == "not-a-uuid"]
        ready.mended.extend(renamed)
        ready.left[:] = [finding for finding in ready.left if finding not in renamed]
        _require_compression(session, options, ready)
        clone = plan_clone(store, session, ready.plan, ready.tally)
        record = None
        if dry_run:
            deque(clone.files[clone.path], maxlen=0)
        else:
            require_no_link(root_of(store, session.path), clone.files)
            title = f"clone of {session.id}"
            record = create_session(open_journal(), title, session, clone.files)
    return CloneResult(clone, ready.tally.effect(), ready.mended, ready.left, target, record)


def rename_session(store: Store, session: Path, title: str, *, dry_run: bool = False) -> Renaming:
    """Set a session's title like the client's `/rename`; line breaks become spaces."""
    title = clean_title(title)
    if dry_run:
        return Renaming(title, None)
    require_idle(store, session)
    changes = title_changes(session, title)
    change = f"rename of {session.stem} to {title!r}"
    return Renaming(
        title, apply_changes(open_journal(), change, changes, root=root_of(store, session))
    )


def tag_session(store: Store, session: Path, tag: str | None, *, dry_run: bool = False) -> Tagging:
    """Set a session's tag like the Agent SDK's `tag_session`; None removes it."""
    tag = None if tag is None else clean_tag(tag)
    before = describe(locate_session(session)).tag
    if dry_run or tag == before:
        return Tagging(tag, before, None)
    require_idle(store, session)
    change = f"tag of {session.stem}: {tag!r}" if tag else f"removal of the tag of {session.stem}"
    changes = tag_changes(session, tag or "")
    record = apply_changes(open_journal(), change, changes, root=root_of(store, session))
    return Tagging(tag, before, record)


def remove_sessions(store: Store, removal: Removal) -> Record | None:
    """Remove sessions as planned; the journal keeps every file for an undo."""
    paths = removal.sessions
    require_idle(store, *paths)
    title = f"removal of {paths[0].stem if len(paths) == 1 else f'{len(paths)} sessions'}"
    journal, clearing = open_journal(), removal.clearing
    return apply_changes(journal, title, removal.changes, clearing=clearing, root=store.root)


def move_sessions(store: Store, move: Move) -> Record | None:
    """Move sessions to another directory as planned; return None if all are there already."""
    require_idle(store, *(moved.session for moved in move.sessions))
    ids = [moved.session.stem for moved in move.sessions]
    what = ids[0] if len(ids) == 1 else f"{len(ids)} sessions of {move.relocation.old}"
    title = f"move of {what} to {move.relocation.new}"
    journal, clearing = open_journal(), move.clearing
    return apply_changes(journal, title, move.changes, clearing=clearing, root=store.root)


def is_in_store(session: Path) -> bool:
    """Return whether the client finds a session by its id, because it is in the client's store."""
    projects = client_store().projects
    return projects.is_dir() and session.absolute().parent.parent.samefile(projects)


def _straightened_for(
    session: Session, options: EditOptions, client_version: str | None
) -> str | None:
    """Return the client version to straighten a clone for; None if there is no need to."""
    target = client_version or session.client_version
    if options.keeps_tree or STRAIGHTEN in options.transforms or target is None:
        return None
    return target if needs_straightening(session, target) else None


def _require_compression(session: Session, options: EditOptions, ready: Prepared) -> None:
    """Raise if compression was requested and nothing would change."""
    if COMPRESS not in options.transforms or ready.mended or ready.plan.added:
        return
    if changes_anything(build_plan(session, options)):
        return
    turns, spared = len(session.turns), options.choice.keep_last
    reason = "its older turns are already a summary"
    if spared >= turns:
        count = "its only turn" if turns == 1 else f"all of its {turns} turns"
        reason = f"--keep-last {spared} keeps {count}" if turns else "it has no turns"
    name = session.id if is_in_store(session.path) else str(session.path)
    hint = f"turnlog clone {shlex.quote(name)}"
    raise TurnlogError(f"nothing to compress in {session.id}: {reason}", hint)
