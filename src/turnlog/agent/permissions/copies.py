"""Decide about copying and moving directories: everything below them lands somewhere."""

from collections.abc import Iterator
from pathlib import Path

from turnlog.agent.permissions.bash import UnknownValue, is_folder, is_link, is_there
from turnlog.agent.permissions.directories import entries_below, path_in
from turnlog.agent.permissions.displacement import FILE_RULES
from turnlog.agent.permissions.files import WRITING, judge_write, restricted_names
from turnlog.agent.permissions.path_access import (
    has_protected_name,
    has_protected_part,
    names_of,
    shadows_program,
)
from turnlog.agent.permissions.policy import AccessDecision, Policy, VerdictKind
from turnlog.agent.permissions.programs import ProgramEffect


def judge_copies(
    effect: ProgramEffect, place: Path | None, policy: Policy
) -> Iterator[AccessDecision]:
    """Check what is below the directories that are copied or moved, where it lands.

    A relative link leads somewhere else from another directory, so links are asked about.
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
                yield AccessDecision(VerdictKind.ASK, reason, is_firm=has_rules)


def guard_copies(
    effect: ProgramEffect, place: Path | None, policy: Policy
) -> Iterator[AccessDecision]:
    """Yield what file rules say about a copy, which a rule for the command does not lift.

    `cp -r new/docs .` overwrites the files in `docs`, of which the command names none.
    """
    return (each for each in judge_copies(effect, place, policy) if each.is_firm)


def _judge_landing(
    source: Path, landing: tuple[Path, ...], policy: Policy
) -> Iterator[AccessDecision]:
    """Check where each file below a directory would land, under all names of the target."""
    targets = [names_of(folder) for folder in landing]
    for entry in entries_below(source):
        below = Path(entry.path).relative_to(source)
        if entry.is_symlink():
            yield AccessDecision(VerdictKind.ASK, f"{entry.path} is a link")
        landed = [folder / below for folder in landing]
        is_protected = has_protected_name(entry.name) or any(map(has_protected_part, landed))
        if is_protected or any(
            shadows_program(each, policy.directories, policy.added_path) for each in landed
        ):
            yield AccessDecision(
                VerdictKind.ASK, f"{landing[-1] / below} is protected", is_guarded=True
            )
        for names in targets:
            found = tuple(name / below for name in names)
            if is_link(found[0]):
                yield judge_write(found[0], policy)
            elif restriction := restricted_names(found, policy, WRITING, "Edit"):
                yield restriction
