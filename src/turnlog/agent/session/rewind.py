"""Rewind a conversation, its files or both to before a prompt: plan first, then apply.

Nothing is lost: the conversation continues at an earlier entry, later entries stay in the file, and
the journal keeps the previous content of files. A rewind can therefore be undone.
"""

import os
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from turnlog.agent.permissions.files import is_inside
from turnlog.agent.session.backups import (
    Backup,
    FileSnapshot,
    backup_folder,
    copy_of,
    file_of,
    is_ordinary,
    snapshots_in,
)
from turnlog.agent.session.disk_state import (
    is_changed_outside,
    is_recorded_here,
    is_same,
    last_changes,
)
from turnlog.agent.workspace.sandbox.protected import is_protected
from turnlog.conversation.nodes import ChainNode, UserNode
from turnlog.conversation.prompts import ASKING, LOCAL, prompt_label
from turnlog.conversation.session import Session
from turnlog.edit.apply import Change, apply_changes
from turnlog.edit.compaction_entries import common_fields
from turnlog.edit.journal import Journal, chunks_of
from turnlog.edit.plan import encoded
from turnlog.errors import Conflict, NotFound, UsageError
from turnlog.format.entries import User
from turnlog.format.json_values import Fields
from turnlog.format.jsonl import FileState, append_lines
from turnlog.format.timestamps import TICK, parse_timestamp, stamp_of
from turnlog.store.paths import Store

NOWHERE = "00000000-0000-0000-0000-000000000000"
"""Leaf that the client records when the user leaves a branch (2.1.325, observed)."""

OUTSIDE = "it is outside of the working directories"
PROTECTED = "programs take commands from it"
FOREIGN = "its backup was not made at the recorded time"

_START: Fields = {
    "type": "user",
    "message": {
        "role": "user",
        "content": "<local-command-caveat>The user went back to before the first prompt: the "
        "conversation starts here.</local-command-caveat>",
    },
    "isMeta": True,
}
"""Replaces the note at the start of a conversation: newer clients do not resume a conversation that
starts with a system entry (observed: 2.1.150, 2.1.325)."""


class RewindScope(StrEnum):
    """The scope of a rewind: the conversation, the files or both."""

    CONVERSATION = "conversation"
    FILES = "files"
    BOTH = "both"


class Point(Struct, frozen=True):
    """A prompt that a session can be rewound to."""

    uuid: str
    text: str
    time: str | None


class FileBack(Struct, frozen=True):
    """The effect of a rewind on a file."""

    path: Path
    copy: Path | None
    """The copy to restore; None if the file did not exist and is deleted."""
    is_changed_outside: bool
    """True if someone else has changed it since the session did."""
    is_lost: bool = False
    """True if the copy is missing, so that the file cannot be restored."""
    is_created: bool = False
    """True if the file does not exist now."""
    apart: str = ""
    """The reason why the user must confirm this file separately; empty for an ordinary file."""


class RewindPlan(Struct, frozen=True):
    """A planned rewind to before a prompt."""

    session: Path
    point: Point
    leaf: str | None
    """The entry at which the conversation continues; None for its start."""
    tip: str | None
    """The current tip."""
    files: list[FileBack]
    """Files that differ from their state at the prompt."""

    @property
    def usual(self) -> list[FileBack]:
        """Files restored without separate confirmation."""
        return [file for file in self.files if not file.apart and not file.is_lost]

    @property
    def apart(self) -> list[FileBack]:
        """Files restored only if confirmed one by one."""
        return [file for file in self.files if file.apart and not file.is_lost]

    @property
    def conflicts(self) -> list[FileBack]:
        """Files that someone else changed since."""
        return [file for file in self.usual if file.is_changed_outside]

    @property
    def removed(self) -> list[FileBack]:
        """Files to delete: they did not exist at the prompt."""
        return [file for file in self.usual if file.copy is None]

    @property
    def created(self) -> list[FileBack]:
        """Files to create: they do not exist now."""
        return [file for file in self.usual if file.is_created]

    def choosing(self, chosen: Collection[Path]) -> "RewindPlan":
        """Return the plan with the chosen files confirmed."""
        files = [replace(file, apart="") if file.path in chosen else file for file in self.files]
        return replace(self, files=files)


class Rewound(Struct, frozen=True):
    """A rewind that was applied, for undoing it."""

    session: Path
    tip: str | None
    """The previous tip; None if the conversation was not rewound."""
    change: str | None
    """Journal id of the change to files, if any."""


def rewind_points(session: Session) -> list[Point]:
    """Return the prompts of the conversation, oldest first."""
    wanted = [node for node in session.branch_to(session.tree.active_leaf) if _is_prompt(node)]
    return [_point(session, node) for node in wanted]


def plan_rewind(
    store: Store, session: Session, prompt: str, root: Path, directories: Iterable[Path] = ()
) -> RewindPlan:
    """Plan a rewind to before a prompt.

    `root` is the session's directory, `directories` are additional working directories.
    """
    node = session.node(prompt)
    if not _is_prompt(node):
        raise UsageError(f"{prompt} is not a prompt of {session.id}")
    tree = session.tree
    rank = tree.rank_of(node.uuid)
    before = -1 if rank is None else tree.step_back(rank)
    tip = tree.active_leaf
    return RewindPlan(
        session=session.path,
        point=_point(session, node),
        leaf=tree.chain[before].uuid if before >= 0 else None,
        tip=None if tip is None else tree.chain[tip].uuid,
        files=list(_files_back(store, session, node, [root, *directories])),
    )


def apply_rewind(
    plan: RewindPlan,
    scope: RewindScope,
    session: Session,
    journal: Journal,
    overwrite: bool = False,
) -> Rewound:
    """Apply a rewind; raise `Conflict` if others changed a file, unless `overwrite` is set."""
    change = None
    # Files first: if one of them cannot be restored, the conversation stays where it is.
    if scope is not RewindScope.CONVERSATION:
        if plan.conflicts and not overwrite:
            names = ", ".join(str(file.path) for file in plan.conflicts)
            raise Conflict(f"changed by someone else: {names}")
        change = _restore(plan, journal)
    if scope is RewindScope.FILES:
        return Rewound(plan.session, None, change)
    move_tip(session, plan.leaf, f"Went back to before: {plan.point.text}")
    return Rewound(plan.session, plan.tip, change)


def undo_rewind(done: Rewound, session: Session, journal: Journal) -> None:
    """Undo a rewind."""
    if done.change:
        journal.undo(done.change)
    if done.tip:
        move_tip(session, done.tip, "Went back to where the conversation was.")


def move_tip(session: Session, leaf: str | None, why: str) -> None:
    """Record an entry as the conversation's tip, or None for its start.

    Append a note as a child of that entry. It has the latest timestamp and is the last entry of the
    file, so every client version takes it for the tip. Newer versions also read `last-prompt`
    lines: one records that the user left the branch on purpose, another names the new tip.
    """
    # Another process may have appended to the session since the rewind was planned.
    session.refresh()
    tree = session.tree
    rank = tree.rank_of(leaf)
    if leaf is not None and rank is None:
        raise NotFound(f"no entry {leaf!r} in {session.path}")
    times = [parse_timestamp(node.time) for node in tree.chain]
    now = max([datetime.now(UTC), *(time + TICK for time in times if time)])
    note = {
        "parentUuid": leaf,
        **common_fields(session, tree.chain),
        **(_START if leaf is None else _note(why)),
        "timestamp": stamp_of(now),
        "uuid": str(uuid4()),
    }
    left = {"type": "last-prompt", "leafUuid": NOWHERE, "explicit": True, "sessionId": session.id}
    tip = {"type": "last-prompt", "leafUuid": note["uuid"], "sessionId": session.id}
    append_lines(session.path, map(encoded, (left, note, tip)))
    session.refresh()


def _note(why: str) -> Fields:
    about = {"content": why, "isMeta": False, "level": "info"}
    return {"type": "system", "subtype": "informational"} | about


def _is_prompt(node: ChainNode) -> bool:
    return isinstance(node, UserNode) and node.prompt in ASKING | LOCAL


def _point(session: Session, node: ChainNode) -> Point:
    entry = session.entry(node)
    text = prompt_label(entry) if isinstance(entry, User) else ""
    return Point(node.uuid or "", text, node.time)


def _files_back(
    store: Store, session: Session, prompt: ChainNode, folders: list[Path]
) -> Iterator[FileBack]:
    folder, root = backup_folder(store, session.id), folders[0]
    snapshots = snapshots_in(session.path)
    changes = last_changes(session, root)
    for name, backup in _states_at(snapshots, prompt).items():
        path = file_of(name, backup, root)
        if not is_ordinary(path):
            continue
        copy, apart = copy_of(folder, backup), why_apart(path, folders)
        if backup.name and not copy:
            yield FileBack(path, folder / backup.name, is_changed_outside=False, is_lost=True)
        elif not path.is_dir() and not _is_as(path, copy):
            copies = (copy_of(folder, each) for each in _versions(snapshots, name))
            outside = is_changed_outside(path, [*filter(None, copies)], changes.get(path))
            is_created = not os.path.lexists(path)
            if copy and not is_created and not is_recorded_here(copy, _first_time(snapshots, copy)):
                apart = apart or FOREIGN
            yield FileBack(path, copy, outside, is_created=is_created, apart=apart)


def why_apart(path: Path, folders: Iterable[Path]) -> str:
    """Return why the user must confirm a file separately; empty for an ordinary file.

    A stranger may have written the session: restoring `../.bash_profile` would run commands.
    """
    if not is_inside(path, folders):
        return OUTSIDE
    return PROTECTED if is_protected(path, folders) else ""


def _states_at(snapshots: list[FileSnapshot], prompt: ChainNode) -> dict[str, Backup]:
    """Return the state of each file at a prompt, which is its first backup after the prompt."""
    states: dict[str, Backup] = {}
    exact = [rank for rank, each in enumerate(snapshots) if each.message_id == prompt.uuid]
    later = [rank for rank, each in enumerate(snapshots) if each.offset >= prompt.offset]
    for snapshot in snapshots[min([*exact, *later], default=len(snapshots)) :]:
        states = snapshot.backups | states
    return states


def _versions(snapshots: list[FileSnapshot], name: str) -> list[Backup]:
    return [each.backups[name] for each in snapshots if name in each.backups]


def _first_time(snapshots: list[FileSnapshot], copy: Path) -> str:
    """Return the time of a copy, according to the first snapshot that names it."""
    backups = (backup for each in snapshots for backup in each.backups.values())
    return next((backup.time for backup in backups if backup.name == copy.name), "")


def _is_as(path: Path, copy: Path | None) -> bool:
    return is_same(path, copy) if copy else not path.exists()


def _restore(plan: RewindPlan, journal: Journal) -> str | None:
    files = plan.usual
    if not files:
        return None
    changes = [_change(file) for file in files]
    title = f"rewind of files to before {plan.point.uuid[:8]} in {plan.session.stem}"
    record = apply_changes(journal, title, changes)
    for file in files:
        if file.copy:
            os.utime(file.path)  # so that build tools see the change
    # The journal creates private folders, but these belong to the project.
    usual = 0o777 & ~_umask()
    for folder in record.folders if record else []:
        Path(folder).chmod(usual)
    return record.id if record else None


def _change(file: FileBack) -> Change:
    was = FileState.of(file.path) if file.path.exists() else None
    content = chunks_of(file.copy) if file.copy else None
    return Change(file.path, content, was, like=None if was else file.copy)


def _umask() -> int:
    # The mask can only be read by setting it. With 0o077, a file that another thread creates at
    # this moment is private instead of open to everyone.
    current = os.umask(0o077)
    os.umask(current)
    return current
