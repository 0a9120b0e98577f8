"""Sessions that no hook announced: a client was killed, or continued under another id.

They are delivered along the route of the note that led to them, which sends only those of their
turns that belong to its project.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from turnlog.format.decode import read_entries
from turnlog.format.fields import given
from turnlog.store.catalog import live_sessions
from turnlog.store.paths import is_session_name
from turnlog.trace.delivery import Delivery, DeliveryJob


def find_missed(
    delivery: Delivery, job: DeliveryJob, path: Path | None, since: float
) -> Iterator[Path]:
    """Yield the files of other sessions that may have something to send.

    When a session starts, those in the same folder that have changed since the hooks were
    installed; when one is seen for the first time, the one that it continues.
    """
    if any(note.event == "SessionStart" for note in job.notes):
        for other in _beside(job, since):
            if _has_new(delivery, other):
                yield other
    if path and delivery.progress(path) is None:
        before = _previous(path)
        if before and _has_new(delivery, before):
            yield before


def _beside(job: DeliveryJob, since: float) -> Iterator[Path]:
    own = job.last.transcript
    found = own.parent.iterdir() if own.parent.is_dir() else ()
    files = [each for each in found if is_session_name(each.name) and each.name != own.name]
    live = live_sessions(job.store)
    for each in sorted(files):
        with suppress(OSError):  # gone since
            if each.stem not in live and each.stat().st_mtime >= since:
                yield each


def _has_new(delivery: Delivery, path: Path) -> bool:
    """Whether a session has changed since it was sent, or something of it is yet to be sent."""
    known = delivery.progress(path)
    return known is None or known.open > 0 or not known.is_same(path)


def _previous(path: Path) -> Path | None:
    """The session that the first line of a file names, where that is another one."""
    for _, entry in read_entries(path):
        named = given(entry.session_id) or path.stem
        other = path.parent / f"{named}.jsonl"
        is_beside = other.parent == path.parent and other != path
        return other if is_beside and other.is_file() else None
    return None
