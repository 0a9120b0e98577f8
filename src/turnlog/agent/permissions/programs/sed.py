"""Calls of sed whose scripts every version of sed parses the same way.

Parsers disagree on delimiters inside brackets: GNU sed 4.9 takes `/[/]x/` for one regular
expression; a parser that ignores brackets ends it at the second slash. GNU sed runs `id` for
`/[/s|]/e id;#|x|`, which looks like a substitution to the other parser. So brackets are accepted
only if they contain neither a delimiter, nor a backslash, nor another bracket.
"""

import re
import sys

from msgspec import Struct

from turnlog.agent.permissions.programs.usage import ProgramEffect

DELIMITERS = "/|#,:@"
PLAIN = r"\t -~"
"""ASCII only: in some encodings, the last byte of a character may equal a delimiter."""
FLAGS = re.compile(r"-[nErsuz]+")


def _text_up_to(sign: str) -> str:
    """Return a pattern for a regular expression or a replacement, including its end delimiter."""
    end = re.escape(sign)
    classes = "" if sign == ":" else r"\[:[a-z]+:\]|"
    inside = rf"(?:{classes}(?![]\[\\^{sign}])[{PLAIN}])"
    return rf"(?:\\[{PLAIN}]|\[\^?{inside}+\]|(?![\\\[{sign}])[{PLAIN}])*{end}"


ADDRESS = rf"(?:[0-9]+|\$|/{_text_up_to('/')})"
RANGE = rf"(?:{ADDRESS}(?:,(?:{ADDRESS}|\+[0-9]+))?)?"
SHOWS = re.compile(rf"(?:{RANGE}[pdq=](?:;|\Z))+")
REPLACES = re.compile(
    RANGE
    + rf"s(?:{'|'.join(re.escape(sign) + _text_up_to(sign) * 2 for sign in DELIMITERS)})"
    + r"[gpiI0-9]*"
)
"""Substitutions without the flags `w`, which writes a file, and `e`, which runs a command."""
_PAIRS = "|".join(re.escape(sign) + _text_up_to(sign) * 2 for sign in DELIMITERS)
_WHERE = rf"(?:[0-9]+(?:~[0-9]+)?|\$|/{_text_up_to('/')}[IM]*+)"
_COMMANDS = (
    *("[=dDgGhHlnNpPxzF}]", "[qQ][0-9]*+", rf"s(?:{_PAIRS})[gpiImM0-9]*+", rf"y(?:{_PAIRS})"),
    *("(?::|[btT]) *+[A-Za-z0-9_]*+", r"[rwRW] *+[\w./-]++"),
)
RUNS_NOTHING = re.compile(
    rf"(?:[;\s]*+(?:{_WHERE}(?: *, *(?:{_WHERE}|[+~][0-9]+))? *!? *)?"
    rf"(?:\{{|(?:{'|'.join(_COMMANDS)})(?=[;\s}}]|\Z)|[aic](?:\\\n?)?[^\n\\]*+(?=\n|\Z)))*+[;\s]*+"
)
"""Scripts without the command `e` and the flag `e`, which run a program."""
SCRIPT = re.compile(r"(?:-[nErsuzb]*e|--expression(?:=|\Z))(?P<joined>.*)", re.S)
WIDTH = re.compile(r"-[nErsuzb]*l|--line-length")
"""An option with a number in the next argument."""
WITHOUT_VALUE = re.compile(
    r"-[nErsuzb]+|-[nErsuzb]*(?:i.*|l[0-9]+)|--(?:quiet|silent|debug|follow-symlinks|posix|null-data"
    r"|regexp-extended|separate|sandbox|unbuffered|version|help|in-place(?:=.*)?|line-length=.*)",
    re.S,
)


class SedCall(Struct, frozen=True):
    """A call of sed that shows, deletes or replaces lines."""

    paths: tuple[str, ...]
    in_place: bool


def parse_sed(arguments: tuple[str, ...]) -> SedCall | None:
    """Parse a call of sed; return None if an option or a script is not known to be safe."""
    scripts: list[str] = []
    paths: list[str] = []
    in_place, waiting = False, iter(arguments)
    for argument in waiting:
        if not argument.startswith("-") or argument == "-":
            paths.append(argument)
        elif paths:
            # Versions that accept no options after an operand run `w x` in `sed 'w x' -e p`.
            return None
        elif argument in ("-e", "--expression"):
            scripts.append(next(waiting, ""))
        elif argument in ("-i", "--in-place") and sys.platform == "linux":
            in_place = True  # the sed of macOS and BSD takes the next argument for a suffix
        elif not FLAGS.fullmatch(argument):
            return None
    if not scripts and paths:
        scripts.append(paths.pop(0))
    is_plain = bool(scripts) and all(map(is_plain_script, scripts))
    return SedCall(tuple(paths), in_place) if is_plain else None


def is_plain_script(script: str) -> bool:
    """Return whether a sed script neither writes a file nor runs a command, in any version of sed.

    >>> [is_plain_script(each) for each in ("s/a/b/g", "1,5p", "s/[^a-z]//", "s/a/rm/e", "w x")]
    [True, True, True, False, False]
    >>> is_plain_script("s/[/]/x/"), is_plain_script("/[/s|]/e id;#|x|")
    (False, False)
    """
    return bool(SHOWS.fullmatch(script) or REPLACES.fullmatch(script))


def read_sed(arguments: tuple[str, ...]) -> ProgramEffect | None:
    """Return what a call reads; None if it might have other effects."""
    found = parse_sed(arguments)
    return ProgramEffect(reads=found.paths) if found and not found.in_place else None


def may_run_program(arguments: tuple[str, ...]) -> bool:
    """Return whether a script may run a program: `sed '1e ./x' y`, `sed s/a/b/e`, `sed -f x`.

    >>> may_run_program(("-n", "/here/{s/e/f/;p}", "x")), may_run_program(("1e ./x", "y"))
    (False, True)
    """
    scripts, operands, waiting = list[str](), list[str](), iter(arguments)
    for argument in waiting:
        if argument == "--":
            operands += waiting
        elif argument == "-" or not argument.startswith("-"):
            operands.append(argument)
        elif WITHOUT_VALUE.fullmatch(argument):
            continue
        elif WIDTH.fullmatch(argument):
            next(waiting, None)
        elif operands or not (found := SCRIPT.fullmatch(argument)):
            # A script file, or `sed '1e ./x' -e p`: versions that accept no options after an
            # operand run `1e ./x`.
            return True
        else:
            scripts.append(found["joined"] or next(waiting, ""))
    # sed joins scripts with newlines: in `-e 's/a/b\\' -e 'a/;e ./x'`, one command spans both.
    script = "\n".join(scripts or operands[:1])
    return "e" in script and not RUNS_NOTHING.fullmatch(script)
