"""Where the words of a command lead: the files that it would touch, from wherever it may run."""

from collections.abc import Iterable
from glob import escape, iglob
from itertools import islice
from pathlib import Path

from turnlog.agent.permissions.shell import Part
from turnlog.agent.permissions.wildcards import HOLE
from turnlog.agent.permissions.words import Word

MOST_FOUND = 1_000
"""Files that a pattern may find."""
MOST_PLACES = 16
MOVES = frozenset("cd pushd popd chdir".split())


class Unknown(Exception):
    """A path that only the shell will know."""


def starting_places(parts: Iterable[Part], cwd: Path) -> tuple[Path, ...] | None:
    """The directories that parts of a command may run in; None if that cannot be told."""
    places = (cwd,)
    for part in parts:
        if part.words and part.words[0].text in MOVES:
            try:
                moved = [path for word in _targets(part) for path in paths_of(word, places)]
            except Unknown:
                return None
            places = tuple(dict.fromkeys((*places, *moved)))
            if len(places) > MOST_PLACES:
                return None
    return places


def _targets(part: Part) -> list[Word]:
    if part.words[0].text == "popd":
        raise Unknown("popd")
    operands = [word for word in part.words[1:] if not word.text.startswith(("-", "+"))]
    return operands or [Word(HOLE if len(part.words) > 1 else "~", has_tilde=True)]


def paths_of(word: Word, places: tuple[Path, ...] | None) -> list[Path]:
    """All files that a word may stand for; raises `Unknown` if that cannot be told."""
    if HOLE in word.text:
        raise Unknown(word.text)
    text = _without_tilde(word)
    if not Path(text).is_absolute() and places is None:
        raise Unknown(text)
    starts = places or (Path("/"),)
    if word.has_glob:
        return [found for start in starts for found in _found(start, text)]
    return [start / text for start in starts]


def _without_tilde(word: Word) -> str:
    if not word.has_tilde:
        return word.text
    if word.text == "~" or word.text.startswith("~/"):
        return str(Path.home()) + word.text[1:]
    raise Unknown(word.text)


def _found(start: Path, pattern: str) -> list[Path]:
    """What a pattern finds, or where nothing is found, what it says."""
    whole = pattern if Path(pattern).is_absolute() else f"{escape(str(start))}/{pattern}"
    found = list(islice(iglob(whole, include_hidden=True), MOST_FOUND + 1))  # noqa: PTH207
    may_be_option = "/" not in pattern and any(Path(each).name[0] == "-" for each in found)
    if len(found) > MOST_FOUND or may_be_option:
        raise Unknown(pattern)
    return list(map(Path, found)) or [start / pattern]
