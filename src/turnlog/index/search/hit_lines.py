"""Read the lines of hits from session files, or from the archive if a file is gone."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from turnlog.errors import Damaged
from turnlog.format.portable import read_at
from turnlog.format.regular_files import open_descriptor
from turnlog.index.known_files import File

if TYPE_CHECKING:
    from turnlog.store.archive.archive import ArchivedFile

OPEN = 32
"""Maximum number of open files."""


class Reader:
    """Reads lines by file and offset, keeping files open."""

    def __init__(self, archive: Path | None = None) -> None:
        self.archive = archive
        """The archive's folder, for files that are gone."""
        self.opened: dict[str, int] = {}
        self.archived: dict[int, ArchivedFile | None] = {}

    def line(self, file: File, offset: int, size: int) -> bytes:
        """Return a line, from the archive if the file is gone; empty if neither has it."""
        try:
            return read_at(self._descriptor(file.path), size, offset)
        except OSError:
            return self._archived(file, offset, size)

    def close(self) -> None:
        """Close all files."""
        for descriptor in self.opened.values():
            os.close(descriptor)
        self.opened.clear()

    def _archived(self, file: File, offset: int, size: int) -> bytes:
        if self.archive is None:
            return b""
        from turnlog.store.archive.archive import Archive

        archive = Archive(self.archive)
        if file.id not in self.archived:
            self.archived[file.id] = archive.find(file.path)
        copy = self.archived[file.id]
        try:
            return archive.read_at(copy, offset, size) if copy else b""
        except Damaged:
            return b""

    def _descriptor(self, path: str) -> int:
        if path not in self.opened:
            if len(self.opened) >= OPEN:
                self.close()
            self.opened[path] = open_descriptor(path)
        return self.opened[path]
