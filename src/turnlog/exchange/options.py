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
    """Do not restore sessions and lines that were removed on this machine."""
    is_deleting: bool = False
    """Mark sessions that were removed here as deleted; remove those that other machines marked."""
    consent: Consent = require_yes
    mapped: Mapping[str, str] = field(default_factory=dict[str, str])
    """Shared names of project directories, by their paths on this machine."""
    password: str | None = None
    may_start: bool = False
    """Accept a DEST without turnlog's files (`--init`)."""
    is_verifying: bool = False
    """Read all packs at DEST and send damaged ones again."""
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
    """Number of sessions on this machine."""
    sent: int = 0
    """Number of sessions with pieces that were not at DEST before."""
    sent_bytes: int = 0
    written_bytes: int = 0
    """Bytes written to DEST, compressed."""
    created: list[str] = field(default_factory=list[str])
    """Sessions that this machine did not have."""
    extended: list[str] = field(default_factory=list[str])
    """Sessions that were fast-forwarded."""
    merged: list[str] = field(default_factory=list[str])
    """Sessions into which another machine's branch was merged."""
    forked: list[str] = field(default_factory=list[str])
    """Ids of new forks, which hold other editions of sessions."""
    files: int = 0
    """Number of other files that were created or changed."""
    lines: int = 0
    """Number of lines merged into logs that this machine had."""
    received_bytes: int = 0
    started: list[str] = field(default_factory=list[str])
    """Notes for the user about a new DEST."""
    repaired: list[str] = field(default_factory=list[str])
    """Files at DEST that were damaged and are sent again."""
    rewinding: list[NotExchanged] = field(default_factory=list[NotExchanged])
    """Sessions with received lines that let `/rewind` change files outside of the project."""
    set_aside: list[str] = field(default_factory=list[str])
    """Paths of other machines' versions of documents, which are kept next to ours."""
    removed: list[str] = field(default_factory=list[str])
    """Sessions removed because another machine deleted them."""
    deleted: list[str] = field(default_factory=list[str])
    """Sessions marked as deleted, because they were removed here."""
    returned: list[str] = field(default_factory=list[str])
    """Sessions that were removed here and that the sync restored."""
    skipped: list[NotExchanged] = field(default_factory=list[NotExchanged])
    """Sessions that are open or were just written to; a later sync merges them."""
    linked: list[NotExchanged] = field(default_factory=list[NotExchanged])
    """Sessions with a file behind a symlink, and that link; they are sent but not changed here."""
    problems: list[NotExchanged] = field(default_factory=list[NotExchanged])
    changes: list[str] = field(default_factory=list[str])
    """Ids of the changes in the journal."""
