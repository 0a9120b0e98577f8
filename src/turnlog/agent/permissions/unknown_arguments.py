"""Arguments that bash or another program fills in, and that may make a program run another one.

`ld.so /usr/bin/cu?l` runs curl, and so may `find . $(cat x)` and `sed "$(cat x)"`: options and
scripts name programs. Names of files and commits, dates and process ids do not, nor do arguments of
programs that run none.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import product

from turnlog.agent.permissions.bash import (
    HOLE,
    SimpleCommand,
    UnknownValue,
    Word,
    expand_glob,
    is_there,
)
from turnlog.agent.permissions.launchers import (
    PLAIN_TEXT,
    QUIET_SUBCOMMANDS,
    name_of,
    runs_given_text,
    without_wrappers,
)
from turnlog.agent.permissions.program_calls import without_messages
from turnlog.agent.permissions.program_options import PROGRAM_OPTIONS
from turnlog.agent.permissions.programs import NEVER_WRITING, REMOVERS
from turnlog.agent.permissions.restrictions import names_program, programs_of, takes_data
from turnlog.agent.permissions.rules import COMMANDS, Rule
from turnlog.agent.permissions.shell_command import ShellCommand
from turnlog.agent.permissions.variable_values import values_of
from turnlog.agent.permissions.working_directories import path_in

RUNNING_NONE = frozenset(NEVER_WRITING | REMOVERS) | frozenset(
    """
    b2sum base64 basename bunzip2 bzip2 chgrp chmod chown cksum column comm cp csplit dd diff
    dirname dos2unix expand fold getent gunzip gzip hexdump id join jq killall ln mkdir mkfifo
    mktemp mv nproc numfmt od paste pgrep pidof pkill pr printenv ps shasum shred shuf strings sum
    sync tee touch truncate tsort uname unexpand uniq unlink unxz unzstd uuidgen which who whoami
    xxd xz yes zcat zstd
    """.split()
)
"""Programs without an option that runs another one."""
RUNNING = PROGRAM_OPTIONS.keys() | frozenset(
    """
    ant c++ cargo cc clang clang++ cmake find g++ gcc git gmake go gradle gsed javac just ld make
    meson mvn ninja npm pnpm rake rustc sed strip task vimdiff yarn
    """.split()
)
"""Programs that run others, as an option or a script says."""
PRINTED = re.compile(
    r"""(?:["]?\$\((?:
    git\ (?:branch\ --show-current|config\ --get\ [\w.-]+|describe|diff|log\ [-\w\ ]*--format=%[Hh]
      |ls-files|merge-base|remote\ get-url\ \w+|rev-list|rev-parse|stash\ list|status
      |symbolic-ref|tag)
    |(?:docker|podman)\ (?:container\ ls|image\ ls|images|ps|volume\ ls)
    |basename|command\ -v|date|dirname|fd|find|hostname|id|ls|mktemp|nproc|pgrep|pidof|pwd|realpath
    |rg\ (?:-l|--files)|grep\ -[a-zA-Z]*l[a-zA-Z]*|seq|type\ -P|uname|wc|which|whoami
    )(?:[ ][^()`;&|%<>]*)?\)["]?)+""",
    re.X,
)
"""Substitutions that print names, numbers or dates, not a text that an argument chooses."""
LISTS = re.compile(
    r"""(?:fd|ls|find(?!.*-printf)|git\ (?:ls-files|diff\ .*--name-only)|rg\ (?:-l|--files)
    |grep\ -[a-zA-Z]*l|sort|uniq|head|tail)(?:\ .*)?""",
    re.X | re.S,
)
"""Commands whose output `xargs` may get: they print names of files."""
VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
TEXT_OPTION = re.compile(r"-[bdmnt]|--(?:body|data|description|message|name|notes|title)")
"""Options that are followed by text, in programs that are not known to run others."""
PLACING = frozenset("cp dd install ln mv tee".split())
"""Programs that put a file in place, which another part of the command may run."""
MOST_TEXTS = 64


def may_run(rule: Rule, command: ShellCommand) -> bool:
    """Return whether an argument that is not literally known may run the program of a rule."""
    programs = programs_of(rule) if rule.tool == COMMANDS else set[str]()
    parts = [each.part for each in command.inner if each.part.words]
    if not programs or all(part.is_test for part in parts):
        return False
    values = values_of(command)
    if not all(map(takes_data, parts)):
        words = [word for part in parts for word in part.words]
        # `$x` expands the pattern that an assignment or a loop gives to `x`.
        words += [word for given in values.values() for word in given]
        if _globs_name(programs, words, command):
            return True
    if _runs_placed(parts, programs, values, command):
        return True
    return any(_may_run(part, programs, values, command) for part in parts if not part.is_test)


def _globs_name(programs: set[str], words: list[Word], command: ShellCommand) -> bool:
    """Return whether a pattern in the command matches a program: `ln -s /usr/bin/cu?l x; ./x`."""
    globs = {word for word in words if word.has_glob}
    texts = {text for word in globs for text in _matches(word, programs, command)}
    return any(names_program(text, name) for text in texts for name in programs)


def _matches(word: Word, programs: set[str], command: ShellCommand) -> Iterator[str]:
    for place in command.places:
        try:
            if place is None and not word.text.startswith("/"):
                raise UnknownValue(word.source)
            found = expand_glob(word, place or command.policy.cwd).arguments
            if found == (word.text,):
                raise UnknownValue(word.source)  # the command may create what it matches
            yield from found
        except UnknownValue:
            last = word.text.rpartition("/")[2].lower()
            pattern = re.sub(rf"\[.*?\]|[{HOLE}\[]", "*", last)
            yield from (name for name in programs if fnmatchcase(name, pattern))


def _may_run(
    part: SimpleCommand,
    programs: set[str],
    values: Mapping[str, Sequence[Word]],
    command: ShellCommand,
) -> bool:
    words = without_wrappers(part.words)
    name = name_of(words[0])
    given = without_messages(name, words[1:])
    if not any(HOLE in word.text for word in given) or _runs_none(name, given):
        return False
    runs = name in RUNNING or runs_given_text(name)
    for before, word in zip((words[0], *given), given, strict=False):
        if HOLE not in word.text or _is_filename(word, part, command):
            continue
        # A program that is not known to run others does so by an option, if at all.
        is_option = word.may_split or word.text.startswith(HOLE)
        is_text = not word.may_split and TEXT_OPTION.fullmatch(before.text)
        if not runs and (not is_option or is_text):
            continue
        if not _is_plain(word, programs, values):
            return True
    return False


def _runs_placed(
    parts: list[SimpleCommand],
    programs: set[str],
    values: Mapping[str, Sequence[Word]],
    command: ShellCommand,
) -> bool:
    """Return whether a command runs a file that may be the program: `ln -s "$(…)" x; ./x`."""
    placing = [words for words in map(_words_of, parts) if name_of(words[0]) in PLACING]
    placed = {
        word.text.rpartition("/")[2]
        for words in placing
        for word in words
        if any(HOLE in each.text and not _is_plain(each, programs, values) for each in words)
    }
    started = [words[0].text for words in map(_words_of, parts) if "/" in words[0].text]
    return bool(placed) and any(_is_new(each, placed, command) for each in started)


def _is_new(program: str, placed: set[str], command: ShellCommand) -> bool:
    """Return whether a file does not exist yet, or has the name of one that is put in place."""
    if program.rpartition("/")[2] in placed:
        return True
    try:
        return not any(is_there(path_in(program, place)) for place in command.places)
    except UnknownValue:
        return True


def _words_of(part: SimpleCommand) -> tuple[Word, ...]:
    return without_wrappers(part.words)


def _runs_none(name: str, given: tuple[Word, ...]) -> bool:
    if name in RUNNING_NONE:
        return True
    return bool(given) and given[0].text in QUIET_SUBCOMMANDS.get(name, ())


def _is_filename(word: Word, part: SimpleCommand, command: ShellCommand) -> bool:
    """Return whether `find` or `xargs` puts the name of a file in place of a word."""
    if word.source:
        return False
    if not word.may_split:
        return True  # `{}` in `find -exec`
    others = [each.part for each in command.inner if each.part.words and each.part is not part]
    feeding = [each for each in others if name_of(each.words[0]) != "xargs" and each.source]
    return bool(feeding) and all(LISTS.fullmatch(each.source) for each in feeding)


def _is_plain(word: Word, programs: set[str], values: Mapping[str, Sequence[Word]]) -> bool:
    """Return whether a word names no program, whatever is filled in."""
    if PRINTED.fullmatch(word.source):
        return True
    found = [each[1] or each[2] for each in VARIABLE.finditer(word.source)]
    if not found or len(found) != word.text.count(HOLE):
        return bool(PLAIN_TEXT.fullmatch(word.source)) and not found
    choices = [_texts(name, values) for name in found]
    if any(each is None for each in choices):
        return False
    known = [each or [""] for each in choices]
    texts = product(*known) if len(known) == 1 or len(known[0]) < MOST_TEXTS else ()
    pieces = word.text.split(HOLE)
    for rank, chosen in enumerate(texts):
        text = "".join(a + b for a, b in zip(pieces, (*chosen, ""), strict=True))
        if rank == MOST_TEXTS or any(names_program(text, name) for name in programs):
            return False
    return True


def _texts(name: str, values: Mapping[str, Sequence[Word]]) -> list[str] | None:
    """Return the texts that a variable may hold; None if they are not known.

    A variable that the command does not set is the user's own.
    """
    given = values.get(name, ())
    if not PLAIN_TEXT.fullmatch(f"${name}") and name != "PWD":
        return None
    if all(HOLE not in each.text or PRINTED.fullmatch(each.source) for each in given):
        return [each.text for each in given]
    return None
