"""Read and write the files of a lake in a directory without following symbolic links.

Several people may write to the directory. With a link, one of them could choose which of another's
files are read, or deleted by `compact`: the parts of a private lake, for example.
"""

import os
import stat
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from turnlog.errors import Damaged
from turnlog.store.descriptors import LINKED, NEW, Folder, open_below

FILE_MODE, FOLDER_MODE = 0o666, 0o777
"""Not private: everyone in the group of a shared directory may use a lake there."""


def walk_files(base: str, folder: str) -> Iterator[tuple[str, int, float]]:
    """Yield path, size and time of all regular files below a folder; none if it is missing."""
    with suppress(FileNotFoundError), _folder_of(base, f"{folder}/."):
        waiting = [folder]
        while waiting:
            name = waiting.pop()
            with os.scandir(f"{base}/{name}") as entries:
                for entry in entries:
                    path = f"{name}/{entry.name}"
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(path)
                    elif entry.is_file(follow_symlinks=False):
                        # A compaction may delete it at this moment.
                        with suppress(FileNotFoundError):
                            found = entry.stat(follow_symlinks=False)
                            yield path, found.st_size, found.st_mtime


def require_regular(base: str, paths: Iterable[str]) -> None:
    """Raise `Damaged` if a path leads through a link or does not name a regular file."""
    for path in paths:
        with _folder_of(base, path) as folder:
            found = folder.stat(os.path.basename(path))  # noqa: PTH119
        if not stat.S_ISREG(found.st_mode):
            raise Damaged(f"{base}/{path} is not a regular file", f"ls -l {base}/{path}")


def write_file(base: str, path: str, content: bytes) -> None:
    """Create a file atomically, and its parent folders."""
    *folders, name = path.split("/")
    Path(base).mkdir(parents=True, exist_ok=True)
    for rank, each in enumerate(folders):
        with _folder_of(base, "/".join(folders[: rank + 1])) as folder, suppress(FileExistsError):
            folder.make_folder(each, FOLDER_MODE)
    temporary = f".{name[:80]}.{os.urandom(4).hex()}.tmp"
    with _folder_of(base, path) as folder:
        try:
            descriptor = folder.open_file(temporary, NEW, FILE_MODE)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            folder.rename(temporary, name)
        except BaseException:
            with suppress(OSError):
                folder.remove_file(temporary)
            raise


def delete_file(base: str, path: str) -> None:
    """Delete a file."""
    with _folder_of(base, path) as folder:
        folder.remove_file(os.path.basename(path))  # noqa: PTH119


@contextmanager
def _folder_of(base: str, path: str) -> Generator[Folder]:
    """Open the folder of a file; raise `Damaged` if a link leads to it."""
    try:
        with open_below(Path(base), path.split("/")[:-1]) as folder:
            yield folder
    except OSError as error:
        if error.errno not in LINKED:
            raise
        message = f"{base}/{path} is below a symbolic link, or below a file"
        raise Damaged(message, f"ls -l {base}") from error
