"""Decide about commands that move or remove a directory in which they, or others, run.

A shell stays in a directory that is moved: after `mv ../d ../../e`, `..` leads somewhere else than
the verdict assumed. The same holds for all other commands that are running.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from turnlog.agent.permissions.bash import UnknownValue, Word
from turnlog.agent.permissions.launchers import Inner, name_of, without_wrappers
from turnlog.agent.permissions.links import real_path
from turnlog.agent.permissions.path_access import names_of
from turnlog.agent.permissions.policy import AccessDecision, Policy, VerdictKind
from turnlog.agent.permissions.programs import change_files
from turnlog.agent.permissions.removals import Places
from turnlog.agent.permissions.taken_sources import takes_sources
from turnlog.agent.permissions.working_directories import arguments_in, path_in
from turnlog.agent.workspace.access import DirectoryUse, Runs

MOVERS = frozenset("mv rename rm rmdir unlink".split())


class Displacement:
    """The directories that a command moves or removes."""

    def __init__(self, inner: Iterable[Inner], places: Places) -> None:
        self.paths: list[Path] = []
        self.is_unknown = False
        """True if some of the paths are only known when the command runs."""
        parts = [without_wrappers(each.part.words) for each in inner if not each.part.is_test]
        movers = [words for words in parts if words and _moves(words)]
        for words in movers:
            for place in places:
                try:
                    arguments = arguments_in(words[1:], place)
                    texts = _sources(name_of(words[0]), arguments)
                    self.paths += [path_in(text, place) for text in texts]
                except UnknownValue:
                    self.is_unknown = True


def _moves(words: tuple[Word, ...]) -> bool:
    name = name_of(words[0])
    return name in MOVERS or takes_sources(name, [word.text for word in words[1:]])


def _sources(name: str, arguments: tuple[str, ...]) -> Iterable[str]:
    """Return the paths that a program moves or removes; all operands if the call is unclear."""
    effect = change_files(name, arguments)
    return effect.removes if effect else [each for each in arguments if not each.startswith("-")]


def footprint_of(displacement: Displacement, places: Places, policy: Policy) -> DirectoryUse:
    """Return the directories that a command runs in, and those that it moves or removes."""
    used = dict.fromkeys((policy.cwd, *filter(None, places)))
    return DirectoryUse(tuple(used), tuple(dict.fromkeys(displacement.paths)))


def judge_displacement(
    displacement: Displacement, own: DirectoryUse, runs: Runs, policy: Policy, *, is_alone: bool
) -> Iterator[AccessDecision]:
    """Ask about a command that moves a directory in use, or runs in one that is being moved.

    With file rules, this applies in every mode: a rule would not recognize the moved file.
    """
    is_firm = policy.has_file_rules
    used = [*own.places, *(place for each in runs.running for place in each.places)]
    for path in own.displaced:
        if any(_is_at_or_above(path, place) for place in used):
            reason = f"it moves or removes {path}, where a command runs"
            yield AccessDecision(VerdictKind.ASK, reason, is_firm=is_firm)
    # A single program that runs alone has no other command whose directory it could move.
    if displacement.is_unknown and (runs.running or not is_alone):
        reason = "what it moves or removes is only known when it runs"
        yield AccessDecision(VerdictKind.ASK, reason, is_firm=is_firm)
    for path in dict.fromkeys(path for each in runs.running for path in each.displaced):
        if any(_is_at_or_above(path, place) for place in own.places):
            reason = f"a running command moves or removes {path}"
            yield AccessDecision(VerdictKind.ASK, reason, is_firm=is_firm)


def _is_at_or_above(path: Path, place: Path) -> bool:
    # `..` is resolved by the shell from the text and by the kernel from the directory itself.
    spellings = (Path(os.path.normpath(place)), real_path(place))
    return any(each.is_relative_to(name) for each in spellings for name in names_of(path))
