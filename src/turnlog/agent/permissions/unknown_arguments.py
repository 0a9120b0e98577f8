"""Arguments that bash or another program fills in, and that may make a program run another one.

`ld.so /usr/bin/cu?l` runs curl, and so may `find . $(cat x)` and `sed "$(cat x)"`: options and
scripts name programs. Numbers and dates do not, nor do names of files and commits where a program
takes one, nor arguments of programs that run none.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    GIT_PROGRAM,
    PLAIN_TEXT,
    QUIET_SUBCOMMANDS,
    name_of,
    runs_given_text,
    without_wrappers,
)
from turnlog.agent.permissions.printed_text import (
    Filling,
    is_listed,
    lists_own_files,
    split_source,
)
from turnlog.agent.permissions.program_calls import FINDERS, FOUND, without_messages
from turnlog.agent.permissions.program_options import PROGRAM_OPTIONS
from turnlog.agent.permissions.program_options import names_program as names_option
from turnlog.agent.permissions.programs import NEVER_WRITING, REMOVERS, may_run_program
from turnlog.agent.permissions.restrictions import (
    DATA_SUBCOMMANDS,
    PLAIN_OPTIONS,
    SCRIPT_RUNNERS,
    names_program,
    programs_of,
    takes_data,
)
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
AWKS = frozenset("awk gawk mawk nawk".split())
SCRIPT_FILE = {
    **dict.fromkeys(AWKS, re.compile(r"-[Efi].*|--(?:fi|exec|inc).*", re.S)),
    **dict.fromkeys(("gsed", "sed"), re.compile(r"-[nErsuzb]*f.*|--fi.*", re.S)),
}
"""Options that take a script from a file, which may run any program as `bash FILE` does."""
AWK_START = re.compile(r"(?:-F\n.*\n|-v\n.*\n|-[Fv].+\n)*+(?!-)(?s:.+)\n(?!-)")
"""The arguments in front of the files: options and the program."""
TAKING_COMMANDS = AWKS | frozenset(
    """
    ant cmake find gmake gradle just make meson mvn ninja npm pnpm rake task yarn
    """.split()
)
"""Programs whose operands are targets, subcommands, variables or expressions."""
TAKING_NAMES = DATA_SUBCOMMANDS["git"] | frozenset(
    "blame cherry format-patch grep merge-base rebase rev-list shortlog worktree".split()
)
"""Subcommands of git whose operands are files or commits."""
COMPILERS = frozenset("c++ cc clang clang++ g++ gcc rustc".split())
PATH = re.compile(rf"(?!-)[\w./~+:@{HOLE}-]*")
"""Text around a name that leaves it the name of a file or commit."""
PLACEHOLDER = re.compile(r"\{(?:|/|//|\.|/\.)\}")
"""What `fd -x` replaces with the name of a file, or with a part of it."""
TEXT_OPTION = re.compile(r"-[bdmnt]|--(?:body|data|description|message|name|notes|title)")
"""Options that are followed by text, in programs that are not known to run others."""
PLACING = frozenset("cp dd install link ln mv rsync scp tee".split())
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
    parts += [each for part in parts for each in _found_by_fd(part)]
    return any(_may_run(part, programs, values, command) for part in parts if not part.is_test)


def _found_by_fd(part: SimpleCommand) -> Iterator[SimpleCommand]:
    """Yield the command that `fd -x` runs for each file that it finds."""
    words = without_wrappers(part.words)
    if name_of(words[0]) not in FINDERS:
        return
    rank = next((n for n, word in enumerate(words) if FOUND.fullmatch(word.text)), len(words))
    given = [Word(PLACEHOLDER.sub(HOLE, word.text)) for word in words[rank + 1 :]]
    if given and not any(HOLE in word.text for word in given):
        given.append(Word(HOLE))
    if given:
        yield SimpleCommand(tuple(given))


def _globs_name(programs: set[str], words: list[Word], command: ShellCommand) -> bool:
    """Return whether a pattern in the command matches a program: `ln -s /usr/bin/cu?l x; ./x`."""
    globs = {word for word in words if word.has_glob}
    texts = {text for word in globs for text in _matches(word, programs, command)}
    # `/usr/lib/git-core/git-p?sh` is `git push`.
    is_git = "git" in programs and any(map(GIT_PROGRAM.fullmatch, texts))
    return is_git or any(names_program(text, name) for text in texts for name in programs)


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
    if (script := SCRIPT_FILE.get(name)) and any(script.fullmatch(each.text) for each in given):
        return True
    if not any(HOLE in word.text for word in given) or _runs_none(name, given):
        return False
    is_runner = name in RUNNING or runs_given_text(name)
    for rank, word in enumerate(given):
        if HOLE not in word.text:
            continue
        before = given[rank - 1] if rank else words[0]
        # A program that is not known to run others does so by an option, if at all.
        is_option = word.may_split or word.text.startswith(HOLE)
        is_text = not word.may_split and TEXT_OPTION.fullmatch(before.text)
        if not is_runner and (not is_option or is_text):
            continue
        filling = _filling(word, part, programs, values, command)
        if filling is Filling.ANYTHING:
            return True
        if filling is Filling.NAME and not _takes_file(name, given, rank, command):
            return True
    return False


def _runs_placed(
    parts: list[SimpleCommand],
    programs: set[str],
    values: Mapping[str, Sequence[Word]],
    command: ShellCommand,
) -> bool:
    """Return whether a command runs a file that may be the program: `ln -s "$(…)" x; ./x`."""
    given = [word for part in parts for word in part.words]
    redirects = [each for part in parts for each in part.redirects]
    given += [each.target for each in redirects]
    if not any(HOLE in each.text and _may_name(each, programs, values) for each in given):
        return False
    placed = {each.target.text for each in redirects if each.is_write}
    for words in map(_words_of, parts):
        if name_of(words[0]) in PLACING:
            placed |= {word.text for word in words}
    names = {text.rpartition("/")[2] for text in placed}
    started = [words[0].text for words in map(_words_of, parts) if "/" in words[0].text]
    is_placed = bool(names) or not lists_own_files(command)
    return is_placed and any(_is_new(each, names, command) for each in started)


def _may_name(word: Word, programs: set[str], values: Mapping[str, Sequence[Word]]) -> bool:
    filling = _printed(word, programs, values) if word.source else Filling.ANYTHING
    return filling in (Filling.NAME, Filling.ANYTHING)


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


def _filling(
    word: Word,
    part: SimpleCommand,
    programs: set[str],
    values: Mapping[str, Sequence[Word]],
    command: ShellCommand,
) -> Filling:
    """Return what may be filled into a word, also by `find` or `xargs`."""
    if word.source:
        return _printed(word, programs, values)
    # `{}` in `find -exec` is one file; `xargs` adds what it reads.
    is_name = not word.may_split or is_listed(part, command)
    filling = Filling.NAME if is_name else Filling.ANYTHING
    return _unless_named(filling, [word.text], programs)


def _printed(word: Word, programs: set[str], values: Mapping[str, Sequence[Word]]) -> Filling:
    """Return what may be filled into a word; NOTHING if no choice names a program."""
    if PLAIN_TEXT.fullmatch(word.source) and "$" not in word.source:
        return Filling.NOTHING
    filling, found = split_source(word)
    if filling is Filling.ANYTHING or not found:
        return _unless_named(filling, [word.text], programs)
    choices = [_texts(name, values) for name in found]
    if any(each is None for each in choices):
        return Filling.ANYTHING
    known = [each or [Word("")] for each in choices]
    given = [each for texts in known for each in texts if HOLE in each.text]
    printed = [split_source(each)[0] for each in given]
    filling = max((filling, *printed), key=lambda each: each.value)
    if filling is not Filling.NOTHING and word.text.count(HOLE) != len(found):
        is_own = not any(values.get(name) for name in found)
        return _unless_named(filling if is_own else Filling.ANYTHING, [word.text], programs)
    texts = product(*known) if len(known) == 1 or len(known[0]) < MOST_TEXTS else ()
    pieces, filled = word.text.split(HOLE), list[str]()
    for rank, chosen in enumerate(texts):
        if rank == MOST_TEXTS:
            return Filling.ANYTHING
        behind = (*(each.text for each in chosen), "")
        filled.append("".join(a + b for a, b in zip(pieces, behind, strict=True)))
    return _unless_named(filling, filled, programs)


def _unless_named(filling: Filling, texts: Iterable[str], programs: set[str]) -> Filling:
    """Return what may be filled in; ANYTHING if a text names a program, or is more than a path.

    `python$(id -u)` may be `python3`, so numbers count as filled in.
    """
    named = {*programs, *(re.sub(r"[0-9]+", HOLE, name) for name in programs)}
    for text in texts:
        if any(names_program(text, name) for name in named):
            return Filling.ANYTHING
        if filling is Filling.NAME and not PATH.fullmatch(text):
            return Filling.ANYTHING
    return filling


def _texts(name: str, values: Mapping[str, Sequence[Word]]) -> list[Word] | None:
    """Return the values that a variable may have; None if they are not known.

    A variable that the command does not set is the user's own.
    """
    given = values.get(name, ())
    if not PLAIN_TEXT.fullmatch(f"${name}") and name != "PWD":
        return None
    known = [each for each in given if HOLE not in each.text or _is_printed(each)]
    return known if len(known) == len(given) else None


def _is_printed(word: Word) -> bool:
    filling, found = split_source(word)
    return filling is not Filling.ANYTHING and not found


def _takes_file(name: str, given: tuple[Word, ...], rank: int, command: ShellCommand) -> bool:
    """Return whether a program takes an operand for a file: no script, command, or option value."""
    before = given[rank - 1].text if rank else ""
    earlier = [word.text for word in given[:rank]]
    if name in ("sed", "gsed"):
        return not may_run_program(tuple(word.text.replace(HOLE, "e") for word in given))
    if name in PROGRAM_OPTIONS:
        return not names_option(name, [word.text for word in given])
    if name in AWKS:
        is_behind = AWK_START.match("\n".join((*earlier, ""))) and not before.startswith("-")
        return bool(is_behind) and lists_own_files(command)
    if name in SCRIPT_RUNNERS and "--" in earlier and earlier[0] in DATA_SUBCOMMANDS[name]:
        return lists_own_files(command)  # the script gets it
    if name in TAKING_COMMANDS:
        return False
    is_valued = before.startswith("-") and before != "--"
    if name == "git":
        is_known = bool(earlier) and earlier[0] in TAKING_NAMES
        return is_known and (not is_valued or before in PLAIN_OPTIONS)
    if name in COMPILERS:
        return not is_valued or before in ("-c", "-o")
    # `perl -e 'exec @ARGV' x` and a launcher that is not known run an operand.
    is_option = is_valued and (name in RUNNING or runs_given_text(name))
    return not is_option and lists_own_files(command)
