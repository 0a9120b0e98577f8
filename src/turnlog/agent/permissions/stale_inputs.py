"""Detect archives, patches and directories that may change between the verdict and their use.

A verdict depends on their content before anything runs. For `cp evil.tar x.tar && tar xf x.tar`, it
would inspect the old `x.tar`, but tar unpacks the new one. In `mv new/hooks x && cp -r x/. .`, the
directory `x` does not even exist yet.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from turnlog.agent.permissions.archive_targets import find_archive, only_lists
from turnlog.agent.permissions.bash import SimpleCommand, UnknownValue, Word
from turnlog.agent.permissions.copies import copied_folders
from turnlog.agent.permissions.guards import written_paths
from turnlog.agent.permissions.interference import NOT_FILES, only_reads
from turnlog.agent.permissions.launchers import commands_in, name_of, without_wrappers
from turnlog.agent.permissions.links import real_path
from turnlog.agent.permissions.patch_targets import find_patches, only_shows
from turnlog.agent.permissions.policy import AccessDecision, VerdictKind
from turnlog.agent.permissions.programs import NEVER_WRITING, change_files
from turnlog.agent.permissions.removals import Places
from turnlog.agent.permissions.shell_command import ShellCommand
from turnlog.agent.permissions.working_directories import MOVES, arguments_in, path_in

REPLACED = AccessDecision(
    VerdictKind.ASK, "the archive or patch may be replaced before it is read", is_guarded=True
)
CHANGED = AccessDecision(
    VerdictKind.ASK, "the directory that it copies may change before that", is_guarded=True
)
BUILDERS = frozenset(
    """
    bun cargo cmake deno go gradle gradlew just make mvn mvnw ninja npm npx pnpm poetry pytest tox
    tsc uv yarn
    """.split()
)
"""Programs that run code of the project, which could write a protected file without a copy.

So `npm run build && cp -r dist public` is no way around a question.
"""
ADDING_NOTHING = NEVER_WRITING | frozenset("mkdir rm rmdir".split())
"""Programs that put no file in a directory."""


def judge_inputs(command: ShellCommand) -> Iterator[AccessDecision]:
    """Ask about an archive, patch or directory that may change between verdict and use."""
    script, places = command.script, command.places
    for rank, part in enumerate(script.parts):
        files = [path for place in places for path in _inputs(part, place)]
        folders = [path for place in places for path in _folders(part, place)]
        if not files and not folders:
            continue
        # In `a; b`, only earlier parts can interfere. Pipes and `&` run parts at the same time, so
        # there, later parts count as well.
        others = [*script.parts[:rank], *(() if script.is_ordered else script.parts[rank + 1 :])]
        # A command that still runs in the background, or an earlier iteration of a loop, may write
        # the file, too.
        is_exposed = command.is_delayed or bool(command.runs.running) or script.has_loop
        if files and (is_exposed or any(_may_change(each, files, places) for each in others)):
            yield REPLACED
        if folders and (is_exposed or any(_may_fill(each, folders, places) for each in others)):
            yield CHANGED


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


def _folders(part: SimpleCommand, place: Path | None) -> Iterator[Path]:
    """Yield the directories that a part copies; `guards` asks about unknown ones."""
    for inner in commands_in(part):
        words = without_wrappers(inner.part.words)
        try:
            found = copied_folders(name_of(words[0]), words[1:], place) if words else []
            yield from map(real_path, found)
        except UnknownValue:
            continue


def _may_fill(part: SimpleCommand, folders: Iterable[Path], places: Places) -> bool:
    """Return whether a part may put a file in one of the directories, or replace it."""
    words = without_wrappers(part.words)
    name = name_of(words[0]) if words else ""
    if only_reads(part, places) or (name in BUILDERS | ADDING_NOTHING and not _redirected(part)):
        return False
    try:
        written = [real_path(path) for place in places for path in _written(part, place)]
    except UnknownValue:
        return True
    return any(
        path.is_relative_to(folder) or folder.is_relative_to(path)
        for path in written
        for folder in folders
    )


def _redirected(part: SimpleCommand) -> tuple[Word, ...]:
    """Return the files that a part redirects its input or output to."""
    targets = (each.target for each in part.redirects)
    return tuple(target for target in targets if target.text not in NOT_FILES)


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
    yield from (path_in(text, place) for text in arguments_in(_redirected(part), place))
    words = without_wrappers(part.words)
    if not words or words[0].text in MOVES or only_reads(part, (place,)):
        return
    effect = change_files(words[0].text, arguments_in(words[1:], place))
    # An unknown program may write anywhere, so the caller must assume that it does.
    if effect is None:
        raise UnknownValue("what it writes")
    yield from written_paths(effect, place)
