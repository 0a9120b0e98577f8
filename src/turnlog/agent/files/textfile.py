"""Text files as they are kept: encoding, byte order mark and line ends stay as they were."""

import codecs
import errno
import os
import stat
from pathlib import Path

from msgspec import Struct

from turnlog.format.beside import written_beside

SAMPLE = 1 << 16
MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


class Coding(Struct, frozen=True):
    """How a file's text is encoded."""

    name: str = "utf-8"
    mark: bytes = b""
    """The byte order mark that it starts with."""


class TextFile(Struct, frozen=True):
    """The text of a file, with what it takes to write it again in the same way."""

    text: str
    """With `\\n` at the end of each line, where all lines of the file end in the same way."""
    coding: Coding = Coding()
    newline: str = "\n"

    def encode(self, text: str) -> bytes:
        """Another text as the bytes of this file; fails where its encoding has no room for it."""
        if self.newline != "\n":
            text = text.replace("\r\n", "\n").replace("\n", self.newline)
        return self.coding.mark + text.encode(self.coding.name)


def is_binary(head: bytes) -> bool:
    """Whether a file that starts so is no text."""
    return b"\0" in head and not any(head.startswith(mark) for mark in MARKS)


def coding_of(raw: bytes, is_whole: bool = True) -> Coding:
    """The encoding of a file, or of its start: by its mark, else UTF-8; Latin-1 where those fail.

    >>> coding_of(b"caf\\xe9").name
    'latin-1'
    """
    mark = next((mark for mark in MARKS if raw.startswith(mark)), b"")
    name = MARKS.get(mark, "utf-8")
    try:
        codecs.getincrementaldecoder(name)().decode(raw[len(mark) :], is_whole)
    except UnicodeDecodeError:
        return Coding("latin-1")
    return Coding(name, mark)


def decode(raw: bytes) -> TextFile:
    """The bytes of a file as text."""
    coding = coding_of(raw)
    text = raw[len(coding.mark) :].decode(coding.name)
    ends = text.count("\n")
    if ends and text.count("\r\n") == ends:
        return TextFile(text.replace("\r\n", "\n"), coding, "\r\n")
    return TextFile(text, coding)


def replace_content(path: Path, payload: bytes) -> None:
    """Put new content in a file's place at once, with the mode of the old one.

    Where the folder or the mount does not let a file be replaced, it is written in place.
    """
    target = path.resolve()
    try:
        _replace(target, payload)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EBUSY) or not target.exists():
            raise
        target.write_bytes(payload)


def _replace(target: Path, payload: bytes) -> None:
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    with written_beside(target, 0o666 if mode is None else 0o600) as (descriptor, beside):
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(payload)
        if mode is not None:
            os.fchmod(descriptor, mode)
        os.fsync(descriptor)
        beside.replace(target)
