"""Prepare to resume a session: find its directory, check it, and copy, repair or move it.

Nothing is run here. `plan_resume` reports what is in the way; each obstacle has a function that
removes it, and every change is recorded in the journal.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from turnlog.conversation.session import open_session
from turnlog.edit.check.checks import check_session
from turnlog.edit.check.findings import Finding, Severity
from turnlog.edit.move import directory_of, move_session
from turnlog.edit.plan_builder import REPAIR, EditOptions
from turnlog.edit.service import CloneResult, clone_session, move_sessions
from turnlog.errors import NotFound
from turnlog.store.catalog import live_sessions
from turnlog.store.client_settings import kept_days
from turnlog.store.paths import Store, folder_name
from turnlog.store.resume_command import client_version, find_client
from turnlog.store.session_lookup import require_in_store

CHAT = ("turnlog", "chat")


@dataclass(frozen=True)
class ResumePlan:
    """A session that is to be resumed, and what is in the way."""

    store: Store
    path: Path
    directory: str | None
    """The directory that the session belongs to; None if no entry names one."""
    findings: tuple[Finding, ...] = ()
    """Reasons why the client cannot resume it in full, the worst first."""
    is_open: bool = False
    """True if a running client has it open."""
    is_misplaced: bool = False
    """True if its file is not where the client looks when it is started in the directory."""

    @property
    def id(self) -> str:
        return self.path.stem

    @property
    def has_directory(self) -> bool:
        """True if the directory that the session belongs to exists."""
        return self.directory is not None and Path(self.directory).is_dir()

    @property
    def is_refused(self) -> bool:
        """Return whether the client, or the API, would refuse the session."""
        return any(finding.severity is Severity.FATAL for finding in self.findings)


@dataclass(frozen=True)
class ResumeProgram:
    """The program that resumes a session: the client or `turnlog chat`."""

    words: tuple[str, ...]
    """The client with its path, or `turnlog chat`."""
    is_chat: bool
    version: str | None = None
    """The client's version, if it is known."""
    is_replacement: bool = False
    """True if it runs only because no client is installed."""


def resume_program(is_chat: bool = False) -> ResumeProgram:
    """Return the installed client; `turnlog chat` on request, or if no client is installed."""
    program = None if is_chat else find_client()
    if program is None:
        return ResumeProgram(CHAT, is_chat=True, is_replacement=not is_chat)
    return ResumeProgram((program,), is_chat=False, version=client_version(program))


def plan_resume(store: Store, session: Path, version: str | None = None) -> ResumePlan:
    """Return what is in the way of resuming a session with the given client version."""
    path = require_in_store(store, session)
    directory = directory_of(path)
    serious = [each for each in check_session(open_session(path), version) if each.is_serious]
    is_misplaced = directory is not None and not _is_filed_under(path, directory)
    is_open = path.stem in live_sessions(store)
    return ResumePlan(store, path, directory, tuple(serious), is_open, is_misplaced)


def _is_filed_under(session: Path, directory: str) -> bool:
    """Return whether the client finds a session when it is started in a directory."""
    # The client resolves links: started in /tmp/shop, it may look for /private/tmp/shop.
    names = {folder_name(directory), folder_name(os.path.realpath(directory))}
    return session.parent.name in names


@dataclass(frozen=True)
class CopyChoice:
    """The copy of a session that is resumed in its place."""

    is_repaired: bool = False
    until: int | None = None
    """The last turn to keep."""
    version: str | None = None
    """The version of the client that resumes it."""


def copy_for_resume(plan: ResumePlan, choice: CopyChoice, *, dry_run: bool = False) -> CloneResult:
    """Write an undoable copy of a session to resume instead: repaired, or cut after a turn."""
    until = None if choice.until is None else str(choice.until)
    options = EditOptions([REPAIR] if choice.is_repaired else [], until=until)
    session, version = open_session(plan.path), choice.version
    return clone_session(plan.store, session, options, client_version=version, dry_run=dry_run)


def existing_directory(directory: Path) -> str:
    """Return the real path of a directory; raise `NotFound` if it does not exist."""
    target = os.path.realpath(directory)
    if not Path(target).is_dir():
        raise NotFound(f"{target} is not a directory", f"mkdir -p {quote(target)}")
    return target


def move_for_resume(plan: ResumePlan, target: str) -> Path:
    """Move a session to a directory, to resume it there; return its new file. Undoable."""
    move_sessions(plan.store, move_session(plan.store, plan.path, target))
    return plan.store.project_of(target) / plan.path.name


def protect_from_cleanup(plan: ResumePlan) -> bool:
    """Update the modification time of a session that the client would delete; return True if done.

    The client deletes old sessions when it starts, including the one that it is about to resume
    (observed: 1.0.60, which then reports that there is no such conversation).
    """
    deleted_before = time.time() - (kept_days(plan.store) - 1) * 86_400
    if plan.path.stat().st_mtime > deleted_before:
        return False
    os.utime(plan.path)
    return True


def clone_command(plan: ResumePlan, words: Sequence[str]) -> str:
    """Return the `turnlog clone` command that makes the copy to be resumed."""
    return " ".join(["turnlog", "clone", plan.id, *words])
