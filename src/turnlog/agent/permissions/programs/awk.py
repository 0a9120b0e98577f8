r"""Calls of awk whose programs only print fields, as every version of awk parses them.

A program is one pattern, one `print`, or both. It has no redirection, pipe, function or
assignment: `print > "x"` writes a file, `print | "x"` and `"x" | getline` run a program. Only
ASCII, because in some encodings the last byte of a character may be a slash or a quote.
"""

import re

from turnlog.agent.permissions.programs.usage import ProgramEffect

SEPARATOR = re.compile(r"(?:[][,:;|/=@#.() ] ?|\\t|\t)")
"""The value of `-F`; awk takes a letter such as `t` in different ways."""
FIELD = r"\$(?:[0-9]{1,3}|NF)"
TEXT = r'"(?:[ !#-\[\]-~]|\\[nt])*+"'
ITEM = rf"(?:{FIELD}|NR|NF|FNR|FILENAME|{TEXT})"
PRINT = rf"\{{ *+print(?: *+{ITEM}(?: *+,? *+{ITEM})*+)? *+;? *+\}}"
# Versions disagree on slashes in brackets, and on `/=`, which may also be an operator.
REGEX = r"/(?!=)(?:[\w .,:;@%#<>~!^$*+?|()&'=-]|\\[][.$^*+?(){}|])++/"
NUMBER = r"-?[0-9]{1,9}(?:\.[0-9]{1,9})?"
TEST = (
    rf"(?:!? *+{REGEX}|{FIELD} *+!?~ *+{REGEX}"
    rf"|(?:{FIELD}|NR|NF|FNR) *+(?:[!=]= *+(?:{NUMBER}|{TEXT})|[<>]=? *+{NUMBER})|NF|END)"
)
SUM = rf"\{{ *+(s|sum|total) *+\+= *+{FIELD} *+;? *+\}} *+END *+\{{ *+print +\1 *+;? *+\}}"
PROGRAM = re.compile(
    rf" *+(?:{TEST}(?: *+(?:&&|\|\|) *+{TEST})*+ *+(?:{PRINT})?|{PRINT}|{SUM}) *+", re.ASCII
)


def read_awk(arguments: tuple[str, ...]) -> ProgramEffect | None:
    """Accept a field separator, a program that only prints, and files.

    >>> [bool(read_awk((each,))) for each in ("{print $2}", "NR>1", '{print > "x"}', "{system(1)}")]
    [True, True, False, False]
    """
    front = _count_options(arguments)
    program, paths = arguments[front : front + 1], arguments[front + 1 :]
    if not program or not PROGRAM.fullmatch(program[0]) or not all(map(_is_file, paths)):
        return None
    roles = ("option",) * front + ("program",) + ("path",) * len(paths)
    return ProgramEffect(reads=paths, roles=roles)


def _count_options(arguments: tuple[str, ...]) -> int:
    """Return how many arguments `-F` takes with its value; 0 if it is not the first or unknown."""
    if arguments[:1] == ("-F",):
        return 2 if SEPARATOR.fullmatch("".join(arguments[1:2])) else 0
    first = "".join(arguments[:1])
    return int(first.startswith("-F") and SEPARATOR.fullmatch(first[2:]) is not None)


def _is_file(operand: str) -> bool:
    """Return whether every awk opens an operand as a file, and reads its input for `-`.

    `a=b` sets a variable; `OFMT=%n` crashes mawk. gawk connects to `/inet/tcp/0/host/80`.
    """
    is_plain = operand == "-" or not operand.startswith(("-", "/inet"))
    return is_plain and bool(operand) and "=" not in operand
