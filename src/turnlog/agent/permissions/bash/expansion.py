"""The arguments that a word expands to in a given directory, under bash's own rules.

Only `*`, `?` and a leading `~/` are expanded. A `[` opens a set whose syntax differs between
shells and locales (`[^x]`, `[[:alpha:]]`, `['!'e]`), so a word that has one is unknown.
"""

import os
import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path

from msgspec import Struct

from turnlog.agent.permissions.bash.budget import NAMES, UnknownValue
from turnlog.agent.permissions.bash.lookup import ABSENT, is_folder, is_there
from turnlog.agent.permissions.bash.syntax import HOLE, Word

MOST_MATCHES = 1_000
"""Maximum number of files that a pattern may match."""
PATTERN_TOKEN = re.compile(r"\\(.)|([*?\[])|(.)", re.S)


class Expansion(Struct, frozen=True):
    """The names that a pattern matches."""

    arguments: tuple[str, ...]
    """In the order in which the program receives them."""
    listed: tuple[Path, ...]
    """The directories whose entries were compared with the pattern."""


def expand(word: Word, place: Path) -> tuple[str, ...]:
    """Return the arguments that a word stands for; raise `UnknownValue` if they are not certain."""
    if HOLE in word.text:
        raise UnknownValue(word.source)
    if word.glob is not None:
        return expand_glob(word, place).arguments
    return (_in_home(word.text[1:]) if word.has_tilde else word.text,)


@cache
def expand_glob(word: Word, place: Path) -> Expansion:
    """Return the names that a pattern matches, or the pattern itself if none does, as in bash.

    `decide` clears the cache. Within a verdict the answer must not change: the names that are
    judged are the names that the program receives.
    """
    if HOLE in word.text or word.glob is None:
        raise UnknownValue(word.source)
    prefix, text, glob = "", word.text, word.glob
    if word.has_tilde:
        prefix, text, glob = _home(), text[1:], glob[1:]
    search = _Search(Path(prefix or "/") if word.has_tilde else place)
    found = search.matches(glob, prefix)
    # A program would take a file named `-R` for an option.
    if any(name.startswith("-") for name in found):
        raise UnknownValue(word.source)
    listed = tuple(dict.fromkeys(search.listed))
    return Expansion(tuple(sorted(found)) or (prefix + text,), listed)


def find_option(word: Word, place: Path | None) -> str | None:
    """Return the name of a file that a pattern matches and a program would take for an option.

    Raises `UnknownValue` if the directory is not known or cannot be listed.
    """
    first = (word.glob or "").partition("/")[0]
    if not first.startswith(("*", "?", "[", "-")):
        return None
    if place is None:
        raise UnknownValue(word.source)
    names = (name for name in _names(place) if name.startswith("-"))
    return next((name for name in names if _may_fit(name, first)), None)


def _may_fit(name: str, part: str) -> bool:
    try:
        return _fits(name, part)
    except UnknownValue:  # a set such as `[a-z]`
        return True


def _in_home(rest: str) -> str:
    """Return HOME followed by the rest of a word; `~` alone is `/` if HOME is `/`."""
    return _home() + rest or "/"


def _home() -> str:
    """Return HOME without a trailing slash; empty if it is `/`."""
    home = os.environ.get("HOME", "")
    if not home.startswith("/"):
        raise UnknownValue("~")
    return home.rstrip("/")


class _Search:
    """Matches a pattern one path component at a time, and notes the directories it lists."""

    def __init__(self, start: Path) -> None:
        self.start = start
        self.listed: list[Path] = []

    def matches(self, glob: str, prefix: str) -> list[str]:
        """Return the paths that match a pattern below the start."""
        parts = re.split(r"(/+)", glob)
        found = [prefix]
        for rank in range(0, len(parts), 2):
            part, slash = parts[rank], "".join(parts[rank + 1 : rank + 2])
            found = [
                f"{each}{slash}"
                for before in found
                for each in self._step(before, part)
                if not slash or not each or is_folder(self.start / each)
            ]
            if len(found) > MOST_MATCHES:
                raise UnknownValue(glob)
        return [each for each in found if is_there(self.start / each)]

    def _step(self, before: str, part: str) -> Iterable[str]:
        """Yield the paths that one component of a pattern matches below a path."""
        if not any(sign for _, sign, _ in PATTERN_TOKEN.findall(part)):
            return [before + re.sub(r"\\(.)", r"\1", part)]
        self.listed.append(self.start / before)
        # Older versions of bash match `.` and `..` with `.*`.
        dots = [".", ".."] if part.startswith(".") else []
        names = (*dots, *_names(self.start / before))
        return [before + name for name in names if _fits(name, part)]


def _names(folder: Path) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                NAMES.spend()
                yield entry.name
    except OSError as error:
        if error.errno not in ABSENT:
            raise UnknownValue(str(folder)) from error


@lru_cache(maxsize=64)
def _compiled(part: str) -> tuple[re.Pattern[str], re.Pattern[bytes]]:
    r"""Compile a glob to regular expressions for str and bytes that match without backtracking.

    Each text between two stars is matched at its first occurrence only. With plain `.*`,
    `*a*a*a*a*a*a*b` takes hours for a name of 200 letters.

    >>> bool(_compiled("*a*a*a*a*a*a*b")[0].fullmatch("a" * 200))
    False
    """
    pieces = [""]
    for escaped, sign, plain in PATTERN_TOKEN.findall(part):
        if sign == "[":
            raise UnknownValue("[")
        if sign == "*":
            pieces.append("")
        else:
            pieces[-1] += "." if sign else re.escape(escaped or plain)
    first, middle, last = pieces[0], pieces[1:-1], pieces[-1]
    stars = "".join(f"(?>.*?{piece})" for piece in middle if piece)
    whole = f"(?s:{first}{stars}.*{last})" if len(pieces) > 1 else f"(?s:{first})"
    return re.compile(whole), re.compile(os.fsencode(whole))


def _fits(name: str, part: str) -> bool:
    """Return whether a name matches as text or as bytes: in the C locale, `?` is one byte."""
    if name.startswith(".") and not part.startswith((".", "\\.")):
        return False
    by_text, by_byte = _compiled(part)
    return bool(by_text.fullmatch(name) or by_byte.fullmatch(os.fsencode(name)))
