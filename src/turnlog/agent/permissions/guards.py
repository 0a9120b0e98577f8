"""Apply file rules to a command, whatever else allows it.

These findings apply in every mode: paths that a Read or Edit rule denies, protected files, and
removals of critical directories.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec.structs import replace

from turnlog.agent.permissions.archive_targets import guard_archives
from turnlog.agent.permissions.bash import (
    HOLE,
    NAMES,
    NoPath,
    SimpleCommand,
    UnknownValue,
    Word,
    is_there,
)
from turnlog.agent.permissions.copies import guard_copies, guard_trees
from turnlog.agent.permissions.derived_names import derived_names, makes_up_names, without_ending
from turnlog.agent.permissions.downloads import expands_addresses, is_named_elsewhere
from turnlog.agent.permissions.file_verdicts import (
    READING,
    WRITING,
    restricted,
    restricted_names,
    unknown_files,
)
from turnlog.agent.permissions.folder_contents import (
    doubt,
    may_be_folder,
    protected_below,
    restrictions_below,
    with_linked,
)
from turnlog.agent.permissions.git_index import tracked_names
from turnlog.agent.permissions.git_repository import GitCall, find_problem, find_repository
from turnlog.agent.permissions.interference import effective_words
from turnlog.agent.permissions.launchers import name_of, without_wrappers
from turnlog.agent.permissions.link_mentions import protected_links, restricted_links
from turnlog.agent.permissions.name_mentions import mentions_protected, mentions_rule
from turnlog.agent.permissions.packing import named_by_options, packs_more
from turnlog.agent.permissions.patch_targets import guard_patches
from turnlog.agent.permissions.path_access import (
    has_protected_part,
    is_guarded,
    names_below,
    names_of,
)
from turnlog.agent.permissions.policy import AccessDecision, Policy, VerdictKind, may_apply
from turnlog.agent.permissions.program_calls import ProgramCall, call_of
from turnlog.agent.permissions.programs import (
    CONTENT_READERS,
    COPYING,
    PATHLESS,
    RECURSING,
    WRITERS,
    ProgramEffect,
    change_files,
    guess_paths,
    read_files,
    shows_files,
)
from turnlog.agent.permissions.removals import (
    Places,
    name_pattern,
    removed_by,
    takes_much,
)
from turnlog.agent.permissions.restrictions import evaluates
from turnlog.agent.permissions.taken_sources import guard_sources
from turnlog.agent.permissions.working_directories import arguments_in, entries_below, path_in
from turnlog.agent.workspace.access import AMBIGUOUS_NAMES

MOST_GUESSES = 100
"""Maximum number of strings in one call that are tried as paths."""
UNKNOWN_TARGET = "which file it writes is only known when it runs"


def guard(
    part: SimpleCommand, text: str, places: Places, policy: Policy, *, is_still: bool = False
) -> Iterator[AccessDecision]:
    """Yield the findings of file rules, and of checks for dangerous removals, about a program.

    `text` is the whole command, also without quotes: an interpreter may get the name of a file from
    any part of it.
    `is_still` is true if nothing changes files between the verdict and the end of the command.
    """
    words = without_wrappers(part.words)
    if evaluates(part) and policy.has_file_rules:
        yield doubt(policy, "Read", "Edit")
    if not words or part.is_test:
        return
    name = name_of(words[0])
    if takes_much(words, places, policy.directories):
        yield AccessDecision(VerdictKind.ASK, "it may remove a critical directory", is_firm=True)
    # The name tells what a program does; its arguments tell which files it touches.
    call = call_of(part, words, text)
    if call.is_known and name in PATHLESS:
        return
    for place in places:
        effect = _effect_in(name, effective_words(words), place) if call.is_known else None
        if effect:
            yield from _guard_effect(effect, place, policy)
            yield from _guard_content(effect, place, policy, is_still=is_still)
        else:
            yield from _guard_unknown(call, place, policy)
            yield from guard_patches(name, call.words, part, place, policy)
            yield from guard_archives(name, call.words, place, policy)
            yield from guard_trees(name, call.words, place, policy)
            yield from guard_sources(name, call.words, place, policy)


def _effect_in(name: str, words: tuple[Word, ...], place: Path | None) -> ProgramEffect | None:
    """Return what a program does in a directory; None if that is not known."""
    try:
        arguments = arguments_in(words, place)
    except UnknownValue:
        return None
    return read_files(name, arguments) or change_files(name, arguments)


def _guard_effect(
    effect: ProgramEffect, place: Path | None, policy: Policy
) -> Iterator[AccessDecision]:
    try:
        reads = [path_in(text, place) for text in effect.reads]
        writes = written_paths(effect, place)
    except UnknownValue:
        if policy.has_file_rules:
            yield doubt(policy, "Read", "Edit")
        if effect.writes:
            yield unknown_files(UNKNOWN_TARGET, policy)
        return
    yield from _restrictions(reads, policy, READING, "Read")
    yield from _restrictions(writes, policy, WRITING, "Edit")
    for path in writes:
        if is_guarded(path, policy.directories, policy.added_path):
            yield AccessDecision(VerdictKind.ASK, f"{path} is protected", is_guarded=True)
    if effect.moved:
        yield from guard_copies(effect, place, policy)
    if effect.needs_files and _has_rules(policy, "Read") and any(map(may_be_folder, reads)):
        # `diff -r a b` reads all files of both directories, and follows links in them.
        yield doubt(policy, "Read")
    if effect.lists_below and _has_rules(policy, "Read"):
        yield from restrictions_below(reads, policy, READING, "Read", are_folders=True)
    if effect.is_recursive:
        yield from _guard_below(effect, reads, place, policy)


def _guard_content(
    effect: ProgramEffect, place: Path | None, policy: Policy, *, is_still: bool
) -> Iterator[AccessDecision]:
    """Ask about git if it may show the content of a denied file."""
    # Naming a file limits nothing: it may have been a directory, or have had another name, in the
    # revisions that `git log -p -- old` and `git log -p --follow` show. Without a revision, only
    # tracked files are shown; another command may add more, so none may run at the same time.
    if not effect.shows_content or not _has_rules(policy, "Read"):
        return
    if not (is_still and effect.shows_tracked and _tracks_nothing_denied(effect, place, policy)):
        yield doubt(policy, "Read")


def _tracks_nothing_denied(effect: ProgramEffect, place: Path | None, policy: Policy) -> bool:
    """Return whether no rule covers a tracked file of the repository that git uses."""
    try:
        paths = [path_in(text, place) for text in effect.reads]
        repository = find_repository(place) if place and all(map(is_there, paths)) else None
        # Where git finds no repository, or one that another user owns, `git diff a b` compares any
        # two directories. Whether it finds one also depends on its environment.
        below = restrictions_below(paths if len(paths) > 1 else (), policy, READING, "Read")
        if repository is None or next(below, None):
            return False
        if find_problem(repository, GitCall()):
            return False  # `core.worktree` would make the names in the index mean other files
        tops = names_of(repository.top)
        # Raises ValueError if there are submodules, which track files of their own.
        for name in tracked_names(repository.directory / "index"):
            if restricted_names(tuple(top / name for top in tops), policy, READING, "Read"):
                return False
    except (OSError, ValueError):
        return False
    return True


def _guard_below(
    effect: ProgramEffect, reads: list[Path], place: Path | None, policy: Policy
) -> Iterator[AccessDecision]:
    """Check everything below the directories that are read, copied, moved or removed."""
    removed = [path_in(text, place) for text in effect.removes]
    if _has_rules(policy, "Read"):
        yield from restrictions_below(reads, policy, READING, "Read", effect.endings)
    if policy.has_file_rules:
        yield from restrictions_below(removed, policy, WRITING, "Edit")
    yield from protected_below(removed)


def written_paths(effect: ProgramEffect, place: Path | None) -> list[Path]:
    """Return the paths that a program writes; `cp x dir` also writes `dir/x`."""
    writes = [path_in(text, place) for text in effect.writes]
    if not effect.moved:
        return writes
    target = writes[-1]
    return [*writes, *(target / path_in(text, place).name for text in effect.moved)]


def _guard_unknown(
    call: ProgramCall, place: Path | None, policy: Policy
) -> Iterator[AccessDecision]:
    """Check a call that is not understood: all paths that its arguments name, or may name."""
    texts, is_complete = _known_texts(call.words, place)
    derived, named = derived_names(call.name, texts), texts[len(call.subcommand) :]
    guesses = list(dict.fromkeys([*named, *_guesses([*named, *derived])]))
    is_complete &= len(guesses) <= MOST_GUESSES and not expands_addresses(call.name, call.words)
    packed = named_by_options(texts) if call.name in COPYING else []
    for text in guesses[:MOST_GUESSES]:
        try:
            path = path_in(text, place)
        except NoPath:
            continue
        except UnknownValue:
            # Without a known directory, no relative path can be resolved. That leaves a doubt only
            # for programs that open their operands as files.
            is_complete &= place is None and not text.startswith("/") and not call.opens_files
            continue
        yield from _guard_guess(call, path, text in texts, policy)
        if text in packed and _has_rules(policy, "Read"):
            yield from _guard_packing(path, policy)
    yield from _guard_mentions(call, derived, place, policy)
    is_elsewhere = _is_named_elsewhere(call, texts) or packs_more(call.name, texts)
    is_doubtful = not is_complete or call.lists_files or is_elsewhere
    arguments = tuple(word.text for word in call.words)
    if is_doubtful and _has_rules(policy, *call.tools):
        yield doubt(policy, *call.tools)
    elif _has_rules(policy, "Read") and shows_files(call.name, arguments, is_known=is_complete):
        yield doubt(policy, "Read")
    yield from _guard_protected(call, place, policy, is_complete=is_complete)
    yield from _guard_find(call, place, policy)
    if call.changed_trees and policy.has_file_rules:
        yield from _guard_trees(call, place, policy)


def _guesses(texts: Iterable[str]) -> list[str]:
    """Return the paths that texts may contain, also without the ending of a packed file."""
    found = [guess for text in texts for guess in guess_paths(text)]
    return list(dict.fromkeys((*found, *filter(None, map(without_ending, found)))))


def _is_named_elsewhere(call: ProgramCall, texts: list[str]) -> bool:
    """Return whether it writes files whose names are not, or not literally, in its arguments."""
    return is_named_elsewhere(call.name, call.words) or makes_up_names(call.name, texts)


def _guard_trees(call: ProgramCall, place: Path | None, policy: Policy) -> Iterator[AccessDecision]:
    """Check directories that git changes: `git rm -r docs` removes what `rm -r docs` does."""
    try:
        folders = [path_in(text, place) for text in arguments_in(call.changed_trees, place)]
    except UnknownValue:
        # The directory is only known when the command runs: it may be any working directory.
        folders = list(policy.places)
    yield from restrictions_below(folders, policy, WRITING, "Edit")


def _known_texts(words: tuple[Word, ...], place: Path | None) -> tuple[list[str], bool]:
    """Return the known arguments, and whether all are known."""
    texts, is_complete = list[str](), True
    for word in words:
        try:
            texts += arguments_in((word,), place)
        except UnknownValue:
            is_complete = False
            texts += [word.text] if HOLE not in word.text else []
    return texts, is_complete


def _guard_guess(
    call: ProgramCall, path: Path, is_named: bool, policy: Policy
) -> Iterator[AccessDecision]:
    """Check a text that looks like a path; `is_named` is true if it is a whole argument."""
    if found := restricted(path, policy, READING):
        is_sure = is_named and (call.name in CONTENT_READERS or call.name in WRITERS)
        is_sure &= is_there(path)  # or it may be a program, as in `perl -e 's/secret/x/'`
        yield found if is_sure else AccessDecision(VerdictKind.ASK, found.reason, is_firm=True)
    if is_named and call.name in COPYING | RECURSING and _has_rules(policy, "Read"):
        yield from _guard_packing(path, policy)
    if is_named and call.name in WRITERS | RECURSING and policy.has_file_rules:
        yield from restrictions_below([path], policy, WRITING, "Edit")
    if not call.can_write or not _has_rules(policy, "Edit"):
        return
    if found := restricted(path, policy, WRITING, "Edit"):
        is_sure = is_named and call.name in WRITERS
        yield found if is_sure else AccessDecision(VerdictKind.ASK, found.reason, is_firm=True)


def _guard_packing(path: Path, policy: Policy) -> Iterator[AccessDecision]:
    """Check all files that a program copies or packs along with a directory."""
    try:
        folders = list(with_linked(path)) if may_be_folder(path) else []
    except UnknownValue:
        yield doubt(policy, "Read")
        return
    yield from restrictions_below(folders, policy, READING, "Read")


def _guard_mentions(
    call: ProgramCall, derived: list[str], place: Path | None, policy: Policy
) -> Iterator[AccessDecision]:
    """Ask if an argument, or the command around an interpreter, names a denied file."""
    texts, joined = [*call.texts, *derived], call.joined_texts
    for rule in (*policy.deny, *policy.ask):
        is_about = rule.tool == "Read" or rule.tool in call.tools
        if is_about and (mentions_rule(rule, texts) or mentions_rule(rule, joined, anywhere=True)):
            yield may_apply(rule)
    if policy.has_file_rules:
        yield from restricted_links(texts, joined, place, policy, writes=call.can_write)


def _guard_protected(
    call: ProgramCall, place: Path | None, policy: Policy, *, is_complete: bool
) -> Iterator[AccessDecision]:
    """Ask if a call may write a protected file that it names, or that an unknown argument names."""
    if not call.may_write:
        return
    texts, _ = _known_texts(call.written, place)
    if (not is_complete and call.is_writer) or _is_named_elsewhere(call, texts):
        yield unknown_files(UNKNOWN_TARGET, policy)
    derived = derived_names(call.name, texts)
    for text in _guesses([*texts, *derived])[:MOST_GUESSES]:
        with suppress(UnknownValue):
            path = path_in(text, place)
            is_sure = call.is_writer or path.name not in AMBIGUOUS_NAMES
            if is_sure and is_guarded(path, policy.directories, policy.added_path):
                yield AccessDecision(VerdictKind.ASK, f"{path} is protected", is_guarded=True)
    # `for f in .envrc; do any-program "$f"; done` names it outside of the call; input may too.
    around = [call.around] if call.is_instructed or not is_complete else []
    written = replace(call, words=call.written, around="")
    named, joined = [*around, *written.texts, *derived], written.joined_texts
    if mentions_protected(named) or mentions_protected(joined, anywhere=True):
        yield AccessDecision(VerdictKind.ASK, "it names a protected file", is_guarded=True)
    yield from protected_links(named, joined, place, policy)


def _guard_find(call: ProgramCall, place: Path | None, policy: Policy) -> Iterator[AccessDecision]:
    """Check the files that find may remove, below the directories where it starts."""
    if call.name != "find":
        return
    pattern = name_pattern(call.words)
    for word in removed_by(call.name, call.words):
        try:
            folders = [path_in(text, place) for text in arguments_in((word,), place)]
            entries = [(each, below) for each in folders for below in entries_below(each, NAMES)]
        except UnknownValue:
            yield unknown_files(UNKNOWN_TARGET, policy)
            continue
        matching = [each for each in entries if fnmatchcase(each[1].name.casefold(), pattern)]
        yield from _guard_removals(matching, policy)


def _guard_removals(
    entries: list[tuple[Path, os.DirEntry[str]]], policy: Policy
) -> Iterator[AccessDecision]:
    """Yield findings about the first restricted and the first protected file to be removed."""
    named = [names_below(folder, entry) for folder, entry in entries]
    checked = (restricted_names(names, policy, WRITING, "Edit") for names in named)
    if found := next(filter(None, checked), None):
        yield AccessDecision(VerdictKind.ASK, found.reason, is_firm=True)
    protected = (names for names in named if any(map(has_protected_part, names)))
    if names := next(protected, None):
        yield AccessDecision(VerdictKind.ASK, f"{names[0]} is protected", is_guarded=True)


def _restrictions(
    paths: Iterable[Path], policy: Policy, denying: tuple[str, ...], asking: str
) -> Iterator[AccessDecision]:
    for path in paths:
        if found := restricted(path, policy, denying, asking):
            yield found


def _has_rules(policy: Policy, *tools: str) -> bool:
    return any(rule.tool in tools for rule in (*policy.deny, *policy.ask))
