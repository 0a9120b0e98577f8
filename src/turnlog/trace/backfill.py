"""Find sessions that no hook announced: the client was killed, or continued under another id.

They are delivered along the route of the note that led to them, which sends only turns of its own
project.
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
    """Yield the files of other sessions that may have unsent turns.

    When a session starts, these are the sessions in the same folder that changed since the hooks
    were installed; when a session is first seen, the session that it continues.
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
    files = [path for path in found if is_session_name(path.name) and path.name != own.name]
    # A client that is still running announces its session itself.
    live = live_sessions(job.store)
    for path in sorted(files):
        with suppress(OSError):  # deleted since it was listed
            if path.stem not in live and path.stat().st_mtime >= since:
                yield path


def _has_new(delivery: Delivery, path: Path) -> bool:
    """Return whether a session has grown since it was sent, or has spans that are not final."""
    known = delivery.progress(path)
    return known is None or known.open > 0 or not known.is_same(path)


def _previous(path: Path) -> Path | None:
    """Return the file of the session that a file continues, according to its first line."""
    for _, entry in read_entries(path):
        named = given(entry.session_id) or path.stem
        other = path.parent / f"{named}.jsonl"
        # The id comes from the file: `../../x` must not lead out of the project's folder.
        is_sibling = other.parent == path.parent and other != path
        return other if is_sibling and other.is_file() else None
    return None
