"""Detect commands in which one part may change files that another part reads.

A verdict looks at the disk before anything runs. In `git checkout evil && cat notes.txt` the first
part may turn `notes.txt` into a link, so the verdict about the second would be about another file.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from turnlog.agent.permissions.bash import (
    Script,
    SimpleCommand,
    UnknownValue,
    Word,
    is_folder,
    is_link,
)
from turnlog.agent.permissions.launchers import without_wrappers
from turnlog.agent.permissions.links import links_on
from turnlog.agent.permissions.policy import AccessDecision, Policy, VerdictKind
from turnlog.agent.permissions.program_calls import without_messages
from turnlog.agent.permissions.programs import (
    CONTENT_READERS,
    READERS,
    WRITERS,
    ProgramEffect,
    change_files,
    read_files,
)
from turnlog.agent.permissions.removals import Places
from turnlog.agent.permissions.restrictions import DATA_SUBCOMMANDS
from turnlog.agent.permissions.working_directories import MOVES, arguments_in, path_in

NOT_FILES = frozenset(("/dev/null",))
STATUS = re.compile(r"\"?[\w .,:=()%/-]*\$\?[\w .,:=()%/-]*\"?", re.ASCII)
"""An argument of echo that contains `$?` and is otherwise fixed."""
INPUT = Word("-")
LINKLESS = frozenset("cp mkdir rm rmdir tee touch".split())
"""Programs that make and remove files and directories, but make no links."""
STAGING_OPTIONS = frozenset("-A -f -u -v --all --force --update --verbose --".split())
RECURSIVE = re.compile(r"-[^-]*[aRrPd].*|--(?:recursive|archive|no-dereference)")
REASON = "one part may change files that another part uses"


class FileRole(Struct, frozen=True):
    """The use of files by a part of a command."""

    changes: bool
    """True if it may create, change or remove files."""
    only_adds: bool
    """True if it creates no links: afterwards, paths lead where they led before.

    It may also remove files, because only files and directories can take their place.
    """
    touches: bool
    """True if the verdict depends on the files that it uses."""
    paths: tuple[Path, ...]
    is_move: bool = False
    is_finished: bool = True
    """False if it may use files after it has ended, as `trap` and unknown programs may."""


def judge_interference(
    script: Script, places: Places, policy: Policy, is_ruled: Callable[[SimpleCommand], bool]
) -> Iterator[AccessDecision]:
    """Ask about a command if one part may change files that the verdict on another part depends on.

    With file rules, this applies in every mode: a rule would not recognize the changed file.
    """
    has_rules = policy.has_file_rules
    if len(script.parts) < 2 and not script.has_loop:
        return
    try:
        roles = [
            _role_of(part, places, is_free=is_ruled(part) and not has_rules)
            for part in script.parts
        ]
        is_safe = _is_safe(roles, policy, script)
    except UnknownValue:
        is_safe = all(only_reads(part, places) for part in script.parts)
    if not is_safe:
        yield AccessDecision(VerdictKind.ASK, REASON, is_firm=has_rules)


def _is_safe(roles: list[FileRole], policy: Policy, script: Script) -> bool:
    if not any(role.changes for role in roles):
        return True
    later = _unsettled(roles, script)
    for rank, role in enumerate(later):
        others = (
            each
            for place, each in enumerate(later)
            # In `git add x && git commit`, nothing can change `x` before it is added.
            if (place > rank or not (script.is_ordered and each.is_finished))
            and (place != rank or script.has_loop)
        )
        if role.changes and not role.only_adds and any(each.touches for each in others):
            return False
    known = {link for folder in policy.directories for link in links_on(folder)}
    # A link in the path of a `cd` decides where all later parts run.
    checked = [*later, *(role for role in roles if role.is_move)]
    touched = [path for role in checked if role.touches for path in role.paths]
    return all(links_on(path) <= known for path in touched)


def _unsettled(roles: list[FileRole], script: Script) -> list[FileRole]:
    """Return the parts that may still use files when the first change happens."""
    if script.has_loop:
        return roles
    if script.is_ordered:
        first = next(rank for rank, role in enumerate(roles) if role.changes)
        return [*(each for each in roles[:first] if not each.is_finished), *roles[first:]]
    # A leading `cd` has taken effect before anything changes.
    first = next((rank for rank, role in enumerate(roles) if not role.is_move), len(roles))
    return roles[first:]


def _role_of(part: SimpleCommand, places: Places, *, is_free: bool) -> FileRole:
    """Return the role of a part; with `is_free`, the verdict does not depend on files it names."""
    words = without_wrappers(part.words)
    targets = [each.target for each in part.redirects if each.target.text not in NOT_FILES]
    redirected = tuple(path for place in places for path in _paths(targets, place))
    changes = not only_reads(part, places)
    if part.is_test or not words:
        return FileRole(changes, only_adds=True, touches=bool(redirected), paths=redirected)
    if words[0].text in MOVES:
        paths = tuple(path for place in places for path in _paths(words[1:], place))
        found = (*paths, *redirected)
        return FileRole(may_write(part), only_adds=True, touches=True, paths=found, is_move=True)
    named = tuple(path for place in places for path in _named(words, place))
    touches = bool(redirected) or (bool(named) and not is_free)
    only_adds = all(_only_adds(words, place) for place in places)
    is_finished = _is_plain_git(words) or all(_effect_of(words, place) for place in places)
    return FileRole(changes, only_adds, touches, (*named, *redirected), is_finished=is_finished)


def _only_adds(words: tuple[Word, ...], place: Path | None) -> bool:
    name = words[0].text
    if name == "cp" and any(RECURSIVE.fullmatch(word.text) for word in words[1:]):
        return False
    effect = _effect_of(words, place)
    if effect is None:
        return False
    if name == "mv":
        # A moved directory may hold relative links, which then lead elsewhere.
        sources = [path_in(text, place) for text in effect.removes]
        return not any(is_folder(path) or is_link(path) for path in sources)
    return name in LINKLESS or not effect.writes


def _is_plain_git(words: tuple[Word, ...]) -> bool:
    """Return whether the first argument of git is a built-in subcommand, without options."""
    if len(words) < 2 or words[0].text != "git":
        return False
    return words[1].is_known and words[1].text in DATA_SUBCOMMANDS["git"]


def _is_staging(words: tuple[Word, ...]) -> bool:
    """Return whether a part is `git add`, which stores a symlink as such and refuses `link/x`."""
    if not _is_plain_git(words) or words[1].text != "add":
        return False
    return all(word.is_known for word in words) and all(
        word.text in STAGING_OPTIONS for word in words if word.is_option
    )


def _given(words: tuple[Word, ...], places: Places) -> list[tuple[str, ...]]:
    return [arguments_in(effective_words(words), place) for place in places]


def _effect_of(words: tuple[Word, ...], place: Path | None) -> ProgramEffect | None:
    """Return what a program does; None if that is not understood."""
    try:
        arguments = arguments_in(effective_words(words), place)
    except UnknownValue:
        return None
    return read_files(words[0].text, arguments) or change_files(words[0].text, arguments)


def _named(words: tuple[Word, ...], place: Path | None) -> list[Path]:
    """Return the paths that a program uses; if it is unknown, arguments that look like paths."""
    if _is_staging(words):
        return []
    if effect := _effect_of(words, place):
        paths = [path_in(text, place) for text in (*effect.reads, *effect.writes)]
        # Even if another part moves the current directory, `ls` lists the same one.
        return [path for path in paths if effect.is_recursive or path != place]
    # Unknown arguments are left to `guards`, which asks if a rule may cover them.
    given = without_messages(words[0].text, words[1:])
    texts = [word.text for word in given if word.is_known and not word.is_option]
    is_file = words[0].text in WRITERS | CONTENT_READERS
    return [path_in(text, place) for text in texts if is_file or re.search(r"[./]", text)]


def _paths(words: "list[Word] | tuple[Word, ...]", place: Path | None) -> list[Path]:
    return [path_in(text, place) for text in arguments_in(tuple(words), place)]


def only_reads(part: SimpleCommand, places: Places) -> bool:
    """Return whether a part is known to change no files."""
    words = without_wrappers(part.words)
    if may_write(part) or not words:
        return not may_write(part)
    if part.is_test or words[0].text in MOVES:
        return True
    try:
        return all(read_files(words[0].text, arguments) for arguments in _given(words, places))
    except UnknownValue:
        return False


def is_still(inner: Iterable[SimpleCommand], places: Places) -> bool:
    """Return whether nothing that a command runs changes files, waits, or sets variables."""
    return all(
        only_reads(part, places) and not part.assignments and not waits(part) for part in inner
    )


def waits(part: SimpleCommand) -> bool:
    """Return whether a part keeps running, or delays later parts, long after the verdict."""
    words = [word.text for word in without_wrappers(part.words)]
    follows = any(re.match(r"-\w*[fF]|--(?:follow|retry)", text) for text in words[1:])
    return words[:1] == ["sleep"] or (words[:1] == ["tail"] and follows)


def may_write(part: SimpleCommand) -> bool:
    """Return whether a part redirects output to a file, or runs a program known to write files."""
    words = without_wrappers(part.words)
    targets = {each.target.text for each in part.redirects if each.is_write}
    if targets - NOT_FILES or not words:
        return bool(targets - NOT_FILES)
    if words[0].text == "sed":
        return any(word.text.startswith(("-i", "--in-place")) for word in words)
    return words[0].text in WRITERS


def effective_words(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the arguments of a program that matter for what it does.

    For echo, those that match `STATUS` do not. To a program that only reads, `<(…)` is like `-`:
    both stand for the output of a command, which is judged as a part of its own. To others it may
    be a list of files, or a script.
    """
    if words[0].text == "echo":
        return tuple(word for word in words[1:] if not STATUS.fullmatch(word.source))
    if words[0].text not in READERS:
        return words[1:]
    return tuple(INPUT if word.is_input else word for word in words[1:])
