"""Map the paths that a session names to paths that are safe to create.

A session may come from anyone. Nothing it names may leave the target directory, reach into a
repository's own `.git`, or make two files collide where names are compared without case.
"""

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping

from turnlog.worktree.file_names import FileName, keys_above, relative_parts

OUTSIDE = "_outside"
"""The folder for files that are not below the project."""
LONGEST = 200
"""Maximum bytes of a path component: file systems allow 255, and temporary names are longer."""
LONGEST_PATH = 3000
UNSAFE = re.compile(
    r'[\x00-\x1f\x7f\\:*?"<>|%\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ud800-\udfff]'
)
"""Characters that a system forbids, that reorder text, or that are invisible; and `%` itself."""
SPECIAL = re.compile(r"\.git|git~\d+")
"""Names that mean a repository's `.git` folder on some file system."""
SPECIAL_IN_GIT = re.compile(
    r"\.git(modules|attributes)?|git~\d+|git(mod|att)~\d+|gi[0-9a-f]{4}~\d+"
)
"""The same, and files that git interprets, with their short names on Windows."""
DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


def safe_paths(
    names: Iterable[FileName],
    root_of: Callable[[FileName], str | None],
    special: re.Pattern[str] = SPECIAL,
) -> dict[str, tuple[str, ...]]:
    """Return the parts of a safe relative path for each file, by key; no two collide.

    Only a file and another one below it, such as `x` and `x/y`, keep their names: they never exist
    at the same time. Files that are not below the directory of their project go to `_outside/`.
    Characters and names that are not safe are percent-encoded. `special` matches names that must
    not appear unencoded.
    """
    found: dict[str, tuple[str, ...]] = {}
    taken: dict[str, str] = {}
    """Keys of the files, by path."""
    folders: set[str] = set()
    for name in sorted(names, key=lambda each: each.key):
        is_below, parts = relative_parts(name.path, root_of(name))
        safe = tuple(_safe_part(part, special) for part in parts if part not in (".", ".."))
        path = safe if is_below and safe else (OUTSIDE, *(safe or ("%",)))
        if len("/".join(path).encode()) > LONGEST_PATH:
            path = (OUTSIDE, _digest(name.path))
        while (part := _colliding(path, taken, folders, name.key)) is not None:
            path = (*path[:part], _encoded_once_more(path[part]), *path[part + 1 :])
        taken[_folded(path)] = name.key
        folders.update(_folded(path[:end]) for end in range(1, len(path)))
        found[name.key] = path
    return found


def _colliding(
    path: tuple[str, ...], taken: Mapping[str, str], folders: set[str], key: str
) -> int | None:
    """Return the index of the path component that collides with another path; None if none does."""
    above = set(keys_above(key))
    for part in range(len(path) - 1):
        if taken.get(_folded(path[: part + 1]), key) not in above | {key}:
            return part
    folded = _folded(path)
    return len(path) - 1 if folded in taken or folded in folders else None


def _folded(path: tuple[str, ...]) -> str:
    return unicodedata.normalize("NFC", "/".join(path)).casefold()


def _safe_part(part: str, special: re.Pattern[str]) -> str:
    """Return a part of a path with everything unsafe percent-encoded.

    >>> _safe_part(".git", SPECIAL), _safe_part("a\\nb", SPECIAL), _safe_part("x.py", SPECIAL)
    ('%2Egit', 'a%0Ab', 'x.py')
    """
    # `.g\\u200cit` is `.git` on a Mac; so are `.GIT ` and `git~1` on Windows.
    plain = "".join(char for char in part if unicodedata.category(char) != "Cf")
    plain = unicodedata.normalize("NFKC", plain).casefold().rstrip(". ")
    is_special = special.fullmatch(plain.partition(":")[0]) is not None
    safe = UNSAFE.sub(_encode, part)
    if is_special or DEVICES.fullmatch(safe):
        safe = _encode_char(safe[0]) + safe[1:]
    if safe.endswith((".", " ")):
        safe = safe[:-1] + _encode_char(safe[-1])
    return safe if len(safe.encode()) <= LONGEST else _cut(safe, part)


def _encode(found: re.Match[str]) -> str:
    return _encode_char(found[0])


def _encode_char(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


def _encoded_once_more(part: str) -> str:
    """Return another spelling of a name that is taken: `a.txt`, `%61.txt`, `%2561.txt`."""
    other = _encode_char(part[0]) + part[1:]
    # Fifty names that differ only in case would otherwise exceed the limit of a file system.
    return other if len(other.encode()) <= LONGEST else _cut(other, other)


def _cut(text: str, whole: str) -> str:
    return text.encode()[: LONGEST - 20].decode("utf-8", "ignore") + "~" + _digest(whole)[:16]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
