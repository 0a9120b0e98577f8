"""Programs whose arguments are a small language: find, printf, test, date, cd, set and command."""

import re
from collections.abc import Callable

from turnlog.agent.permissions.programs.awk import read_awk
from turnlog.agent.permissions.programs.jq import read_jq
from turnlog.agent.permissions.programs.sed import read_sed
from turnlog.agent.permissions.programs.usage import (
    ProgramEffect,
    ProgramUsage,
    effect_of,
    parse_arguments,
)

FIND_TESTS = {
    **dict.fromkeys(
        """
        -amin -anewer -atime -cmin -cnewer -ctime -gid -group -iname -inum -ipath -iregex -links
        -maxdepth -mindepth -mmin -mtime -name -newer -path -perm -printf -regex -regextype -size
        -type -uid -user -wholename -xtype
        """.split(),
        1,
    ),
    **dict.fromkeys(
        """
        -a -and -daystart -depth -empty -executable -false -ls -mount -not -o -or -print -print0
        -prune -quit -readable -true -writable -xdev ! ( ) ,
        """.split(),
        0,
    ),
}
"""The tests and actions of find that only read, mapped to the number of arguments they take."""
# Not `%n`, which stores a number in the variable that the argument names. `%*d` and `%(…)T` are
# left out because nothing needs them.
PRINTF_FORMAT = re.compile(
    r"(?:[^%\\]|\\[abefnrtvx0-7\\'\"?]|%%"
    r"|%[-+ 0#]*(?:[1-9][0-9]*)?(?:\.[0-9]+)?[bcdeEfFgGiosuxXq])*",
    re.S,
)
UNARY = frozenset(f"-{letter}" for letter in "bcdefghknprstuwxzGLNOS")
BINARY = frozenset("= == != =~ < > -nt -ot -ef".split())
NUMERIC = frozenset("-eq -ne -lt -le -gt -ge".split())
INTEGER = re.compile(r"-?[0-9]+")
SHELL_OPTIONS = re.compile(
    r"(?:-[eEu]+|-[eEu]*o (?:errexit|nounset|pipefail))"
    r"(?: -[eEu]+| -[eEu]*o (?:errexit|nounset|pipefail))*+"
)
EXIT_CODE = re.compile(r"[0-9]{1,3}", re.ASCII)
JOINING = frozenset("! ( ) -a -o && ||".split())
ZONE_FILE = "TZ="
"""The start of a time zone in a date."""
DATE = ProgramUsage(
    "uR", "d", "iso-8601 rfc-email utc universal", "date rfc-3339", operands="format"
)


def read_find(arguments: tuple[str, ...]) -> ProgramEffect | None:
    """Accept paths, then tests and actions that only read."""
    if arguments[:1] == (",",):
        return None  # GNU find takes it for a path here, and for an operator elsewhere
    starts = 0
    while starts < len(arguments) and not arguments[starts].startswith(("-", "!", "(", ",")):
        starts += 1
    rank = starts
    while rank < len(arguments):
        if arguments[rank] not in FIND_TESTS:
            return None
        rank += 1 + FIND_TESTS[arguments[rank]]
    roles = ("path",) * starts + ("expression",) * (len(arguments) - starts)
    return (
        ProgramEffect(reads=arguments[:starts] or (".",), roles=roles, lists_below=True)
        if rank == len(arguments)
        else None
    )


def read_cd(arguments: tuple[str, ...]) -> ProgramEffect | None:
    """Accept one directory, but neither `cd -` nor options."""
    is_plain = len(arguments) == 1 and arguments[0] and not arguments[0].startswith("-")
    return ProgramEffect(reads=arguments, roles=("path",)) if is_plain else None


def read_command(arguments: tuple[str, ...]) -> ProgramEffect | None:
    """Accept `command -v`, which prints where a program is."""
    return ProgramEffect() if arguments[:1] in (("-v",), ("-V",)) else None


def read_date(arguments: tuple[str, ...]) -> ProgramEffect | None:
    """Accept an output format; an operand without `+` would set the clock.

    With `-d 'TZ="/x" 0'`, date opens `/x`.
    """
    found = parse_arguments(arguments, DATE)
    if (
        found is None
        or any(ZONE_FILE in each for each in arguments)
        or not all(each.startswith("+") for each in found.operands)
    ):
        return None
    return effect_of(arguments, DATE)


def read_echo(arguments: tuple[str, ...]) -> ProgramEffect | None:
    return ProgramEffect(roles=("text",) * len(arguments))


def read_exit(arguments: tuple[str, ...]) -> ProgramEffect | None:
    """Accept a literal exit code, or none."""
    is_plain = not arguments or (len(arguments) == 1 and EXIT_CODE.fullmatch(arguments[0]))
    return ProgramEffect(roles=("exit code",) * len(arguments)) if is_plain else None


def read_printf(arguments: tuple[str, ...]) -> ProgramEffect | None:
    """Accept a format without `%n` and without `-v`, which set variables."""
    if not arguments or arguments[0].startswith("-") or not PRINTF_FORMAT.fullmatch(arguments[0]):
        return None
    return ProgramEffect(roles=("format", *("text",) * (len(arguments) - 1)))


def read_test(arguments: tuple[str, ...]) -> ProgramEffect | None:
    return (
        ProgramEffect(roles=("condition",) * len(arguments))
        if is_plain_condition(arguments)
        else None
    )


def read_bracket(arguments: tuple[str, ...]) -> ProgramEffect | None:
    return read_test(arguments[:-1]) if arguments[-1:] == ("]",) else None


def is_plain_condition(words: tuple[str, ...]) -> bool:
    """Return whether a condition only compares text or literal numbers, and tests files.

    `-v` and, inside of `[[`, the numeric operators evaluate array subscripts, which can run
    commands: `[[ 'a[$(id)]' -eq 0 ]]`. So both operands of a numeric comparison must be literal.

    >>> is_plain_condition(("-f", "x", "-a", "a", "=", "b")), is_plain_condition(("-v", "x"))
    (True, False)
    """
    rank = 0
    while rank < len(words):
        if words[rank] in JOINING and rank < len(words) - 1:
            rank += 1
        elif words[rank + 1 : rank + 2] and words[rank + 1] in BINARY | NUMERIC:
            pair = (words[rank], *words[rank + 2 : rank + 3])
            is_text = words[rank + 1] in BINARY
            if len(pair) < 2 or not (is_text or all(map(INTEGER.fullmatch, pair))):
                return False
            rank += 3
        elif words[rank] in UNARY and rank + 1 < len(words):
            rank += 2
        elif words[rank].startswith("-"):
            return False
        else:
            rank += 1
    return True


def read_set(arguments: tuple[str, ...]) -> ProgramEffect | None:
    """Accept the options of bash that make a command stop early, but no positional parameters.

    `-x` and `-v` print values of variables, `-a` exports them, `-o posix` changes the grammar.

    >>> [bool(read_set(tuple(each.split()))) for each in ("-euo pipefail", "-eu", "-x", "-e -- x")]
    [True, True, False, False]
    """
    is_split = not any(" " in each for each in arguments)
    is_plain = is_split and SHELL_OPTIONS.fullmatch(" ".join(arguments)) is not None
    return ProgramEffect(roles=("option",) * len(arguments)) if is_plain else None


EXPRESSIONS: dict[str, Callable[[tuple[str, ...]], ProgramEffect | None]] = {
    "[": read_bracket,
    "awk": read_awk,
    "cd": read_cd,
    "command": read_command,
    "date": read_date,
    "echo": read_echo,
    "exit": read_exit,
    "find": read_find,
    "jq": read_jq,
    "printf": read_printf,
    "sed": read_sed,
    "set": read_set,
    "test": read_test,
}
DESCRIPTIONS = {
    "[": ("file tests, comparisons of text and of literal numbers", "condition"),
    "awk": ("`-F value`", "[one `print` of fields](#sed-awk-jq-and-git); path..."),
    "cd": ("none", "one directory"),
    "command": ("`-v`, `-V`", "names"),
    "date": ("`-u`, `-R`, `-d`, `--utc`, `--date`, `--iso-8601`, `--rfc-email`", "`+format`"),
    "echo": ("any", "text"),
    "exit": ("none", "exit code"),
    "find": ("tests, `-print`, `-print0`, `-printf`, `-ls`, `-prune`, `-quit`", "path..."),
    "jq": (
        "`-aceCjMnrsS` and their long names",
        "[filter of paths, operators and functions such as `keys`](#sed-awk-jq-and-git); path...",
    ),
    "printf": ("none", "format without `%n`, `%*`, `%(…)T`; text..."),
    "sed": (
        "`-n -E -r -s -u -z -e`",
        "[one `s///`, or `p`, `d`, `q` and `=`](#sed-awk-jq-and-git); path...",
    ),
    "set": ("`-e`, `-E`, `-u`, `-o errexit`, `-o nounset`, `-o pipefail`", "none"),
    "test": ("as `[`", "condition"),
}
"""Options and operands, for the generated documentation."""
