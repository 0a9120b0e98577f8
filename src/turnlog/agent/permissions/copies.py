"""Decide about copying and moving directories, by where each file below them would land."""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from turnlog.agent.permissions.bash import (
    NAMES,
    UnknownValue,
    Word,
    is_folder,
    is_link,
    is_there,
)
from turnlog.agent.permissions.derived_names import PLACERS, keeps_parents, sources_and_target
from turnlog.agent.permissions.file_verdicts import (
    WRITING,
    judge_write,
    restricted_names,
    unknown_files,
)
from turnlog.agent.permissions.git_repository import git_places
from turnlog.agent.permissions.links import real_path
from turnlog.agent.permissions.path_access import (
    guarded_places,
    has_protected_name,
    has_protected_part,
    is_guarded,
    names_of,
    shadows_program,
)
from turnlog.agent.permissions.policy import AccessDecision, Policy, VerdictKind
from turnlog.agent.permissions.programs import ProgramEffect
from turnlog.agent.permissions.working_directories import arguments_in, entries_below, path_in

TREE_COPIERS = frozenset("cp ditto gcp rsync scp".split())
"""Programs that copy directories with everything in them."""
RECURSIVE = re.compile(r"-[^-]*[aRr].*|--(?:a|rec).*", re.S)
GLOB = re.compile(r"[*?\[]")
FOLLOWING = {
    **dict.fromkeys(("cp", "gcp"), re.compile(r"-[^-S]*[HL].*|--d.*", re.S)),
    "rsync": re.compile(r"-[^-@BMTef]*[Lk].*|--copy-.*", re.S),
    "scp": re.compile(r"-[^-]*r.*", re.S),
}
"""Options with which a program copies what links lead to, in place of the links."""
KEEPS_LINKS = sys.platform == "linux"
"""False if `cp -r` follows links, as that of BSD does."""


def judge_copies(
    effect: ProgramEffect,
    place: Path | None,
    policy: Policy,
    *,
    follows: bool = not KEEPS_LINKS,
) -> Iterator[AccessDecision]:
    """Check each file below copied or moved directories, at the path where it would land.

    A relative link points elsewhere from another directory, so the user is asked about links. With
    `follows`, the directories that links lead to are copied as well.
    """
    target = path_in(effect.writes[-1], place)
    for source in (path_in(text, place) for text in effect.moved):
        if not is_there(source):
            yield AccessDecision(
                VerdictKind.ASK, f"{source} does not exist yet, so its content is not known"
            )
        if is_link(source):
            yield AccessDecision(VerdictKind.ASK, f"{source} is a link")
        if is_folder(source):
            # `cp -r a b` makes `b/a` if `b` exists and `b` if not, which may change before it runs.
            landing = (target, target / source.name)
            try:
                yield from _judge_landing(source, landing, policy, follows=follows)
            except UnknownValue:
                reason = f"{source} holds too much to be checked"
                yield unknown_files(reason, policy)


def guard_copies(
    effect: ProgramEffect,
    place: Path | None,
    policy: Policy,
    *,
    follows: bool = not KEEPS_LINKS,
) -> Iterator[AccessDecision]:
    """Yield the decisions that no rule for the command lifts: on denied and protected files.

    `cp -r new/docs .` overwrites files in `docs` without naming them.
    """
    found = judge_copies(effect, place, policy, follows=follows)
    return (each for each in found if each.is_firm or each.is_guarded)


def guard_trees(
    name: str, words: tuple[Word, ...], place: Path | None, policy: Policy
) -> Iterator[AccessDecision]:
    """Do the same as `guard_copies` for a call that is not understood, but never deny it.

    Examples are `cp -rT new .` and `cp -r new/. .`.
    """
    if name not in TREE_COPIERS:
        return
    try:
        arguments = arguments_in(words, place)
        *sources, target = sources_and_target(name, arguments)
        effects = [ProgramEffect(writes=(target,), moved=tuple(sources))]
        if keeps_parents(name, arguments):
            # `cp -r --parents a/b x` makes `x/a/b`.
            effects += [
                ProgramEffect(writes=(f"{target}/{Path(each).parent}",), moved=(each,))
                for each in sources
            ]
        follows = follows_links(name, arguments)
        for effect in effects:
            for found in guard_copies(effect, place, policy, follows=follows):
                # Where a file lands depends on the options, so a rule may not apply: only ask.
                yield replace(found, kind=VerdictKind.ASK)
            yield from _guard_entries(effect, place, policy)
    except (OSError, ValueError):  # no operands, or unknown ones: other checks ask
        return


def copied_folders(name: str, words: tuple[Word, ...], place: Path | None) -> list[Path]:
    """Return the directories of which a call copies or moves whatever is in them.

    They may not exist yet. Raises `UnknownValue` if an argument is unknown.
    """
    if name not in TREE_COPIERS | PLACERS:
        return []
    texts = arguments_in(words, place)
    patterns = [GLOB.split(word.text)[0] for word in words if word.has_glob]
    listed = [
        path_in(f"{start.rpartition('/')[0]}/." if "/" in start else ".", place)
        for start in patterns
    ]
    is_whole = name in TREE_COPIERS and any(map(RECURSIVE.fullmatch, texts))
    sources = [path_in(text, place) for text in sources_and_target(name, texts)[:-1]]
    return [
        *listed,
        *(each for each in sources if is_folder(each) or (is_whole and not is_there(each))),
    ]


def follows_links(name: str, arguments: Sequence[str]) -> bool:
    """Return whether a program copies the directories that links lead to.

    >>> follows_links("rsync", ["-rL", "new/", "."]), follows_links("rsync", ["-a", "new/", "."])
    (True, False)
    """
    pattern = FOLLOWING.get(name)
    is_given = pattern is not None and any(map(pattern.fullmatch, arguments))
    return is_given or (name == "cp" and not KEEPS_LINKS)


def _guard_entries(
    effect: ProgramEffect, place: Path | None, policy: Policy
) -> Iterator[AccessDecision]:
    """Ask if a direct entry of a source directory would land on a protected path."""
    target = path_in(effect.writes[-1], place)
    folders = [folder for text in effect.moved if is_folder(folder := path_in(text, place))]
    names = sorted({name for folder in folders for name in os.listdir(folder)})
    for path in (target / name for name in names):
        NAMES.spend()
        if is_guarded(path, policy.directories, policy.added_path):
            yield AccessDecision(VerdictKind.ASK, f"{path} is protected", is_guarded=True)


def _judge_landing(
    source: Path, landing: tuple[Path, ...], policy: Policy, *, follows: bool
) -> Iterator[AccessDecision]:
    """Check where each file below a directory would land, under all names of the target."""
    targets = [names_of(folder) for folder in landing]
    guarded = list(guarded_places(policy.directories, policy.added_path)[0])
    is_found = False  # one protected file is enough: `.git` may hold thousands
    for entry, below in _copied_entries(source, follows=follows):
        if entry.is_symlink():
            yield AccessDecision(VerdictKind.ASK, f"{entry.path} is a link")
        landed = [folder / below for folder in landing]
        if not is_found and (
            has_protected_name(entry.name)
            or any(_is_protected_landing(each, guarded, policy) for each in landed)
        ):
            is_found = True
            yield AccessDecision(
                VerdictKind.ASK, f"{landing[-1] / below} is protected", is_guarded=True
            )
        for names in targets:
            found = tuple(name / below for name in names)
            if is_link(found[0]):
                yield judge_write(found[0], policy)
            elif restriction := restricted_names(found, policy, WRITING, "Edit"):
                yield restriction


def _is_protected_landing(path: Path, guarded: list[str], policy: Policy) -> bool:
    """Return whether a file may not land at a path unasked; `guarded` are starts of such paths.

    The hooks of a repository that is already there are added to them.
    """
    if is_there(path / ".git"):
        guarded += [f"{place}/" for place in git_places(path)]
    if has_protected_part(path) or shadows_program(path, policy.directories, policy.added_path):
        return True
    return f"{path}/".startswith(tuple(guarded)) and (
        is_guarded(path, policy.directories, policy.added_path)
    )


def _copied_entries(source: Path, *, follows: bool) -> Iterator[tuple[os.DirEntry[str], Path]]:
    """Yield everything that is copied along with a directory, and its path below the target.

    Raises `UnknownValue` if links form a cycle, or if there are too many entries.
    """
    pending: list[tuple[Path, Path, tuple[Path, ...]]] = [(source, Path(), (real_path(source),))]
    while pending:
        folder, start, entered = pending.pop()
        for entry in entries_below(folder):
            path = Path(entry.path)
            below = start / path.relative_to(folder)
            yield entry, below
            if follows and entry.is_symlink() and is_folder(path):
                target = real_path(path)
                if any(each.is_relative_to(target) for each in entered):
                    raise UnknownValue(entry.path)
                pending.append((path, below, (*entered, target)))
