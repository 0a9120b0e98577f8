"""The backups of files that a session's lines list, and whose content each backup has now.

After a rewind, a client continues numbering from that point: it overwrites the backups of the
abandoned branch, whose lines still list them. A backup has the content of only one of its uses.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from turnlog.conversation.node_log import NodeLog
from turnlog.conversation.nodes import Node
from turnlog.format.entries import Entry
from turnlog.format.fields import given
from turnlog.format.file_views import BackupRef, backups_in
from turnlog.format.fit import fit
from turnlog.format.state import FileHistoryDelta, FileHistorySnapshot
from turnlog.format.timestamps import seconds_of

KINDS = ("file-history-snapshot", "file-history-delta")

BackupUse = tuple[str, str]
"""A backup's name, and when it was made; a listing without a time is a use of its own."""


@dataclass(frozen=True, slots=True)
class BackupListing:
    """A line's reference to a file's backup."""

    path: str
    """The file, as the line has it."""
    ref: BackupRef
    message_id: str | None
    node: Node
    when: str | None
    is_before_change: bool
    """True for a backup before a change of the file, False for one at a prompt."""
    is_repeated: bool = False
    """True if it only repeats an earlier listing, which shows when the backup was made."""

    @property
    def copy(self) -> str | None:
        """The backup's file name; None if the file did not exist."""
        return given(self.ref.backup_file_name) or None

    @property
    def use(self) -> BackupUse:
        return self.copy or "", given(self.ref.backup_time) or f"entry {self.node.index}"


def listings_in(log: NodeLog, without: Iterable[int] = ()) -> list[BackupListing]:
    """Return the listings of backups in file order, except those in some nodes."""
    skipped = set(without)
    nodes = [node for node in log.nodes if node.kind in KINDS and node.index not in skipped]
    known: dict[str, BackupRef] = {}
    found: list[BackupListing] = []
    for node, entry in zip(nodes, log.entries(nodes), strict=True):
        for listing in _listings_of(node, entry, known):
            known[listing.path] = listing.ref
            found.append(listing)
    return found


def current_uses(listings: Iterable[BackupListing]) -> dict[str, BackupUse | None]:
    """Return the use whose content each backup has; None if the listings do not tell."""
    uses: dict[str, dict[BackupUse, None]] = {}
    for listing in listings:
        if listing.copy:
            uses.setdefault(listing.copy, {})[listing.use] = None
    return {copy: _latest(list(found)) for copy, found in uses.items()}


def outdated_backups(
    before: Iterable[BackupListing], after: Iterable[BackupListing]
) -> frozenset[str]:
    """Return the backups that would have the wrong content once only some listings are left.

    Without the line that overwrote a backup, the lines of another branch seem to own its content.
    """
    then = list(before)
    kept = {listing.use for listing in after}
    return frozenset(
        copy
        for copy, owner in current_uses(then).items()
        if owner not in kept and any(each.copy == copy and each.use not in kept for each in then)
    )


def _latest(uses: list[BackupUse]) -> BackupUse | None:
    """Return the use that was listed first last, if its time says the same.

    The client lists an old backup again as long as its file is unchanged, so only first listings
    count. They are out of order if two machines worked on the session, times if a clock was set.
    """
    *others, last = uses
    moments = [seconds_of(moment) for _, moment in uses]
    known = [moment for moment in moments if moment is not None]
    is_last = len(known) == len(uses) and all(moment < known[-1] for moment in known[:-1])
    return last if is_last or not others else None


def _listings_of(node: Node, entry: Entry, known: dict[str, BackupRef]) -> Iterator[BackupListing]:
    if isinstance(entry, FileHistorySnapshot):
        snapshot = given(entry.snapshot)
        is_update = bool(given(entry.is_snapshot_update))
        message = given(entry.message_id)
        for path, ref in backups_in(snapshot.tracked_file_backups if snapshot else None).items():
            # An update repeats all backups of its prompt; those known before show an earlier
            # moment, and the file may have changed since.
            is_repeated = is_update and known.get(path) == ref
            yield BackupListing(path, ref, message, node, entry.when, is_update, is_repeated)
    elif isinstance(entry, FileHistoryDelta) and (path := given(entry.tracking_path)):
        ref = fit(BackupRef, given(entry.backup) or {}, [])
        message = given(entry.message_id)
        yield BackupListing(path, ref, message, node, entry.when, is_before_change=True)
