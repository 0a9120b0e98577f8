"""Copy sessions that programs mirrored to a URL into an archive, for turnlog's own commands.

A second pull copies only new data. A transcript that is longer in the archive is not replaced.
"""

from dataclasses import dataclass, field

from turnlog.errors import TurnlogError, Unavailable, UsageError
from turnlog.sdk.entry_lines import decode, split_metadata
from turnlog.sdk.filesystem_store import FilesystemSessionStore
from turnlog.sdk.session_keys import TranscriptKey
from turnlog.store.archive.archive import LONGEST_LINE, Archive
from turnlog.store.archive.mirror import SessionMirror


@dataclass
class Pulled:
    """The ids of all sessions at a URL, and of those that have changed."""

    sessions: set[str] = field(default_factory=set[str])
    changed: set[str] = field(default_factory=set[str])


def pull_sessions(url: str, archive: Archive, **options: object) -> Pulled:
    """Copy all sessions of a URL into an archive; `options` are those of the file system."""
    try:
        return _pull(FilesystemSessionStore(url, **options), SessionMirror(archive))
    except TurnlogError:
        raise
    except Exception as error:  # each kind of file system raises errors of its own
        reason = " ".join(str(error).split()) or type(error).__name__
        raise Unavailable(f"{url} cannot be read: {reason}") from error


def _pull(source: FilesystemSessionStore, mirror: SessionMirror) -> Pulled:
    pulled = Pulled()
    for key in source.transcripts():
        raws = source.raw_lines(key) or []
        if any(len(raw) >= LONGEST_LINE for raw in raws):
            raise UsageError(f"{key.path}: a line has more than {LONGEST_LINE:,} bytes")
        pulled.sessions.add(key.session)
        if _copy(mirror, key, raws):
            pulled.changed.add(key.session)
    return pulled


def _copy(mirror: SessionMirror, key: TranscriptKey, raws: list[bytes]) -> bool:
    saved = b""
    if key.subpath:
        decoded = [(raw, decode(raw) or {}) for raw in raws]
        _, saved = split_metadata(entry for _, entry in decoded)
        raws = [raw for raw, entry in decoded if split_metadata([entry])[0]]
    content = b"".join(raw + b"\n" for raw in raws)
    is_new = bool(content) and mirror.replace(key.session, key.path, content, shorter=False)
    if saved and mirror.replace(key.session, key.metadata_path, saved):
        return True
    return is_new
