"""Normalize the paths of files that a session names.

Two spellings of one path are one file: relative and absolute, with `.` and `..`, and on Windows in
any case and with either separator. Symlinks are not resolved: a session does not record them.
"""

import ntpath
import posixpath
import re
from collections.abc import Iterator
from typing import NamedTuple

WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\")
GIT_BASH = re.compile(r"/([A-Za-z])/")
"""`/c/x` is `C:\\x` in the shell that the client uses on Windows."""


class FileName(NamedTuple):
    """A file that a session names."""

    key: str
    """Equal for all spellings of the path."""
    path: str
    """The absolute path, as it is shown."""


def is_windows(path: str) -> bool:
    """Return whether a path is an absolute path on Windows."""
    return WINDOWS.match(path) is not None


def file_name(path: str, cwd: str | None) -> FileName:
    """Return the name of a file, given the working directory of the line that names it.

    >>> file_name("../b.py", "/home/me/src").path
    '/home/me/b.py'
    >>> file_name("C:/Work/A.py", None)
    FileName(key='c:\\\\work\\\\a.py', path='C:\\\\Work\\\\A.py')
    >>> file_name("/c/Work/A.py", "C:/").key == file_name(r"\\\\?\\C:\\Work\\A.py", None).key
    True
    """
    if path.startswith("~/"):
        # Clients expand the tilde, but do not record the home directory.
        full = "~" + posixpath.normpath("/" + path[2:].lstrip("/"))
        return FileName(full, full)
    if path.startswith("\\\\?\\") and is_windows(path[4:]):
        path = path[4:]
    if cwd and is_windows(cwd) and (drive := GIT_BASH.match(path)):
        path = f"{drive[1]}:/{path[drive.end() :]}"
    if is_windows(path) or (cwd and is_windows(cwd) and not path.startswith("/")):
        full = ntpath.normpath(ntpath.join(cwd or "", path))
        return FileName(full.lower(), full)
    full = posixpath.normpath(posixpath.join(cwd or "", path))
    # POSIX lets a path start with exactly two slashes; clients treat it as one.
    full = full[1:] if full.startswith("//") else full
    return FileName(full, full)


def keys_above(key: str) -> Iterator[str]:
    """Yield the keys that the directories above a file have as files.

    >>> list(keys_above("/home/me/a.py")), list(keys_above("c:\\\\work\\\\a.py"))
    (['/home/me', '/home'], ['c:\\\\work'])
    """
    separator = "\\" if is_windows(key) else "/"
    while separator in (key := key.rpartition(separator)[0]):
        yield key


def may_be_same(one: FileName, other: FileName) -> bool:
    """Return whether two names may mean the same file, because one of them starts with `~/`.

    >>> may_be_same(file_name("~/x/a.py", None), file_name("/home/me/x/a.py", None))
    True
    """
    pairs = ((one.key, other.key), (other.key, one.key))
    return any(key.startswith("~/") and full.endswith(key[1:]) for key, full in pairs)


def matches(name: FileName, asked: str, cwd: str | None) -> bool:
    """Return whether a path that a user typed names a file: in full, or by its last parts.

    >>> matches(file_name("/home/me/src/a.py", None), "src/a.py", "/elsewhere")
    True
    """
    wanted = file_name(asked, cwd)
    if wanted.key == name.key:
        return True
    parts = asked.replace("\\", "/").lower() if is_windows(name.path) else asked
    key = name.key.replace("\\", "/") if is_windows(name.path) else name.key
    return not parts.startswith(("/", "..")) and key.endswith("/" + parts.removeprefix("./"))


def relative_parts(path: str, root: str | None) -> tuple[bool, list[str]]:
    """Return whether a file is below a root, and its path components from there, or else all.

    >>> relative_parts("/home/me/src/a.py", "/home/me"), relative_parts("/etc/x", "/home/me")
    ((True, ['src', 'a.py']), (False, ['etc', 'x']))
    """
    if root is None or is_windows(root) != is_windows(path):
        return False, _parts(path)
    parts, above = _parts(path), _parts(root)
    same = [_folded(part, path) for part in parts[: len(above)]]
    is_below = len(parts) > len(above) and same == [_folded(part, path) for part in above]
    return is_below, parts[len(above) :] if is_below else parts


def _parts(path: str) -> list[str]:
    if not is_windows(path):
        return [part for part in path.split("/") if part]
    drive, rest = ntpath.splitdrive(path)
    parts = [*re.split(r"[\\/]+", drive.replace(":", "")), *re.split(r"[\\/]+", rest)]
    return [part for part in parts if part]


def _folded(part: str, path: str) -> str:
    return part.lower() if is_windows(path) else part
