"""Decide about copying and moving directories, by where each file below them would land."""

import os
import re
from collections.abc import Iterator
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
from turnlog.agent.permissions.displacement import FILE_RULES
from turnlog.agent.permissions.file_verdicts import WRITING, judge_write, restricted_names
from turnlog.agent.permissions.path_access import (
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
TARGET = re.compile(r"-[^-t]*t(.*)|--t[a-z-]*(?:=(.*))?", re.S)
"""The option of cp that names the target, which is the last operand otherwise."""


def judge_copies(
    effect: ProgramEffect, place: Path | None, policy: Policy
) -> Iterator[AccessDecision]:
    """Check each file below copied or moved directories, at the path where it would land.

    A relative link points elsewhere from another directory, so the user is asked about links.
    """
    target = path_in(effect.writes[-1], place)
    has_rules = any(rule.tool in FILE_RULES for rule in (*policy.deny, *policy.ask))
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
                yield from _judge_landing(source, landing, policy)
            except UnknownValue:
                reason = f"{source} holds too much to be checked"
                yield AccessDecision(VerdictKind.ASK, reason, is_firm=has_rules, is_guarded=True)


def guard_copies(
    effect: ProgramEffect, place: Path | None, policy: Policy
) -> Iterator[AccessDecision]:
    """Yield the decisions that no rule for the command lifts: on denied and protected files.

    `cp -r new/docs .` overwrites files in `docs` without naming them.
    """
    found = judge_copies(effect, place, policy)
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
        *sources, target = _sources_and_target(name, arguments_in(words, place))
        effect = ProgramEffect(writes=(target,), moved=tuple(sources))
        for found in guard_copies(effect, place, policy):
            # Where a file lands depends on the options, so a rule may not apply: ask, do not deny.
            yield replace(found, kind=VerdictKind.ASK)
        yield from _guard_entries(effect, place, policy)
    except (OSError, ValueError):  # no operands, or unknown ones: other checks ask
        return


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


def _sources_and_target(name: str, arguments: tuple[str, ...]) -> list[str]:
    """Return the operands of a program that copies, the target last."""
    operands: list[str] = []
    targets: list[str] = []
    waiting = iter(arguments)
    for argument in waiting:
        found = TARGET.fullmatch(argument) if name in ("cp", "gcp") else None
        if found:
            targets.append(found[1] or found[2] or next(waiting, ""))
        elif not argument.startswith("-"):
            operands.append(argument)
    return [*operands, *targets[-1:]]


def _judge_landing(
    source: Path, landing: tuple[Path, ...], policy: Policy
) -> Iterator[AccessDecision]:
    """Check where each file below a directory would land, under all names of the target."""
    targets = [names_of(folder) for folder in landing]
    is_found = False  # one protected file is enough: `.git` may hold thousands
    for entry in entries_below(source):
        below = Path(entry.path).relative_to(source)
        if entry.is_symlink():
            yield AccessDecision(VerdictKind.ASK, f"{entry.path} is a link")
        landed = [folder / below for folder in landing]
        is_protected = has_protected_name(entry.name) or any(map(has_protected_part, landed))
        if not is_found and (
            is_protected
            or any(shadows_program(each, policy.directories, policy.added_path) for each in landed)
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
