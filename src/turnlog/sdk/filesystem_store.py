"""A session store for the Agent SDK on any fsspec URL: `s3://…`, `gs://…`, `file://…`, `memory://`.

Object storage can neither append nor lock, so each batch is a separate, immutable object:
`<root>/<project>/<session>/main/<time>-<random>.jsonl`, and `…/sub/<subpath>/…` for sub-agents.
Concurrent writers cannot overwrite each other, and readers drop duplicates.
"""

import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from turnlog.errors import Unavailable, UsageError
from turnlog.sdk.entry_lines import Entry, decode, encode, summarize
from turnlog.sdk.local_parts import names_below, remove_below, write_below
from turnlog.sdk.session_keys import TranscriptKey, find_key
from turnlog.sdk.threaded_store import ThreadedSessionStore
from turnlog.store.archive.allowed_paths import name_problem
from turnlog.store.archive.mirror import LARGEST
from turnlog.store.descriptors import read_below

if TYPE_CHECKING:
    from claude_agent_sdk.types import SessionStoreListEntry, SessionSummaryEntry

MAIN, SUB = "main", "sub"
PATTERN = frozenset("*?[")


class FilesystemSessionStore(ThreadedSessionStore):
    """Mirror sessions of the Agent SDK to a URL, and resume them from there.

    `options` are those of the file system, such as `key`, `secret` and `endpoint_url` of S3.
    """

    def __init__(self, url: str, **options: Any) -> None:
        self._fs, self._root = _open(url, options)
        # Access local directories without fsspec, which follows links there.
        self._local = Path(self._root or "/") if "file" in _protocols(self._fs) else None
        self._last = 0
        self._lock = Lock()

    def transcripts(self) -> Iterator[TranscriptKey]:
        """Yield the keys of all transcripts, skipping names that no session can have."""
        for project in self._names(self._root):
            for session in self._names(f"{self._root}/{project}"):
                main = TranscriptKey(unquote(project), unquote(session))
                yield from filter(_is_valid, (main, *self._subkeys(main)))

    def raw_lines(self, key: TranscriptKey) -> list[bytes] | None:
        """Return the lines of a transcript without duplicates; None if there are none."""
        parts = self._parts(key)
        if not parts:
            return None
        texts = self._contents(key, parts)
        # A part that ends in the middle of a line was being written when its process was killed.
        raws = [raw for text in texts for raw in text.split(b"\n")[:-1] if raw]
        seen: set[str] = set()
        return [raw for raw in raws if _is_first(raw, seen)]

    def _append(self, key: TranscriptKey, entries: list[Entry]) -> None:
        """Write a batch of entries as a separate object; readers drop duplicates."""
        if not entries:
            return
        raw = b"".join(encode(entry) + b"\n" for entry in entries)
        folder = self._folder(key)
        name = f"{self._moment():020d}-{token_hex(6)}.jsonl"
        if self._local:
            write_below(self._local, self._below(folder), name, raw)
            return
        self._fs.makedirs(folder, exist_ok=True)
        self._fs.pipe_file(f"{folder}/{name}", raw)

    def _contents(self, key: TranscriptKey, parts: list[str]) -> list[bytes]:
        """Return the contents of parts; raise if they are too large together."""
        left, found = LARGEST, list[bytes]()
        if self._local:
            for part in parts:
                *folders, name = self._below(part)
                found.append(read_below(self._local, folders, name, left))
                left -= len(found[-1])
            return found
        # Check the sizes before reading: a transcript is held in memory as a whole.
        sizes: list[int | None] = self._fs.sizes(parts)
        if sum(size or 0 for size in sizes) > LARGEST:
            raise UsageError(f"{key.path} has more than {LARGEST:,} bytes")
        content: dict[str, bytes] = self._fs.cat(parts) if len(parts) > 1 else {}
        return [content[part] if content else self._fs.cat_file(part) for part in parts]

    def _moment(self) -> int:
        """Return the current time, but later than that of all previous batches."""
        # Parts are sorted by this number. The clock may be set back, and is too coarse on some
        # systems to tell two batches of this process apart.
        with self._lock:
            self._last = max(time.time_ns(), self._last + 1)
            return self._last

    def _load(self, key: TranscriptKey) -> list[Entry] | None:
        raws = self.raw_lines(key)
        if raws is None:
            return None
        return [entry for raw in raws if (entry := decode(raw)) is not None]

    def _list_sessions(self, project: str) -> "list[SessionStoreListEntry]":
        found: list[SessionStoreListEntry] = []
        if name_problem(project):  # such as "..", which would list the parent folder
            return found
        for name in self._names(f"{self._root}/{quote(project, safe='')}"):
            key = TranscriptKey(project, unquote(name))
            if _is_valid(key) and (parts := self._parts(key)):
                moment = int(parts[-1].rsplit("/", 1)[1].partition("-")[0])
                found.append({"session_id": key.session, "mtime": moment // 1_000_000})
        return found

    def _list_summaries(self, project: str) -> "list[SessionSummaryEntry]":
        # Writers cannot share a summary without losing updates, so none is stored.
        found: list[SessionSummaryEntry] = []
        for listed in self._list_sessions(project):
            key = TranscriptKey(project, listed["session_id"])
            data = summarize(key, None, self.raw_lines(key) or [])
            found.append({**listed, "data": data})
        return found

    def _list_subkeys(self, key: TranscriptKey) -> list[str]:
        return [sub.subpath for sub in self._subkeys(key)]

    def _subkeys(self, key: TranscriptKey) -> Iterator[TranscriptKey]:
        for name in self._names(f"{self._session_folder(key)}/{SUB}"):
            sub = key._replace(subpath=unquote(name))
            if _is_valid(sub) and self._parts(sub):
                yield sub

    def _delete(self, key: TranscriptKey) -> None:
        folder = self._folder(key) if key.subpath else self._session_folder(key)
        if self._local:
            remove_below(self._local, self._below(folder))
            return
        self._fs.invalidate_cache()
        if self._fs.exists(folder):
            self._fs.rm(folder, recursive=True)

    def _parts(self, key: TranscriptKey) -> list[str]:
        folder = self._folder(key)
        names = sorted(name for name in self._names(folder) if _is_part(name))
        return [f"{folder}/{name}" for name in names]

    def _names(self, folder: str) -> list[str]:
        """Return the names in a folder; none if it does not exist."""
        if self._local:
            return names_below(self._local, self._below(folder))
        # fsspec caches listings, and would not see files that another process has written since.
        self._fs.invalidate_cache()
        try:
            found: list[str] = self._fs.ls(folder, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(path.rstrip("/").rsplit("/", 1)[-1] for path in found)

    def _below(self, path: str) -> list[str]:
        """Return the components of a path below the root."""
        return path.removeprefix(self._root).strip("/").split("/") if path != self._root else []

    def _folder(self, key: TranscriptKey) -> str:
        below = f"{SUB}/{quote(key.subpath, safe='')}" if key.subpath else MAIN
        return f"{self._session_folder(key)}/{below}"

    def _session_folder(self, key: TranscriptKey) -> str:
        return f"{self._root}/{quote(key.project, safe='')}/{quote(key.session, safe='')}"


def _open(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    try:
        core: Any = import_module("fsspec.core")
        fs, root = core.url_to_fs(url, **options)
    except ImportError as error:  # of fsspec, or of the package for this kind of URL
        hint = "pip install 'turnlog[fsspec]' s3fs"
        raise Unavailable(f"{url} cannot be opened: {error}", hint) from error
    except ValueError as error:
        raise UsageError(f"{url} cannot be opened: {error}") from error
    # Many file systems treat such a path as a glob pattern: deleting a session would delete others.
    if PATTERN.intersection(root):
        raise UsageError(f"{url} cannot be opened: it contains one of {' '.join(sorted(PATTERN))}")
    return fs, root.rstrip("/")


def _protocols(fs: Any) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)


def _is_valid(key: TranscriptKey) -> bool:
    names = {"project_key": key.project, "session_id": key.session, "subpath": key.subpath}
    return find_key(names) is not None


def _is_part(name: str) -> bool:
    return name.endswith(".jsonl") and name[:20].isdecimal() and name[20:21] == "-"


def _is_first(raw: bytes, seen: set[str]) -> bool:
    """Return whether a line is an entry without a UUID, or the first with its UUID."""
    entry = decode(raw)
    uuid = entry.get("uuid") if entry else None
    if not isinstance(uuid, str):
        return entry is not None
    is_new = uuid not in seen
    seen.add(uuid)
    return is_new
