"""Detect removals of critical directories: a home, a working directory, or a parent of one."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path, PurePath

from turnlog.agent.permissions.bash import HOLE, UnknownValue, Word, is_there
from turnlog.agent.permissions.launchers import name_of
from turnlog.agent.permissions.path_access import critical_paths, is_critical
from turnlog.agent.permissions.programs import REMOVERS
from turnlog.agent.permissions.taken_sources import MOVERS, taken_words
from turnlog.agent.permissions.working_directories import arguments_in, path_in

Places = tuple[Path | None, ...]
"""Directories in which a command may run; None if unknown."""
RECURSIVE = re.compile(r"-[^-]*[rR].*|--r.*")
GLOB = re.compile(r"[*?\[]")
BEHIND = re.compile(rf".*{HOLE}((?:/[^/*?\[]+)+)", re.S)
"""A word that ends with a known path after an unknown start; the group is that path."""


def removed_by(name: str, words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the paths that a program removes; for `find -delete`, its starting points."""
    if name in REMOVERS:
        return tuple(word for word in words if not word.is_option)
    if name == "find" and any(word.text == "-delete" for word in words):
        ends = (n for n, word in enumerate(words) if word.text.startswith(("-", "!", "(")))
        return words[: next(ends)] or (Word("."),)
    # Moving a directory in use is judged elsewhere; another one can be moved back.
    return taken_words(name, words) if name not in MOVERS else ()


def name_pattern(words: tuple[Word, ...]) -> str:
    """Return a lowercase pattern that matches the names of all files that find may remove."""
    texts = [word.text for word in words]
    given = [value for test, value in pairwise(texts) if test in ("-name", "-iname")]
    # With `-o` or `!`, find may remove files that fail the test.
    is_plain = len(given) == 1 and not {"!", "-not", "-o", "-or", ","} & set(texts)
    is_known = is_plain and not re.search(rf"[\[\\{HOLE}]", given[0])
    return given[0].casefold() if is_known else "*"


def takes_much(call: tuple[Word, ...], places: Places, folders: tuple[Path, ...]) -> bool:
    """Return whether a call removes, or may remove, a critical directory."""
    name, words = name_of(call[0]), call[1:]
    # `$r -rf ~` may run any program, but this is how rm is called.
    if HOLE in name and any(RECURSIVE.fullmatch(word.text) for word in words):
        name = "rm"
    removed = removed_by(name, words)
    if name == "find" and name_pattern(words).strip("*?.") != "":
        return False
    roots = (*folders, *filter(None, places))
    if any(_is_critical(word, places, roots) for word in removed):
        return True
    return _is_recursive(name, words) and any(_may_be_critical(w, places, roots) for w in removed)


def _is_recursive(name: str, words: tuple[Word, ...]) -> bool:
    """Return whether directories are, or may be, removed recursively.

    An unquoted `$x` may contain the option; of two unknown arguments, one may be the option.
    """
    unknown = [word for word in words if HOLE in word.text]
    has_option = any(RECURSIVE.fullmatch(word.text) for word in words)
    is_doubtful = len(unknown) > 1 or any(word.may_split for word in unknown)
    if name not in ("rm", "rmdir"):
        return True
    return name == "rm" and (has_option or is_doubtful)


def _is_critical(word: Word, places: Places, roots: tuple[Path, ...]) -> bool:
    """Return whether a word names a critical directory, or everything in one."""
    if re.search(rf"{HOLE}/[*./]*$", word.text):
        return True
    return any(is_critical(path, roots) for path in _known_paths(_start(word), places))


def _start(word: Word) -> Word:
    """Replace a glob that matches everything in a directory with the directory itself."""
    parts = word.text.split("/")
    first = next((n for n, part in enumerate(parts) if GLOB.search(part)), len(parts))
    # `~/*/` and `~/*/*` destroy as much of the home as `~/*` does.
    is_everything = all(GLOB.search(part) or not part.strip(".") for part in parts[first:])
    if not word.has_glob or not is_everything or first == len(parts):
        return word
    start = "/".join(parts[:first]) or ("/" if word.text.startswith("/") else ".")
    return Word(start, has_tilde=word.has_tilde)


def _known_paths(word: Word, places: Places) -> Iterator[Path]:
    for place in places:
        try:
            yield from [path_in(text, place) for text in arguments_in((word,), place)]
        except UnknownValue:
            continue


def _may_be_critical(word: Word, places: Places, roots: tuple[Path, ...]) -> bool:
    """Return whether an unknown word may expand to a critical directory."""
    if HOLE not in word.text:
        try:
            for place in places:
                [path_in(text, place) for text in arguments_in((_start(word),), place)]
        except UnknownValue:
            return True
        return False
    behind = BEHIND.fullmatch(word.text)
    if word.may_split or not behind or ".." in behind[1].split("/"):
        return True
    # `"$x"/build` always ends in `build`, so it can only be a critical directory that does, too.
    # If `$x` is empty, it is `/build`.
    names = PurePath(behind[1]).parts[1:]
    is_top = len(names) == 1 and _may_be_there(Path(behind[1]))
    return is_top or any(path.parts[-len(names) :] == names for path in critical_paths(roots))


def _may_be_there(path: Path) -> bool:
    try:
        return is_there(path)
    except UnknownValue:
        return True
