"""Path patterns of rules and settings, with the syntax of `.gitignore`, and the names of a file.

Denials are read widely, and ignore case and Unicode composition as some file systems do;
permissions are read narrowly. A file has several names: as written, and with links resolved.
"""

import os
import re
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING
from unicodedata import normalize

from msgspec import Struct

from turnlog.store.paths import real_path

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

SPECIAL = "*?[]!#\\"
EVERYTHING = ("", "/", "**", "/**", "*", "/*")
"""Patterns that match everything below the directory that they are relative to."""
BETWEEN_STARS = re.compile(
    r"\[\^/\]\*((?:\\.|\[(?:\\.|[^\]\\])+\]|[^\[\]()/*+?\\|^$])+?)(?=\[\^/\]\*)"
)
"""In a translated pattern: a star and the fixed text behind it, up to the next star."""
SET = re.compile(r"\\.|(?P<set>\[(?:\\.|[^\]\\])+\])")
MAX_DEPTHS = 4
"""Maximum number of `**` in a pattern; each is tried at every depth."""


class PathPattern(Struct, frozen=True):
    """A pattern relative to a directory."""

    base: Path
    pattern: str

    @property
    def start(self) -> Path:
        """The directory or file that its fixed part names; nothing outside of it can match.

        Only a pattern with a slash that is not its last character is tied to its base.
        """
        parts = self.pattern.removeprefix("./").strip("/").split("/")
        is_anywhere = len(parts) == 1 and not self.pattern.startswith("/")
        return self.base if is_anywhere else self.fixed

    @property
    def fixed(self) -> Path:
        """The path that it names before its first special character."""
        parts = self.pattern.removeprefix("./").strip("/").split("/")
        return self.base.joinpath(
            *takewhile(lambda part: part and not set(part) & set(SPECIAL), parts)
        )


def anchored(written: str, base: Path, root: Path) -> PathPattern:
    """Return a pattern of a rule: `//x` is absolute, `~/x` in the home, `/x` relative to `base`.

    Others are relative to `root`.
    """
    if written.startswith("//"):
        return PathPattern(Path("/"), written[1:])
    if written == "~" or written.startswith("~/"):
        return PathPattern(Path.home(), f"/{written[2:]}")
    return PathPattern(base if written.startswith("/") else root, written)


def names_of(path: Path) -> tuple[Path, ...]:
    """Return the names of a path: as written, and with links followed by the kernel."""
    written = Path(os.path.normpath(path))
    # `link/..` is the parent of the link's target to the kernel, and that of the link to a reader.
    real = (real_path(each) for each in (path, written))
    return tuple(dict.fromkeys((written, *real)))


def restricts(patterns: Iterable[PathPattern], names: Collection[Path]) -> bool:
    """Return whether a denying pattern matches a file under any of its names."""
    matches = matcher(tuple(patterns))
    return any(matches(str(name)) for name in names)


def matcher(patterns: tuple[PathPattern, ...]) -> Callable[[str], bool]:
    """Return a check of normalized absolute paths against denying patterns."""
    by_root: dict[str, list[str]] = {}
    for each in patterns:
        for root, wanted in _roots(each):
            by_root.setdefault(root, []).append(wanted)
    compiled = [(root, _denying(tuple(wanted))) for root, wanted in by_root.items()]

    def matches(path: str) -> bool:
        name = path if path.isascii() else normalize("NFC", path)
        return any(
            (inner := _below(name, root)) is not None and denies.match(inner) is not None
            for root, denies in compiled
        )

    return matches


@lru_cache(maxsize=64)
def _denying(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Return a regex for paths below the root of some patterns; case is ignored."""
    if any(each in EVERYTHING for each in patterns):
        return re.compile("")
    regexes = [
        regex.pattern
        for each in patterns
        for found in _spec(each).patterns
        if (regex := getattr(found, "regex", None)) is not None
    ]
    unnamed = (re.sub(r"\(\?P<\w+>", "(?:", each) for each in regexes)
    return re.compile("|".join(f"(?:{each})" for each in unnamed) or r"(?!)", re.I)


def permits(pattern: PathPattern, names: Collection[Path]) -> bool:
    """Return whether an allowing pattern matches a file under all of its names."""
    if pattern.pattern.count("**") > MAX_DEPTHS:
        return False
    roots = tuple(map(str, names_of(pattern.base)))
    return all(_is_listed(_narrow(pattern.pattern), roots, str(name)) for name in names)


def escaped(path: Path) -> str:
    """Return a pattern that matches only this path.

    >>> escaped(Path("/home/ada/[new]"))
    '/home/ada/\\\\[new\\\\]'
    """
    return "".join(f"\\{char}" if char in SPECIAL else char for char in str(path))


def is_match(pattern: str, name: str) -> bool:
    """Return whether a `.gitignore` pattern matches a relative path, without backtracking.

    Raises `ValueError` if the pattern is not valid.
    """
    wide = _wide(pattern)
    return wide in EVERYTHING or _spec(wide).match_file(name)


def _roots(pattern: PathPattern) -> tuple[tuple[str, str], ...]:
    """Return the directories that a pattern is relative to, each with the pattern there.

    If its fixed part leads through a link, the pattern also applies below the link's target: with
    `~/.ssh -> ~/dotfiles/ssh`, a rule about `~/.ssh` is about `~/dotfiles/ssh`.
    """
    wide = _wide(pattern.pattern)
    wide = normalize("NFC", wide)
    found = [(str(root), wide) for root in names_of(pattern.base)]
    start = pattern.fixed
    if start != pattern.base:
        rest = wide.strip("/").split("/")[len(start.relative_to(pattern.base).parts) :]
        real = os.path.realpath(start)
        found += [(real, f"/{'/'.join(rest)}")] if real != str(start) else []
    return tuple(found)


def _narrow(pattern: str) -> str:
    """Return the narrow reading of a pattern: `./x` and `x/**` match in one directory only."""
    pattern = pattern[1:] if pattern.startswith("./") else pattern
    if pattern.endswith("/**"):
        folder = pattern[:-3]
        return folder if folder.startswith(("/", "**/")) or not folder else f"/{folder}"
    return pattern


def _wide(pattern: str) -> str:
    """Return the widest reading of a pattern: `./x` and `x/**` match at any depth."""
    pattern = pattern.removeprefix("./").removesuffix("/**")
    if pattern.count("**") > MAX_DEPTHS:
        first, *_, last = pattern.split("**")
        return f"{first}**{last}"
    return pattern


def _is_listed(pattern: str, roots: tuple[str, ...], name: str) -> bool:
    """Return whether a pattern, relative to one of the roots, matches a name."""
    for root in roots:
        inner = _below(name, root)
        if inner is not None and (
            pattern in EVERYTHING or (bool(inner) and _spec(pattern).match_file(inner))
        ):
            return True
    return False


def _below(name: str, root: str) -> str | None:
    """Return a path relative to a root; None if it is not below. Both must be normalized.

    >>> _below("/a/b/c", "/a"), _below("/a", "/a"), _below("/ab", "/a"), _below("//a", "/")
    ('b/c', '', None, None)
    """
    if name == root:
        return ""
    start = root if root.endswith("/") else f"{root}/"
    # `//a` need not be `/a`.
    is_below = name.startswith(start) and name.startswith("//") == root.startswith("//")
    # The dot of a translated pattern matches no newline, so a name with one counts as spaces.
    return name[len(start) :].replace("\n", " ") if is_below else None


@lru_cache(maxsize=512)
def _spec(pattern: str) -> "GitIgnoreSpec":
    from pathspec import GitIgnoreSpec

    written = f"\\{pattern}" if pattern.startswith("#") else pattern
    try:
        found = GitIgnoreSpec.from_lines([written])
    except re.error as error:  # `[z-a]`
        raise ValueError(f"{pattern!r} is not a valid pattern: {error}") from error
    for each in found.patterns:
        regex: re.Pattern[str] | None = getattr(each, "regex", None)
        if regex:
            quick = re.compile(_without_backtracking(regex.pattern))
            each.regex = quick  # pyright: ignore[reportAttributeAccessIssue]
    return found


def _without_backtracking(regex: str) -> str:
    """Return a translated pattern that does not backtrack between two stars.

    Otherwise `*a*a*a*a*b` takes seconds for a file named with 200 letters `a`.

    >>> _without_backtracking("[^/]*a[^/]*b")
    '(?>[^/]*?a)[^/]*b'
    """
    return BETWEEN_STARS.sub(lambda found: f"(?>[^/]*?{SET.sub(_kept_in_name, found[1])})", regex)


def _kept_in_name(found: re.Match[str]) -> str:
    """Keep a set such as `[!x]` from matching a slash, as git does."""
    return f"(?!/){found[0]}" if found["set"] else found[0]
