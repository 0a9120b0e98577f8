"""Calls of git that rules allow, in repositories that name programs.

A rule for `git status` is not about the programs that `.git/config` makes it run. Such a call asks,
unless it only reads and the whole command can run confined, without those programs.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from turnlog.agent.access import Basis
from turnlog.agent.permissions.bash import Script, Unknown, Word
from turnlog.agent.permissions.directories import (
    MOVES,
    arguments_in,
    path_in,
    possible_directories,
)
from turnlog.agent.permissions.git_repository import Repository, find_problem, find_repository
from turnlog.agent.permissions.launchers import Inner, name_of, without_wrappers
from turnlog.agent.permissions.policy import Finding, Kind
from turnlog.agent.permissions.programs import enters_submodules, read_files

HOOK = re.compile(r"sets core\.hookspath|would run\Z", re.I)
"""Problems that only mean hooks: a rule for a call that does more than read allows those."""
ELSEWHERE = re.compile(r"--(?:git-dir|work-tree|exec-path|namespace|bare).*")
"""Global options that make git use another repository, or other programs."""


def guard_repositories(script: Script, inner: Iterable[Inner], cwd: Path) -> Iterator[Finding]:
    """Yield a finding for each call of git in a repository that names programs."""
    given = [without_wrappers(each.part.words) for each in inner if not each.part.is_test]
    parts = list(dict.fromkeys(filter(None, given)))
    moves = [words for words in parts if words[0].text in MOVES]
    places = None if moves and script.has_loop else possible_directories(moves, cwd)
    # What another program runs, it may run in another directory; wrappers do not.
    direct = {without_wrappers(part.words) for part in script.parts}
    for words in parts:
        if name_of(words[0]) == "git":
            yield from _guard_call(words, places if words in direct else None, cwd)


def _guard_call(
    words: tuple[Word, ...], places: tuple[Path, ...] | None, cwd: Path
) -> Iterator[Finding]:
    options = [word.text for word in words[1:]]
    if options in (["--version"], ["version"]):
        return
    try:
        found = _directories(words, places)
    except Unknown:
        found = None
    if found is None or any(map(ELSEWHERE.fullmatch, options)):
        yield _asks("which repository git uses is only known when it runs")
        return
    for place in found:
        yield from _guard_place(words, place, cwd)


def _directories(
    words: tuple[Word, ...], places: tuple[Path, ...] | None
) -> tuple[Path, ...] | None:
    """Return where git looks for its repository; None if that is not known."""
    if len(words) < 3 or words[1].text != "-C" or places is None:
        has_option = any(word.text.startswith("-C") for word in words[1:2])
        return None if has_option else places
    if any(word.text == "-C" for word in words[3:]):
        return None
    return tuple(
        path_in(text, place) for place in places for text in arguments_in(words[2:3], place)
    )


def _guard_place(words: tuple[Word, ...], place: Path, cwd: Path) -> Iterator[Finding]:
    try:
        arguments = arguments_in(words[1:], place)
        effect = read_files("git", arguments)
    except Unknown:
        effect = None
    try:
        repository = find_repository(place)
        is_own = repository == find_repository(cwd)
    except (OSError, ValueError) as error:
        yield _asks(f"its repository cannot be checked: {error}")
        return
    if repository:
        enters = bool(effect and effect.uses_git) and enters_submodules(effect.uses_git)
        yield from _guard_repository(repository, enters, reads=bool(effect), is_own=is_own)


def _guard_repository(
    repository: Repository, enters: bool, *, reads: bool, is_own: bool
) -> Iterator[Finding]:
    problem = find_problem(repository, enters_submodules=enters)
    if problem and (reads or not HOOK.search(problem)):
        # Only the repository of the session's own directory is neutralized when git runs.
        yield _asks(problem, is_confinable=reads and is_own)


def _asks(reason: str, *, is_confinable: bool = False) -> Finding:
    return Finding(Kind.ASK, reason, is_confinable=is_confinable, basis=Basis.RULE)
