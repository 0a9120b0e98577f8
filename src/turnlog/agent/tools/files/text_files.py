"""Read and replace text files, preserving encoding, byte order mark and line endings."""

import codecs
import errno
import os
import stat
from pathlib import Path

from msgspec import Struct

from turnlog.format.atomic import written_beside

SAMPLE = 1 << 16
MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


class Coding(Struct, frozen=True):
    """The encoding of a file."""

    name: str = "utf-8"
    mark: bytes = b""
    """Its byte order mark; empty if it has none."""


class TextFile(Struct, frozen=True):
    """The text of a file, with the encoding and line endings needed to write it back."""

    text: str
    """Lines end with `\\n` if all lines of the file have the same line ending."""
    coding: Coding = Coding()
    newline: str = "\n"

    def encode(self, text: str) -> bytes:
        """Encode a new text for this file; raise if its encoding cannot represent it."""
        if self.newline != "\n":
            text = text.replace("\r\n", "\n").replace("\n", self.newline)
        return self.coding.mark + text.encode(self.coding.name)


def is_binary(head: bytes) -> bool:
    """Return whether a file is binary, judging by its first bytes."""
    return b"\0" in head and not any(head.startswith(mark) for mark in MARKS)


def coding_of(raw: bytes, is_whole: bool = True) -> Coding:
    """Detect the encoding of a file or its start: byte order mark, UTF-8, else Latin-1.

    >>> coding_of(b"caf\\xe9").name
    'latin-1'
    """
    mark = next((mark for mark in MARKS if raw.startswith(mark)), b"")
    name = MARKS.get(mark, "utf-8")
    try:
        codecs.getincrementaldecoder(name)().decode(raw[len(mark) :], is_whole)
    except UnicodeDecodeError:
        # Latin-1 decodes any bytes and encodes them back unchanged.
        return Coding("latin-1")
    return Coding(name, mark)


def decode(raw: bytes) -> TextFile:
    """Decode the bytes of a file."""
    coding = coding_of(raw)
    text = raw[len(coding.mark) :].decode(coding.name)
    ends = text.count("\n")
    if ends and text.count("\r\n") == ends:
        return TextFile(text.replace("\r\n", "\n"), coding, "\r\n")
    return TextFile(text, coding)


def replace_content(folder: int, name: str, payload: bytes) -> None:
    """Replace a file of an open folder atomically; keep its mode and follow no symlink.

    If the folder or the mount does not allow this, the file is written in place.
    """
    mode = _mode_of(folder, name)
    try:
        _replace(folder, name, payload, mode)
    except OSError as error:
        # EBUSY: the file itself is a mount point, as container engines do with single files.
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EBUSY) or mode is None:
            raise
        flags = os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
        with os.fdopen(os.open(name, flags, dir_fd=folder), "wb") as file:
            file.write(payload)


def _mode_of(folder: int, name: str) -> int | None:
    try:
        return stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return None


def _replace(folder: int, name: str, payload: bytes, mode: int | None) -> None:
    # Until the mode of the old file is set, nobody else may read the new one: it may hold secrets.
    first = 0o666 if mode is None else 0o600
    with written_beside(Path(name), first, folder) as (descriptor, beside):
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(payload)
        if mode is not None:
            os.fchmod(descriptor, mode)
        os.fsync(descriptor)
        os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
