"""Resolve symbolic links in a path: where they lead now, and where they might lead.

To the kernel, `hop/..` is the parent of the directory that the link `hop` leads to. Once
`rm hop && mkdir hop` has replaced the link, the same text means the directory that holds `hop`. A
verdict must hold in both cases, so each link has two readings: followed, or as a directory.
"""

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from turnlog.agent.permissions.bash import CLOCK, LONGEST_PATH, UnknownValue, is_link

MOST_LINKS = 40
"""Maximum number of links to follow in one path, as in the kernel."""
MOST_READINGS = 64
ROOT = Path("/")
PROCESS = ("/proc/", "/dev/fd")
"""Places that differ from process to process."""


class Way(Struct, frozen=True):
    """One possible resolution of a path."""

    end: Path
    """The resolved path."""
    names: tuple[Path, ...]
    """Spellings of the path at each link, before and after following it."""
    links: tuple[Path, ...]
    targets: tuple[Path, ...]
    """The target of each link as written."""


class _Reading(Struct, frozen=True):
    """A partly resolved path: the resolved start, and the parts that are left."""

    place: Path
    rest: tuple[str, ...]
    names: tuple[Path, ...] = ()
    links: tuple[Path, ...] = ()
    targets: tuple[Path, ...] = ()


@lru_cache(maxsize=4_096)
def ways_of(path: Path) -> tuple[Way, ...]:
    """Return every reading of a path, starting with the current one.

    Raises `UnknownValue` on errors and if there are too many links. The cache is
    cleared before each verdict, because links change.
    """
    parts = path.absolute().parts[1:]
    pending, found = [_Reading(ROOT, parts)], list[Way]()
    while pending:
        CLOCK.check()
        if len(found) + len(pending) > MOST_READINGS:
            raise UnknownValue(str(path))
        found.append(_follow(pending.pop(0), pending))
    return tuple(found)


def real_path(path: Path) -> Path:
    """Return where a path leads now; raise `UnknownValue` if unknown."""
    return ways_of(path)[0].end


def links_on(path: Path) -> set[Path]:
    """Return all symbolic links in a path, in every reading."""
    return {link for way in ways_of(path) for link in way.links}


def _follow(reading: _Reading, others: list[_Reading]) -> Way:
    """Follow a reading to its end; add the alternative readings of its links to `others`."""
    while reading.rest:
        name, rest = reading.rest[0], reading.rest[1:]
        if name == "..":
            reading = _moved(reading, reading.place.parent, rest)
        elif not is_link(reading.place / name):
            reading = _moved(reading, reading.place / name, rest)
        else:
            others += _replaced(reading, rest)
            reading = _through(reading, reading.place / name, rest)
    end = reading.place
    return Way(end, (*reading.names, end), reading.links, reading.targets)


def _moved(reading: _Reading, place: Path, rest: tuple[str, ...]) -> _Reading:
    return _Reading(place, rest, reading.names, reading.links, reading.targets)


def _through(reading: _Reading, link: Path, rest: tuple[str, ...]) -> _Reading:
    try:
        text = os.fspath(link.readlink())
    except OSError as error:
        raise UnknownValue(str(link)) from error
    links = (*reading.links, link)
    whole = reading.place.joinpath(text, *rest)
    # A cycle of links, or a chain that makes the path grow without end.
    if len(links) > MOST_LINKS or len(os.fsencode(whole)) >= LONGEST_PATH:
        raise UnknownValue(str(link))
    # Not normalized: `..` after a link is the parent of the link's target.
    place = ROOT if text.startswith("/") else reading.place
    parts = Path(text).parts[1:] if text.startswith("/") else Path(text).parts
    names = (*reading.names, _lexical(link, rest), Path(os.path.normpath(whole)))
    targets = (*reading.targets, _lexical(reading.place / text, ()))
    return _Reading(place, (*parts, *rest), names, links, targets)


def _replaced(reading: _Reading, rest: tuple[str, ...]) -> Iterator[_Reading]:
    """Yield the reading in which a directory takes the place of a link, if `..` leads out of it."""
    depth = 1
    for rank, name in enumerate(rest, 1):
        depth += -1 if name == ".." else 1
        if depth == 0:
            yield _moved(reading, reading.place, rest[rank:])
            return


def _lexical(path: Path, rest: tuple[str, ...]) -> Path:
    return Path(os.path.normpath(path.joinpath(*rest)))
