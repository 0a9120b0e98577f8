"""Read and write parts of transcripts in a local directory without following symbolic links.

A directory may be shared with others, who can put links into it. A link in place of a project or
session would let `append` write, `load` read and `delete` remove files elsewhere.
"""

import os
import shutil
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from turnlog.errors import Damaged
from turnlog.format.private_files import FOLDER, create_private_folder
from turnlog.format.regular_files import note_skipped
from turnlog.store.descriptors import LINKED, NEW, Folder, open_below


def names_below(root: Path, folders: Sequence[str]) -> list[str]:
    """Return the names of files and directories in a directory; none if it does not exist."""
    try:
        with open_below(root, folders) as folder:
            return sorted(name for name in folder.names() if _is_ordinary(folder, name))
    except FileNotFoundError:
        return []
    except OSError as error:
        if error.errno in LINKED:
            return []
        raise


def write_below(root: Path, folders: Sequence[str], name: str, content: bytes) -> None:
    """Write a new private file atomically, creating its directories."""
    create_private_folder(root)
    with _unlinked(root.joinpath(*folders)):
        for depth, each in enumerate(folders):
            with open_below(root, folders[:depth]) as parent, suppress(FileExistsError):
                parent.make_folder(each, FOLDER)
        with open_below(root, folders) as folder:
            _write(folder, name, content)


def remove_below(root: Path, folders: Sequence[str]) -> None:
    """Remove a directory with everything in it, if there is one."""
    *above, name = folders
    with _unlinked(root.joinpath(*folders)), suppress(FileNotFoundError):
        with open_below(root, folders):
            pass  # `rmtree` refuses a link with an error that has no code
        with open_below(root, above) as parent:
            path = name if parent.descriptor is not None else str(parent.path / name)
            shutil.rmtree(path, dir_fd=parent.descriptor)


def _write(folder: Folder, name: str, content: bytes) -> None:
    temporary = f".{name}.tmp"
    descriptor = folder.open_file(temporary, NEW)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        folder.rename(temporary, name)
    except BaseException:
        folder.remove_file(temporary)
        raise
    folder.sync()


def _is_ordinary(folder: Folder, name: str) -> bool:
    try:
        mode = folder.stat(name).st_mode
    except FileNotFoundError:  # removed since the directory was listed
        return False
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return True
    is_link = stat.S_ISLNK(mode)
    note_skipped(folder.path / name, "a symbolic link" if is_link else "not a regular file")
    return False


@contextmanager
def _unlinked(path: Path) -> Generator[None]:
    """Convert the OSError that a link causes to `Damaged`."""
    try:
        yield
    except OSError as error:
        if error.errno in LINKED:
            raise Damaged(f"{path} is a symbolic link or below one") from error
        raise
