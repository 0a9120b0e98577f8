"""DEST as a directory: local, mounted, or synced by another program."""

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from turnlog.errors import Damaged, Unavailable
from turnlog.exchange.transports import FOLDERS, is_valid
from turnlog.format.atomic import write_atomic
from turnlog.format.portable import sync_folder
from turnlog.store.descriptors import read_below


class DirectoryTransport:
    """Files in a directory, written atomically."""

    def __init__(self, root: Path) -> None:
        self.root = root
        if root.exists() and not root.is_dir():
            raise Unavailable(f"{root} is not a directory", f"ls -l {root.parent}")

    def list(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for folder in FOLDERS:
            with suppress(FileNotFoundError, NotADirectoryError):
                # No links, as in `write`: whoever can write to DEST must not choose what we read.
                if not (self.root / folder).is_symlink():
                    self._list(folder, found)
        return found

    def read(self, name: str, limit: int) -> bytes:
        folder, _, base = name.partition("/")
        try:
            return read_below(self.root, [folder], base, limit)
        except FileNotFoundError as error:
            raise Damaged(f"{self.root / name} is missing") from error

    def write(self, name: str, content: bytes) -> None:
        path = self.root / name
        # A link at DEST would let its author choose where this machine writes.
        if path.parent.is_symlink():
            raise Damaged(f"{path.parent} is a symbolic link")
        write_atomic(path, content)

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            if not (self.root / name).parent.is_symlink():
                (self.root / name).unlink(missing_ok=True)

    def finish(self) -> None:
        for folder in FOLDERS:
            with suppress(FileNotFoundError, NotADirectoryError):
                sync_folder(self.root / folder)

    def _list(self, folder: str, found: dict[str, int]) -> None:
        with os.scandir(self.root / folder) as entries:
            for entry in entries:
                name = f"{folder}/{entry.name}"
                if is_valid(name):
                    with suppress(FileNotFoundError):
                        status = entry.stat(follow_symlinks=False)
                        # A FIFO or a device would block the reader, or never end.
                        if stat.S_ISREG(status.st_mode):
                            found[name] = status.st_size
