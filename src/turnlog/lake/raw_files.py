"""List raw session files on shared storage, and split them into tasks of about equal size.

The same rules apply as in a store: a folder with `projects` in it is the store of one machine, and
below `projects` only sessions and sub-agents count. Elsewhere every `.jsonl` file is a session,
such as those that CI agents leave behind.
"""

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from turnlog.errors import NotFound
from turnlog.format.regular_files import note_skipped, skipping
from turnlog.lake.lake_storage import LakeStorage, open_storage
from turnlog.store.batches import bounded
from turnlog.store.paths import SUBAGENTS, is_session_name, is_subagent_name

PROJECTS = "projects"
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
"""Suffixes of compressed files, and pyarrow's name of each codec."""
PER_FILE = 4 << 10
"""Overhead of reading a file, as a number of bytes to read."""


class RawFile(NamedTuple):
    """A session file below the folder that is ingested."""

    name: str
    """Its path below that folder, with slashes."""
    size: int
    mtime_ns: int

    @property
    def compression(self) -> str | None:
        return COMPRESSIONS.get(os.path.splitext(self.name)[1])  # noqa: PTH122

    @property
    def session_name(self) -> str:
        """The path without the suffix of a compressed file."""
        return self.name.removesuffix(".gz").removesuffix(".zst")


class RawOrigin(NamedTuple):
    """Store, session and role of a file, derived from its path."""

    store: str
    """The folder that has `projects`; "" for the folder that is ingested."""
    owner: str | None
    """The session; None for sub-agents whose path does not name it, only their lines."""
    is_subagent: bool


def origin_of(name: str) -> RawOrigin | None:
    """Derive the session of a file from its path; return None for other files.

    >>> origin_of("ada/projects/-shop/5e55.jsonl")
    RawOrigin(store='ada', owner='5e55', is_subagent=False)
    >>> origin_of("ci/run-7/5e55/subagents/agent-a1.jsonl").owner
    '5e55'
    >>> origin_of("ada/projects/-shop/5e55/tool-results/b1.jsonl") is None
    True
    """
    *folders, last = name.split("/")
    if PROJECTS in folders:
        # The first one: a project's directory may be called `projects`, too.
        place = folders.index(PROJECTS)
        return _below_project("/".join(folders[:place]), folders[place + 2 :], last)
    if SUBAGENTS in folders:
        place = max(1, folders.index(SUBAGENTS))
        return _below_project("", folders[place - 1 :], last)
    return _below_project("", [], last)


def _below_project(store: str, folders: list[str], last: str) -> RawOrigin | None:
    if not folders:
        stem = last.removesuffix(".jsonl")
        if is_session_name(last):
            return RawOrigin(store, stem, is_subagent=False)
        return RawOrigin(store, None, is_subagent=True) if is_subagent_name(last) else None
    if SUBAGENTS not in folders[:2] or not is_subagent_name(last):
        return None
    owner = None if folders[0] == SUBAGENTS else folders[0]
    return RawOrigin(store, owner, is_subagent=True)


class RawFolder(NamedTuple):
    """The folder that is ingested: a directory or an object store."""

    uri: str

    def open(self) -> LakeStorage:
        """Return the storage that has the folder."""
        return open_storage(self.uri)

    @property
    def place(self) -> str:
        """A path or URL of the folder that does not depend on the working directory."""
        return absolute_place(self.open())

    def list_files(self) -> list[RawFile]:
        """Return all session files below it, sorted by store and time.

        A task then has the files of few machines and days, and writes few parts.
        """
        storage = self.open()
        listed = _list_local(storage) if storage.is_local else _list_remote(storage)
        known = ((origin_of(each.session_name), each) for each in listed)
        placed = [(origin.store, each) for origin, each in known if origin]
        placed.sort(key=lambda pair: (pair[0], pair[1].mtime_ns, pair[1].name))
        # List everything first: `projects` may come after the files next to it.
        stores = {store for store, each in placed if _is_in_store(each)}
        found = (each for _, each in placed if _is_in_store(each) or not _is_beside(each, stores))
        return list(_without_twins(found))


def _without_twins(files: Iterable[RawFile]) -> Iterator[RawFile]:
    """Skip compressed files that duplicate another file: both are the same session."""
    known = list(files)
    plain = {each.name for each in known if each.compression is None}
    taken: set[str] = set()
    for each in known:
        name = each.session_name
        if each.compression is not None and (name in plain or name in taken):
            note_skipped(each.name, "another copy of it is read")
            continue
        taken.add(name)
        yield each


def _is_in_store(file: RawFile) -> bool:
    return PROJECTS in file.name.split("/")[:-1]


def _is_beside(file: RawFile, stores: set[str]) -> bool:
    """Return whether a file is in a store but outside `projects`, such as `history.jsonl`."""
    folders = file.name.split("/")[:-1]
    return any("/".join(folders[:length]) in stores for length in range(len(folders) + 1))


def absolute_place(storage: LakeStorage) -> str:
    """Return a path or URL of a storage that does not depend on the working directory."""
    return storage.base if storage.is_local else storage.dest


def _list_local(storage: LakeStorage) -> Iterator[RawFile]:
    if not os.path.isdir(storage.base):  # noqa: PTH112
        raise NotFound(f"{storage.dest} is not a directory", f"ls -ld {storage.dest}")
    return _walk(storage.base)


def _list_remote(storage: LakeStorage) -> Iterator[RawFile]:
    for found in storage.walk(""):
        if is_candidate(found.path.rpartition("/")[2]):
            yield RawFile(found.path, found.size, round(found.mtime * 1e9))


def is_candidate(name: str) -> bool:
    """Return whether a name may be that of a session file."""
    return name.endswith((".jsonl", ".jsonl.gz", ".jsonl.zst")) and not name.startswith(".")


def _walk(root: str) -> Iterator[RawFile]:
    # A list instead of recursion: a path of 4,096 bytes may have 2,000 folders, which would exceed
    # the recursion limit.
    waiting = [""]
    while waiting:
        below = waiting.pop()
        with skipping(f"{root}/{below}"), os.scandir(f"{root}/{below}") as entries:
            for entry in entries:
                # Links are not followed. Many people may write to shared storage, and the job reads
                # it with the rights of one: a link to `/home/boss/.claude/projects` would put the
                # boss's sessions under the name of whoever made it.
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{below}{entry.name}/")
                elif is_candidate(entry.name):
                    yield from _found(entry, f"{below}{entry.name}")


def _found(entry: "os.DirEntry[str]", name: str) -> Iterator[RawFile]:
    if not entry.is_file(follow_symlinks=False):
        note_skipped(entry.path, "not a regular file")
        return
    try:
        name.encode()
    except UnicodeEncodeError:
        note_skipped(entry.path, "its name is not UTF-8")
        return
    with skipping(entry.path):
        found = entry.stat(follow_symlinks=False)
        yield RawFile(name, found.st_size, found.st_mtime_ns)


def share_out(files: Iterable[RawFile], limit: int) -> list[list[RawFile]]:
    """Split files, in order, into tasks of about `limit` bytes; a larger file is its own task."""
    return list(bounded(files, lambda each: each.size + PER_FILE, limit))
