"""What file rules say about a command, whatever else allows it.

Findings from here hold in every mode: paths that a Read or Edit rule denies, protected files, and
removals that take much with them.
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from turnlog.agent.permissions.bash import HOLE, NAMES, Part, Unknown, Word
from turnlog.agent.permissions.directories import arguments_in, entries_below, path_in
from turnlog.agent.permissions.files import READING, WRITING, restricted, restricted_names
from turnlog.agent.permissions.launchers import name_of, without_wrappers
from turnlog.agent.permissions.paths import (
    has_protected_name,
    is_critical,
    is_protected,
    names_below,
)
from turnlog.agent.permissions.policy import Finding, Kind, Policy
from turnlog.agent.permissions.programs import (
    CONTENT_READERS,
    COPYING,
    REMOVERS,
    WRITERS,
    Effect,
    change_files,
    guess_paths,
    read_files,
    shows_files,
)

CHANGING_GIT = frozenset("apply checkout clean mv restore rm stash".split())
Places = tuple[Path | None, ...]
"""Where a command may run; None where that is not known."""


def guard(part: Part, places: Places, policy: Policy) -> Iterator[Finding]:
    """Yield what file rules, and the danger of a removal, have to say about a program."""
    words = without_wrappers(part.words)
    if not words or part.is_test:
        return
    name = name_of(words[0])
    if name in REMOVERS and any(_is_critical(word, places, policy) for word in words[1:]):
        yield Finding(Kind.ASK, "it removes what much depends on", is_firm=True)
    for place in places:
        try:
            arguments, is_known = arguments_in(words[1:], place), True
            effect = read_files(name, arguments) or change_files(name, arguments)
        except Unknown:
            arguments, is_known = tuple(word.text for word in words[1:]), False
            effect = None
        if effect:
            yield from _guard_effect(effect, place, policy)
            continue
        yield from _guard_guesses(name, words[1:], place, policy)
        # Whatever the program is, a pattern that cannot be expanded may match a denied file.
        is_pattern = not is_known and any(word.has_glob for word in words)
        may_show = is_pattern or shows_files(name, arguments, is_known=is_known)
        if may_show and _has_rules(policy, "Read"):
            yield _doubt(policy, "Read")


def _guard_effect(effect: Effect, place: Path | None, policy: Policy) -> Iterator[Finding]:
    try:
        reads = [path_in(text, place) for text in effect.reads]
        writes = written_paths(effect, place)
    except Unknown:
        if _has_rules(policy, "Read", "Edit"):
            yield _doubt(policy, "Read", "Edit")
        return
    yield from _restrictions(reads, policy, READING, "Read")
    yield from _restrictions(writes, policy, WRITING, "Edit")
    for path in filter(is_protected, writes):
        yield Finding(Kind.ASK, f"{path} is protected", is_guarded=True)
    if effect.is_recursive:
        yield from _guard_below(effect, reads, place, policy)
    # Naming a file limits nothing: it may have been a directory, or have had another name, in the
    # revisions that `git log -p -- old` and `git log -p --follow` show.
    if effect.shows_content and _has_rules(policy, "Read"):
        yield _doubt(policy, "Read")


def _guard_below(
    effect: Effect, reads: list[Path], place: Path | None, policy: Policy
) -> Iterator[Finding]:
    """Check everything below the directories that are read, copied, moved or removed."""
    removed = [path_in(text, place) for text in effect.removes]
    if _has_rules(policy, "Read"):
        yield from restrictions_below(reads, policy, READING, "Read")
    if _has_rules(policy, "Read", "Edit"):
        yield from restrictions_below(removed, policy, WRITING, "Edit")
    for folder in filter(_is_folder, removed):
        try:
            entries = entries_below(folder, NAMES)
            found = next((entry.path for entry in entries if has_protected_name(entry.name)), None)
        except Unknown:
            found = f"something below {folder}"
        if found:
            yield Finding(Kind.ASK, f"{found} is protected", is_guarded=True)


def restrictions_below(
    folders: Iterable[Path], policy: Policy, denying: tuple[str, ...], asking: str
) -> Iterator[Finding]:
    """Yield a finding for each directory that contains a file a rule is about."""
    for folder in filter(_is_folder, folders):
        try:
            names = (names_below(folder, entry) for entry in entries_below(folder))
            checked = (restricted_names(each, policy, denying, asking) for each in names)
            found = next(filter(None, checked), None)
        except Unknown:
            yield _doubt(policy, asking)
            continue
        if found:
            yield Finding(Kind.ASK, f"below {folder}: {found.reason}", is_firm=True)


def _is_folder(path: Path) -> bool:
    # Unlike `Path.is_dir`, this takes a name that is too long for a file that is not there.
    return os.path.isdir(path)


def written_paths(effect: Effect, place: Path | None) -> list[Path]:
    """Return what a program writes, including where sources land in a directory."""
    writes = [path_in(text, place) for text in effect.writes]
    if not effect.moved:
        return writes
    target = writes[-1]
    return [*writes, *(target / path_in(text, place).name for text in effect.moved)]


def _guard_guesses(
    name: str, words: tuple[Word, ...], place: Path | None, policy: Policy
) -> Iterator[Finding]:
    """Check what look like paths among the arguments of a call that is not understood."""
    texts = [text for word in words if HOLE not in word.text for text in _texts(word, place)]
    for text in dict.fromkeys(guess for each in texts for guess in guess_paths(each)):
        try:
            path = path_in(text, place)
        except Unknown:
            continue
        is_named = text in texts
        if found := restricted(path, policy, READING):
            kind = found.kind if is_named and name in CONTENT_READERS else Kind.ASK
            yield Finding(kind, found.reason, is_firm=True)
        if is_named and name in COPYING and _has_rules(policy, "Read"):
            yield from restrictions_below([path], policy, READING, "Read")
        if found := restricted(path, policy, WRITING, "Edit"):
            is_sure = is_named and name in WRITERS
            yield found if is_sure else Finding(Kind.ASK, found.reason, is_firm=True)
        if (name in WRITERS or _may_write(name, words)) and is_protected(path):
            yield Finding(Kind.ASK, f"{path} is protected", is_guarded=True)


def _may_write(name: str, words: tuple[Word, ...]) -> bool:
    """Whether a call that is not understood writes, though the program usually reads."""
    if name == "git":
        return bool(words) and words[0].text in CHANGING_GIT
    return name in ("awk", "find", "gawk", "perl", "sort", "uniq")


def _texts(word: Word, place: Path | None) -> tuple[str, ...]:
    try:
        return arguments_in((word,), place)
    except Unknown:
        return (word.text,)


def _restrictions(
    paths: Iterable[Path], policy: Policy, denying: tuple[str, ...], asking: str
) -> Iterator[Finding]:
    for path in paths:
        if found := restricted(path, policy, denying, asking):
            yield found


def _has_rules(policy: Policy, *tools: str) -> bool:
    return any(rule.tool in tools for rule in (*policy.deny, *policy.ask))


def _doubt(policy: Policy, *tools: str) -> Finding:
    rule = next(rule for rule in (*policy.deny, *policy.ask) if rule.tool in (*tools, "Read"))
    return Finding(Kind.ASK, f"{rule.text} may be about it", is_firm=True)


def _is_critical(word: Word, places: Places, policy: Policy) -> bool:
    """Whether removing what a word names would take much with it: a home, a working directory."""
    if word.is_option:
        return False
    if re.search(rf"{HOLE}/[*./]*$", word.text):
        return True
    folder, _, last = word.text.rpartition("/")
    if word.has_glob and re.search(r"[*?\[]", last):
        start = folder or ("/" if word.text.startswith("/") else ".")
        word = Word(start, has_tilde=word.has_tilde)
    roots = (*policy.directories, *filter(None, places))
    for place in places:
        try:
            found = [path_in(text, place) for text in arguments_in((word,), place)]
        except Unknown:
            continue
        if any(is_critical(path, roots) for path in found):
            return True
    return False
