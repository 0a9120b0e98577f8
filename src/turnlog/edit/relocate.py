"""Replace a directory in the lines of a session.

Only the fields in which the client records its working directory and backed-up files change.
Messages and all other bytes of a line stay the same.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from turnlog.store.paths import is_windows_path

TOKEN = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*+)(?:(")(\s*:)?)?|[{}\[\]]', re.DOTALL)
"""A string, possibly unterminated in a torn line, or a bracket."""

Names = tuple[bytes, ...]
"""The keys that lead to a string."""
Rewriting = Callable[[bytes], bytes]


class Relocation(NamedTuple):
    """An old directory and its new path."""

    old: str
    new: str

    def of(self, directory: str) -> str | None:
        """Return the new path of a directory; None if it is neither the old one nor below it.

        >>> Relocation("/a", "/b").of("/a/x"), Relocation("/a", "/b").of("/ab")
        ('/b/x', None)
        """
        if not directory.startswith(self.old):
            return None
        rest = directory[len(self.old) :]
        if is_windows_path(self.old):
            rest = rest.replace("\\", "/")
        if rest and not rest.startswith("/"):
            return None
        if is_windows_path(self.new):
            return self.new.rstrip("/\\") + rest.replace("/", "\\")
        return self.new.rstrip("/") + rest or "/"


def line_relocator(relocation: Relocation) -> Rewriting:
    """Return a function that replaces the old directory in a session's line."""
    return _rewriting(relocation, is_place)


def history_relocator(relocation: Relocation) -> Rewriting:
    """Return a function that replaces the old directory in a line of the prompt history."""
    return _rewriting(relocation, lambda names: names == (b"project",))


def is_place(names: Names) -> bool:
    """Return whether a field holds the client's directory, or a file that it backed up.

    The client restores a file only if its folder still matches the recorded one (2.1.325).
    """
    match names:
        case (b"cwd" | b"relocatedCwd" | b"worktreePath" | b"trackingPath",):
            return True
        case (b"worktreeSession", _) | (b"backup", b"realParentDir"):
            return True
        case (b"snapshot", b"trackedFileBackups", _):
            return True
        case (b"snapshot", b"trackedFileBackups", _, b"realParentDir"):
            return True
        case _:
            return False


def _rewriting(relocation: Relocation, is_affected: Callable[[Names], bool]) -> Rewriting:
    spellings = (_spelled(relocation.old), json.dumps(relocation.old)[1:-1].encode())

    def rewrite(raw: bytes) -> bytes:
        # Most lines do not contain the directory at all, and need no scanning.
        if not any(spelling in raw for spelling in spellings):
            return raw
        pieces: list[bytes] = []
        done = 0
        for names, (start, end) in _strings(raw, spellings):
            new = relocation.of(_value(raw[start:end])) if is_affected(names) else None
            if new is not None:
                pieces += raw[done:start], _spelled(new)
                done = end
        return b"".join(pieces) + raw[done:]

    return rewrite


def _strings(raw: bytes, starts: tuple[bytes, ...]) -> Iterator[tuple[Names, tuple[int, int]]]:
    """Yield the keys and the offsets of the strings in a line that start with one of `starts`."""
    # A scanner instead of a JSON parser: it reports byte offsets, and works on torn lines too.
    above: list[bytes] = []
    name = b""
    for token in TOKEN.finditer(raw):
        mark = raw[token.start()]
        if mark in b"{[":
            above.append(name)
            name = b""
        elif mark in b"}]":
            name = above.pop() if above else b""
        else:
            if token[3]:
                name = token[1]
            if token[2] and raw.startswith(starts, token.start(1)):
                yield (*above[1:], name), token.span(1)


def _value(spelled: bytes) -> str:
    try:
        return json.loads(b'"%b"' % spelled)
    except ValueError:  # an invalid escape: not a directory
        return ""


def _spelled(text: str) -> bytes:
    """Encode a text like the client does, without quotes."""
    try:
        return json.dumps(text, ensure_ascii=False)[1:-1].encode()
    except UnicodeEncodeError:  # a name that is not UTF-8
        return json.dumps(text)[1:-1].encode()
