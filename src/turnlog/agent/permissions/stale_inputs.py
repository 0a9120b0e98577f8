"""Detect archives and patches that may be replaced between the verdict and their use.

A verdict depends on the file's content before anything runs. For
`cp evil.tar x.tar && tar xf x.tar`, it would inspect the old `x.tar`, but tar unpacks the new one.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from turnlog.agent.permissions.archive_targets import find_archive, only_lists
from turnlog.agent.permissions.bash import SimpleCommand, UnknownValue
from turnlog.agent.permissions.guards import written_paths
from turnlog.agent.permissions.interference import NOT_FILES, only_reads
from turnlog.agent.permissions.launchers import commands_in, name_of, without_wrappers
from turnlog.agent.permissions.links import real_path
from turnlog.agent.permissions.patch_targets import find_patches, only_shows
from turnlog.agent.permissions.policy import AccessDecision, VerdictKind
from turnlog.agent.permissions.programs import change_files
from turnlog.agent.permissions.removals import Places
from turnlog.agent.permissions.shell_command import ShellCommand
from turnlog.agent.permissions.working_directories import MOVES, arguments_in, path_in

REPLACED = AccessDecision(
    VerdictKind.ASK, "the archive or patch may be replaced before it is read", is_guarded=True
)


def judge_inputs(command: ShellCommand) -> Iterator[AccessDecision]:
    """Ask about an archive or a patch that something may replace between verdict and use."""
    script, places = command.script, command.places
    for rank, part in enumerate(script.parts):
        files = [path for place in places for path in _inputs(part, place)]
        if not files:
            continue
        # In `a; b`, only earlier parts can interfere. Pipes and `&` run parts at the same time, so
        # there, later parts count as well.
        others = [*script.parts[:rank], *(() if script.is_ordered else script.parts[rank + 1 :])]
        # A command that still runs in the background, or an earlier iteration of a loop, may write
        # the file, too.
        is_exposed = command.is_delayed or bool(command.runs.running) or script.has_loop
        if is_exposed or any(_may_change(each, files, places) for each in others):
            yield REPLACED


def _inputs(part: SimpleCommand, place: Path | None) -> Iterator[Path]:
    """Yield the archives and patches that a part reads; `guards` asks about unknown ones."""
    for inner in commands_in(part):
        words = without_wrappers(inner.part.words)
        if not words:
            continue
        name = name_of(words[0])
        try:
            found = [
                *find_archive(name, words[1:], place),
                *find_patches(name, words[1:], inner.part, place),
            ]
            yield from map(real_path, found)
        except UnknownValue:
            continue


def _may_change(part: SimpleCommand, files: Iterable[Path], places: Places) -> bool:
    """Return whether a part may write one of the files, or replace a directory above one."""
    if only_reads(part, places) or _only_looks(part):
        return False
    try:
        written = [real_path(path) for place in places for path in _written(part, place)]
    except UnknownValue:
        return True
    # Moving a directory replaces every file below it: `mv evil dir && tar xf dir/x.tar`.
    return any(path == file or path in file.parents for path in written for file in files)


def _only_looks(part: SimpleCommand) -> bool:
    words = without_wrappers(part.words)
    writes = any(each.is_write and each.target.text not in NOT_FILES for each in part.redirects)
    if writes or part.assignments or not all(word.is_known for word in words):
        return False
    call = (name_of(words[0]), words[1:]) if words else ("", ())
    return only_lists(*call) or only_shows(*call)


def _written(part: SimpleCommand, place: Path | None) -> Iterator[Path]:
    targets = [each.target for each in part.redirects if each.target.text not in NOT_FILES]
    yield from (path_in(text, place) for text in arguments_in(tuple(targets), place))
    words = without_wrappers(part.words)
    if not words or words[0].text in MOVES or only_reads(part, (place,)):
        return
    effect = change_files(words[0].text, arguments_in(words[1:], place))
    # An unknown program may write anywhere, so the caller must assume that it does.
    if effect is None:
        raise UnknownValue("what it writes")
    yield from written_paths(effect, place)
