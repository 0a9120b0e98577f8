"""Find symbolic links whose names occur in a text, and check where they lead.

A project may contain `notes -> .env`, and programs take file names from any text: sed from
`1rnotes`, curl from `%output{a,b}`, an interpreter from its input. How much of the text belongs to
the name depends on the program, so links are looked up on disk, and then in the text.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from turnlog.agent.permissions.bash import CLOCK, NAMES, UnknownValue, is_folder
from turnlog.agent.permissions.file_verdicts import READING, WRITING, restricted
from turnlog.agent.permissions.links import links_on, real_path
from turnlog.agent.permissions.name_mentions import END, START, folded, forms_of
from turnlog.agent.permissions.path_access import (
    is_guarded,
    is_protected,
    names_of,
    search_directories,
)
from turnlog.agent.permissions.policy import AccessDecision, Policy, VerdictKind
from turnlog.agent.permissions.working_directories import path_in

OUTSIDE = re.compile(r"(?=((?:\.\.)?/[^\s\"'`,;:|&<>(){}$]*))")
"""Each path in a text that may lead out of the working directories, whatever precedes it."""
NEW = "new"
"""A made-up name for a file that a program may create in a directory."""


def restricted_links(
    texts: Sequence[str], joined: Sequence[str], place: Path | None, policy: Policy, *, writes: bool
) -> Iterator[AccessDecision]:
    """Ask if texts name a link that leads to a file which a rule covers."""
    checks = [(READING, "Read"), (WRITING, "Edit")][: 1 + writes]
    try:
        for link in mentioned_links(texts, joined, place, policy.places):
            # The rule `secrets/**` covers what is in a directory, not the directory itself.
            tried = (
                restricted(path, policy, *each) for path in (link, link / NEW) for each in checks
            )
            if found := next(filter(None, tried), None):
                yield AccessDecision(VerdictKind.ASK, found.reason, is_firm=True)
    except UnknownValue as unknown:
        yield AccessDecision(VerdictKind.ASK, _unknown(unknown), is_firm=True)


def protected_links(
    texts: Sequence[str], joined: Sequence[str], place: Path | None, policy: Policy
) -> Iterator[AccessDecision]:
    """Ask if texts name a link that leads to a protected file or directory."""
    try:
        for link in mentioned_links(texts, joined, place, policy.places):
            if _leads_to_guarded(link, policy):
                yield AccessDecision(VerdictKind.ASK, f"{link} is protected", is_guarded=True)
    except UnknownValue as unknown:
        yield AccessDecision(VerdictKind.ASK, _unknown(unknown), is_guarded=True)


def mentioned_links(
    texts: Sequence[str], joined: Sequence[str], place: Path | None, folders: tuple[Path, ...]
) -> Iterator[Path]:
    """Yield the links that texts may name, and the files behind them that the texts may name.

    Looks in the working directories, in the directories between them and `place`, and in those
    whose own names occur in a text: `1rsub/notes`, `chdir("sub"); open("notes")`. In `joined`, a
    name may follow any letters. Raises `UnknownValue` if there are too many files.
    """
    plain, close = ("\n".join(forms_of(each)) for each in (texts, joined))
    folders = (*folders, *_starts(place, folders))
    outside = _folders_outside(texts, place)
    pending = [(each, False) for each in folders]
    pending += [(each, bool(links_on(each))) for each in outside]
    folders = (*folders, *outside)
    seen = set[tuple[Path, bool]]()
    while pending:
        folder, is_linked = pending.pop()
        if (key := (real_path(folder), is_linked)) in seen:
            continue
        seen.add(key)
        for entry in list_folder(folder):
            is_link = entry.is_symlink()
            if not is_linked and not is_link and not entry.is_dir(follow_symlinks=False):
                continue
            CLOCK.check()
            name, path = folded(entry.name), folder / entry.name
            if name not in plain and name not in close:
                continue
            if (is_linked or is_link) and _is_named(name, plain, close):
                yield path
            if _is_folder(entry) and _is_in(path, folders):
                pending.append((path, is_linked or is_link))


def _starts(place: Path | None, folders: tuple[Path, ...]) -> Iterable[Path]:
    """Return where a relative path may start: `../notes` leads out of `place`."""
    above = [each for each in place.parents if _is_in(each, folders)] if place else []
    return [*filter(None, [place]), *above]


def _folders_outside(texts: Iterable[str], place: Path | None) -> Iterable[Path]:
    """Return the directories of paths in texts that lead out of `place`: `1r/tmp/clone/notes`."""
    runs = [found[1] for text in texts for found in OUTSIDE.finditer(text)]
    named = {run.rpartition("/")[0] for run in runs}
    found = list[Path]()
    for text in sorted(filter(None, named)):
        CLOCK.check()
        with suppress(UnknownValue):  # nothing is there, or programs cannot follow its links either
            folder = path_in(text, place)
            if is_folder(folder):
                found.append(folder)
    return found


def _is_named(name: str, plain: str, close: str) -> bool:
    """Return whether a text contains a name as a whole; in `close`, letters may precede it."""
    end = re.escape(name) + END
    return bool(re.search(START + end, plain) or re.search(end, close))


@lru_cache(maxsize=1_024)
def list_folder(folder: Path) -> "tuple[os.DirEntry[str], ...]":
    """Return the entries of a directory; the cache is cleared before each verdict."""
    found = list["os.DirEntry[str]"]()
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                NAMES.spend()
                found.append(entry)
    except OSError:
        return ()
    return tuple(found)


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_in(path: Path, folders: Iterable[Path]) -> bool:
    real = real_path(path)
    return any(real.is_relative_to(real_path(folder)) for folder in folders)


def _leads_to_guarded(link: Path, policy: Policy) -> bool:
    inside, _ = search_directories(policy.directories, policy.added_path)
    if not inside.isdisjoint(names_of(link)) or is_protected(link):
        return True
    # `.venv/bin/python` is a link, too, and every text that runs it names it.
    is_program = link.parent in inside
    return not is_program and is_guarded(link, policy.directories, policy.added_path)


def _unknown(reason: UnknownValue) -> str:
    return f"it may name a link whose target is unknown: {reason}"
