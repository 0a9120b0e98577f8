"""A session store for the Agent SDK on top of turnlog's archive.

Sessions are stored unmasked, as in every archive: a session is resumed from these lines.
"""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from turnlog.errors import Damaged
from turnlog.sdk.entry_lines import (
    Entry,
    decode,
    metadata_entry,
    split_metadata,
    summarize,
    to_lines,
)
from turnlog.sdk.session_keys import TranscriptKey, subpath_of
from turnlog.sdk.threaded_store import ThreadedSessionStore
from turnlog.store.archive.archive import ArchivedFile, ArchiveManifest, open_archive
from turnlog.store.archive.mirror import SessionMirror

if TYPE_CHECKING:
    from claude_agent_sdk.types import SessionStoreListEntry, SessionSummaryEntry


class ArchiveSessionStore(ThreadedSessionStore):
    """Mirror sessions of the Agent SDK to an archive, and resume them from there.

    Without a directory, the archive is the one that `turnlog archive` uses.
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        folder = Path(directory).expanduser() if directory is not None else None
        self._mirror = SessionMirror(open_archive(folder))

    def _append(self, key: TranscriptKey, entries: list[Entry]) -> None:
        if not key.subpath:
            self._mirror.append(key.session, key.path, to_lines(entries), partial(summarize, key))
            return
        # On disk, the metadata of a sub-agent is a file next to its transcript. A restored session
        # should look as if the client had written it.
        transcript, saved = split_metadata(entries)
        if transcript:
            self._mirror.append(key.session, key.path, to_lines(transcript))
        if saved:
            self._mirror.replace(key.session, key.metadata_path, saved)

    def _load(self, key: TranscriptKey) -> list[Entry] | None:
        while True:
            files = self._mirror.files(key.session)
            try:
                return self._read(key, {file.path: file for file in files})
            except Damaged:
                # An append may have merged small objects since the manifest was read.
                if self._mirror.files(key.session) == files:
                    raise

    def _read(self, key: TranscriptKey, files: dict[str, ArchivedFile]) -> list[Entry] | None:
        transcript = files.get(key.path)
        saved = files.get(key.metadata_path) if key.subpath else None
        if transcript is None and saved is None:
            return None
        found = metadata_entry(self._mirror.content(saved)) if saved else []
        lines = self._mirror.lines(transcript) if transcript else ()
        decoded = (decode(line.raw) for line in lines)
        return found + [entry for entry in decoded if entry is not None]

    def _list_sessions(self, project: str) -> "list[SessionStoreListEntry]":
        return [
            {"session_id": manifest.session, "mtime": _milliseconds(file)}
            for manifest, file in self._transcripts(project)
        ]

    def _list_summaries(self, project: str) -> "list[SessionSummaryEntry]":
        return [
            {
                "session_id": manifest.session,
                "mtime": _milliseconds(file),
                "data": manifest.summaries[project],
            }
            for manifest, file in self._transcripts(project)
            if project in manifest.summaries
        ]

    def _transcripts(self, project: str) -> Iterator[tuple[ArchiveManifest, ArchivedFile]]:
        for manifest in self._mirror.archive.manifests():
            path = TranscriptKey(project, manifest.session).path
            for file in manifest.current:
                if file.path == path and manifest.problem(file) is None:
                    yield manifest, file

    def _list_subkeys(self, key: TranscriptKey) -> list[str]:
        subpaths = (subpath_of(key, file.path) for file in self._mirror.files(key.session))
        return list(dict.fromkeys(subpath for subpath in subpaths if subpath))

    def _delete(self, key: TranscriptKey) -> None:
        if key.subpath:
            paths = {key.path, key.metadata_path}
            self._mirror.remove(key.session, lambda file: file.path in paths)
        else:
            folder = f"{key.folder}/"
            self._mirror.remove(
                key.session,
                lambda file: file.path == key.path or file.path.startswith(folder),
            )


def _milliseconds(file: ArchivedFile) -> int:
    return file.mtime_ns // 1_000_000
