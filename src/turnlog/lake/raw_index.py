"""Read raw session files into a temporary index, which yields their rows for a lake.

The index's own reader parses the files, so the rows are the same as those of a push.
"""

import shutil
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from turnlog.errors import Damaged, Unavailable
from turnlog.format.atomic import NO_SPACE
from turnlog.format.jsonl import FileState
from turnlog.format.regular_files import is_readable
from turnlog.index.database import Index, open_index, writing
from turnlog.index.ingest.facts import Carry
from turnlog.index.ingest.figure_writer import SourceFile
from turnlog.index.ingest.phases import FIGURES, FigureJob, read_figures
from turnlog.index.ingest.workers import USUAL
from turnlog.lake.lake_storage import LakeStorage
from turnlog.lake.lake_texts import TextSource
from turnlog.lake.raw_files import RawFile, RawFolder, RawOrigin, origin_of

CHUNK = 1 << 20
FAST = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
"""The index is deleted in any case, so there is nothing to protect from a crash."""


class RawRead(NamedTuple):
    """A raw file that was read, or why it could not be."""

    file: RawFile
    origin: RawOrigin
    number: int | None = None
    """Its id in the temporary index."""
    malformed: int = 0
    """Lines that are not a single JSON object."""
    reason: str | None = None
    """Why it could not be read."""
    text: TextSource | None = None
    """The file with its texts, which exists as long as the temporary index."""


@contextmanager
def temporary_index() -> Generator[tuple[Index, Path]]:
    """Open an empty index in a private folder; yield it with a folder for copies of files."""
    with TemporaryDirectory(prefix="turnlog-raw-") as name:
        folder = Path(name)
        with open_index(folder / "index.db") as index:
            index.db.executescript(FAST)
            yield index, folder


def read_raw(
    index: Index,
    scratch: Path,
    folder: RawFolder,
    files: Iterable[RawFile],
    *,
    keep_copies: bool = False,
) -> Iterator[RawRead]:
    """Read files into an index, one at a time; an unreadable file does not end the job.

    Copies of remote or compressed files are deleted at once, or with `keep_copies` kept in
    `scratch`.
    """
    storage = folder.open()
    for number, each in enumerate(files):
        origin = origin_of(each.session_name)
        if origin is None:
            continue
        try:
            with _local_copy(storage, each, scratch / f"{number}", keep=keep_copies) as path:
                yield _read_file(index, each, origin, path)
        # pyarrow raises OSError both for server errors and for data that cannot be decompressed.
        except (OSError, Damaged, EOFError) as error:
            if isinstance(error, OSError):
                _require_blame(storage, each, scratch, error)
            yield RawRead(each, origin, reason=_first_line(error))


def _read_file(index: Index, file: RawFile, origin: RawOrigin, path: Path) -> RawRead:
    if not is_readable(path):
        return RawRead(file, origin, reason="cannot be opened")
    # Use the size of the uncompressed copy, and no inode: on shared storage, inodes mean nothing.
    state = FileState(0, path.stat().st_size, file.mtime_ns)
    source = SourceFile(str(path), origin.store, state, origin.owner, origin.is_subagent)
    malformed = 0
    with writing(index.db):
        for part in read_figures(FigureJob(source, Carry(), is_new=True, known=None), USUAL.part):
            malformed += part.facts.malformed
            FIGURES.write(index.db, [part])
        # The lake knows a file by its place in the folder: another worker may have mounted the
        # folder elsewhere, and a copy of an object is in a scratch folder.
        index.db.execute(
            "UPDATE files SET path = ? WHERE path = ?", (file.session_name, source.name)
        )
    query = "SELECT id, reached FROM files WHERE path = ?"
    found = index.db.execute(query, (file.session_name,)).fetchone()
    if found is None:
        return RawRead(file, origin, reason="it was deleted while it was read")
    return RawRead(file, origin, found[0], malformed, text=TextSource(path, found[1]))


@contextmanager
def _local_copy(
    storage: LakeStorage, file: RawFile, folder: Path, *, keep: bool
) -> Generator[Path]:
    """Yield a local, uncompressed file with the same name."""
    path = storage.full(file.name)
    if storage.is_local and file.compression is None:
        yield Path(path)
        return
    folder.mkdir()
    try:
        copy = folder / Path(file.session_name).name
        with (
            storage.files.open_input_stream(path, compression=file.compression) as source,
            copy.open("xb") as target,
        ):
            shutil.copyfileobj(source, target, CHUNK)
        yield copy
    finally:
        if not keep:
            with suppress(OSError):
                shutil.rmtree(folder)


def _require_blame(storage: LakeStorage, file: RawFile, scratch: Path, error: OSError) -> None:
    """Raise an error that is not the fault of a file: a full disk or an outage.

    The next attempt may succeed. If the file were counted as unreadable, it would be missing from
    the lake although the job succeeds.
    """
    if error.errno in NO_SPACE:
        folder = scratch.parent
        message = f"no space left in {folder} for a copy of {file.name}"
        raise Unavailable(message, f"df -h {folder}") from error
    if storage.is_outage(error):
        raise storage.failure("read", file.name, error) from error


def _first_line(error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return reason.splitlines()[0] if reason else type(error).__name__
