"""The directories that parts of a command may run in, and the arguments they get there."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from turnlog.agent.permissions.bash import (
    COMPARISONS,
    HOLE,
    LONGEST_PATH,
    Budget,
    NoPath,
    UnknownValue,
    Word,
    expand,
)
from turnlog.agent.permissions.path_access import leads_through_process, names_of

MOST_PLACES = 16
ELSEWHERE = re.compile(r"/+(?:proc/.*/(?:cwd|root|fd|exe|map_files)|dev/fd)(?:/|\Z)")
"""Paths that depend on the process that opens them."""
CONNECTION = re.compile(r"/+dev/+(?:tcp|udp)(?:/|\Z)")
"""Names for which bash opens a connection instead of a file: `echo x > /dev/tcp/host/80`."""
MOVES = frozenset("cd pushd popd chdir".split())


def possible_directories(
    commands: Iterable[tuple[Word, ...]], cwd: Path
) -> tuple[Path, ...] | None:
    """Return every directory that a part may run in; None if one of them is unknown.

    `cd a; cat x` may read `x` in either directory, because `cd` may fail. Bash removes `link/..`
    from a path before it resolves links, other programs do not: both results count.
    """
    places = (cwd,)
    for words in commands:
        if words[0].text not in MOVES:
            continue
        try:
            targets = [path for place in places for path in _targets(words, place)]
        except UnknownValue:
            return None
        places = tuple(dict.fromkeys((*places, *targets)))
        if len(places) > MOST_PLACES:
            return None
    return places


def _targets(words: tuple[Word, ...], place: Path) -> Iterator[Path]:
    if words[0].text == "popd":
        raise UnknownValue("popd")
    # `cd -` and `pushd +1` depend on where bash was before, so they name no directory here.
    operands = [word for word in words[1:] if not word.text.startswith(("-", "+"))]
    default = Word(HOLE) if len(words) > 1 else Word("~", has_tilde=True)
    for word in operands or [default]:
        for text in expand(word, place):
            yield from names_of(path_in(text, place))


def arguments_in(words: tuple[Word, ...], place: Path | None) -> tuple[str, ...]:
    """Return the expanded arguments of a program; raise `UnknownValue` if one is unknown."""
    # Which names a pattern expands to depends on the directory.
    if place is None and any(word.has_glob for word in words):
        raise UnknownValue("directory")
    return tuple(text for word in words for text in expand(word, place or Path("/")))


def path_in(text: str, place: Path | None) -> Path:
    """Return the path an argument names; raise `UnknownValue` if the directory is unknown."""
    # An empty text names no file; `Path("")` would be the current directory.
    if not text or len(os.fsencode(text)) >= LONGEST_PATH:
        raise NoPath(text)
    path = Path(text)
    if place is None and not path.is_absolute():
        raise UnknownValue(text)
    found = (place or Path("/")) / path
    if ELSEWHERE.match(str(found)) or leads_through_process(found):
        raise UnknownValue(text)
    names_of(found)  # raises `UnknownValue` where links cannot be followed
    return found


def entries_below(folder: Path, budget: Budget = COMPARISONS) -> Iterator[os.DirEntry[str]]:
    """Yield everything below a directory without following links.

    Raises `UnknownValue` if there are too many entries, or a directory cannot be read.
    """
    pending = [os.fspath(folder)]
    while pending:
        try:
            # A stack instead of recursion: a tree may be deeper than Python recurses.
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    budget.spend()
                    if len(os.fsencode(entry.path)) >= LONGEST_PATH:
                        raise UnknownValue(str(folder))
                    yield entry
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError as error:
            raise UnknownValue(str(folder)) from error
