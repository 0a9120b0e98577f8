"""A directory put in the place of another in the lines of a session.

Only where the client notes where it works and where the files lie that it keeps copies of: what
was said stays as it was, and so do all other bytes of a line.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from turnlog.store.paths import is_windows_path

TOKEN = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*+)(?:(")(\s*:)?)?|[{}\[\]]', re.DOTALL)
"""A string, which in a torn line may lack its end, or a bracket."""

Names = tuple[bytes, ...]
"""The names that lead to a string, its own included where it is a name."""
Rewriting = Callable[[bytes], bytes]


class Relocation(NamedTuple):
    """A directory that has become another one."""

    old: str
    new: str

    def of(self, directory: str) -> str | None:
        """Where a directory is now; None if it is neither the old one nor below it.

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


def relocating(relocation: Relocation) -> Rewriting:
    """A function that puts the new directory in the place of the old one in a session's line."""
    return _rewriting(relocation, is_place)


def relocating_history(relocation: Relocation) -> Rewriting:
    """The same for a line of the history of prompts."""
    return _rewriting(relocation, lambda names: names == (b"project",))


def is_place(names: Names) -> bool:
    """Whether the client keeps a directory there, or a file that it has a copy of.

    A file is restored only if the folder that it was in is still what was noted (2.1.325).
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


def _rewriting(relocation: Relocation, is_wanted: Callable[[Names], bool]) -> Rewriting:
    spellings = (_spelled(relocation.old), json.dumps(relocation.old)[1:-1].encode())

    def rewrite(raw: bytes) -> bytes:
        if not any(spelling in raw for spelling in spellings):
            return raw
        pieces: list[bytes] = []
        done = 0
        for names, (start, end) in _strings(raw, spellings):
            new = relocation.of(_value(raw[start:end])) if is_wanted(names) else None
            if new is not None:
                pieces += raw[done:start], _spelled(new)
                done = end
        return b"".join(pieces) + raw[done:]

    return rewrite


def _strings(raw: bytes, starts: tuple[bytes, ...]) -> Iterator[tuple[Names, tuple[int, int]]]:
    """The strings of a line that start so, with the names that lead to them."""
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
    except ValueError:  # no JSON: it is nobody's directory
        return ""


def _spelled(text: str) -> bytes:
    """A text as the client writes it, without its quotes."""
    try:
        return json.dumps(text, ensure_ascii=False)[1:-1].encode()
    except UnicodeEncodeError:  # a name that is not UTF-8
        return json.dumps(text)[1:-1].encode()
