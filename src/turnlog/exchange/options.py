"""Options and result of a sync."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from turnlog.store.deletion_consent import Consent, require_yes

RECENT = 5.0
"""Seconds: a file modified this recently may be in use by a client that keeps no registry."""

Progress = Callable[[str, int, int], None]
"""Called with the name of a step, the work done so far and the total."""


def no_progress(step: str, done: int, total: int) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class ExchangeOptions:
    """Options of a sync."""

    is_dry_run: bool = False
    leave_removed: bool = False
    """Do not bring back what was removed on this machine."""
    is_deleting: bool = False
    """Delete elsewhere what was removed here, and here what was removed elsewhere."""
    consent: Consent = require_yes
    mapped: Mapping[str, str] = field(default_factory=dict[str, str])
    """Directories of this machine with the names they have on all machines."""
    password: str | None = None
    may_start: bool = False
    """True if DEST may be a place without turnlog's files."""
    is_verifying: bool = False
    """Read all packs at DEST, and send again what is damaged there."""
    settle: float = RECENT
    progress: Progress = no_progress


@dataclass(frozen=True)
class NotExchanged:
    """A session, file or machine that was skipped."""

    name: str
    reason: str


@dataclass
class Exchanged:
    """The result of a sync."""

    dest: str
    machine: str
    """The id of this machine."""
    machines: int = 0
    """Number of other machines."""
    sessions: int = 0
    """Sessions of this machine."""
    sent: int = 0
    """Sessions with something new for others."""
    sent_bytes: int = 0
    written_bytes: int = 0
    """Bytes written to DEST, compressed."""
    created: list[str] = field(default_factory=list[str])
    """Sessions that this machine did not have."""
    extended: list[str] = field(default_factory=list[str])
    """Sessions that were fast-forwarded."""
    merged: list[str] = field(default_factory=list[str])
    """Sessions that got a branch of another machine."""
    forked: list[str] = field(default_factory=list[str])
    """Other editions of sessions, by the ids of their forks."""
    files: int = 0
    """Other files that were created or replaced."""
    lines: int = 0
    """Lines received for logs that this machine had."""
    received_bytes: int = 0
    started: list[str] = field(default_factory=list[str])
    """Remarks about a DEST that was new."""
    repaired: list[str] = field(default_factory=list[str])
    """Files at DEST that were damaged and are sent again."""
    rewinding: list[NotExchanged] = field(default_factory=list[NotExchanged])
    """Sessions with received lines that let `/rewind` change files outside of the project."""
    set_aside: list[str] = field(default_factory=list[str])
    """Documents of other machines that are kept next to ours."""
    removed: list[str] = field(default_factory=list[str])
    """Sessions removed because another machine deleted them."""
    deleted: list[str] = field(default_factory=list[str])
    """Sessions marked as deleted, because they were removed here."""
    returned: list[str] = field(default_factory=list[str])
    """Sessions removed here that came back."""
    skipped: list[NotExchanged] = field(default_factory=list[NotExchanged])
    """Sessions that are open here: they are exchanged later."""
    problems: list[NotExchanged] = field(default_factory=list[NotExchanged])
    changes: list[str] = field(default_factory=list[str])
    """Ids of the changes in the journal."""
