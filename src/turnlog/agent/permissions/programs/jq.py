r"""Calls of jq whose filters only compute an output from their input.

A filter consists of paths, operators, literals and the functions in `FUNCTIONS`. Anything else
asks: `env` and `$ENV` read the environment, `input` and `import` other files, `debug` prints. The
parser accepts no text that a version of jq (1.5 to 1.8) or gojq reads as other names.
"""

import re

from turnlog.agent.permissions.programs.usage import (
    ProgramEffect,
    ProgramUsage,
    effect_of,
    parse_arguments,
)

USAGE = ProgramUsage(
    "aceCjMnrsS",
    long="ascii-output color-output compact-output exit-status join-output monochrome-output "
    "null-input raw-output slurp sort-keys tab",
    operands="filter path...",
)
FUNCTIONS = frozenset(
    """
    add all any arrays ascii_downcase ascii_upcase booleans capture ceil contains del empty endswith
    explode false first flatten floor from_entries fromdate fromjson group_by gsub has implode
    in index indices inside iterables join keys keys_unsorted last length limit ltrimstr map
    map_values match max max_by min min_by not nth null nulls numbers objects paths reverse rindex
    round rtrimstr scalars scan select sort sort_by split startswith strings sub test to_entries
    todate tojson tonumber tostring transpose trim true type unique unique_by utf8bytelength values
    with_entries
    """.split()
)
DEEPEST = 50
"""Maximum nesting of brackets, conditions and interpolations."""
SPACE = re.compile(r"[ \t\n]*+")
FIELD = re.compile(r"\.[A-Za-z_][A-Za-z0-9_]*+")
NUMBER = re.compile(r"(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+")
FORMAT = re.compile(r"@(?:base32|base64d?|csv|html|json|sh|text|tsv|uri)(?![A-Za-z0-9_])")
OPERATOR = re.compile(r"//=?|\|=?|[=!]=|[<>+*/%-]=|[=<>+*/%-]|(?:and|or)(?![A-Za-z0-9_])")
TEXT = re.compile(r'(?:[^"\\]|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*+')
"""The text in a string, up to an interpolation or the end."""


class _Unknown(Exception):
    """The filter contains something that is not known to be harmless."""


def read_jq(arguments: tuple[str, ...]) -> ProgramEffect | None:
    """Accept a filter that only computes its output, and files.

    >>> [bool(read_jq((each,))) for each in (".", ".a[0].b?", '.["x"] | keys[]', "env", "input")]
    [True, True, True, False, False]
    """
    found = parse_arguments(arguments, USAGE)
    if found is None or not found.operands or "--" in arguments:
        return None
    return effect_of(arguments, USAGE) if is_plain_filter(found.operands[0]) else None


def is_plain_filter(text: str) -> bool:
    r"""Return whether a filter reads nothing but its input and has no effect but its output.

    >>> [is_plain_filter(each) for each in ("map(select(.a == 1))", r'"\(.a): \(env)"', "{env}")]
    [True, False, True]
    """
    filter_ = _Filter(text)
    try:
        filter_.read_pipe()
    except _Unknown:
        return False
    return filter_.is_finished


class _Filter:
    """A cursor in a filter.

    The precedence of operators does not matter, so they are read as a flat list of operands.
    """

    def __init__(self, text: str) -> None:
        self.text, self.place, self.depth = text, 0, 0

    @property
    def is_finished(self) -> bool:
        self._skip_space()
        return self.place == len(self.text)

    def read_pipe(self, *, has_commas: bool = True) -> None:
        """Read operands with operators between them."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise _Unknown
        self._read_operand()
        while self._take(OPERATOR) or (has_commas and self._takes(",")):
            self._read_operand()
        self.depth -= 1

    def _skip_space(self) -> None:
        self.place = _end_of(SPACE, self.text, self.place)

    def _take(self, pattern: re.Pattern[str]) -> str:
        """Move past a token, if it is next, and return it."""
        self._skip_space()
        start, self.place = self.place, _end_of(pattern, self.text, self.place)
        return self.text[start : self.place]

    def _takes(self, sign: str) -> bool:
        self._skip_space()
        is_next = self.text.startswith(sign, self.place)
        self.place += len(sign) if is_next else 0
        return is_next

    def _expect(self, sign: str) -> None:
        if not self._takes(sign):
            raise _Unknown

    def _read_operand(self) -> None:
        self._takes("-")
        self._read_term()
        while True:
            if self._takes(".[") or self._takes("["):
                self._read_brackets()
            elif self._takes('."'):
                self._read_string()
            elif not (self._take(FIELD) or self._takes("?")):
                return

    def _read_term(self) -> None:
        if self._takes("..") or any(map(self._take, (FIELD, NUMBER, FORMAT))):
            return
        if self._takes('"') or self._takes('."'):
            self._read_string()
        elif self._takes("("):
            self.read_pipe()
            self._expect(")")
        elif self._takes("["):
            self._read_brackets()
        elif self._takes("{"):
            self._read_object()
        elif not self._takes("."):
            self._read_named()

    def _read_named(self) -> None:
        """Read a condition, or the call of a function, whose arguments are filters."""
        name = self._take(NAME)
        if name == "if":
            self._read_condition()
        elif name not in FUNCTIONS:
            raise _Unknown
        elif self._takes("("):
            self.read_pipe()
            while self._takes(";"):
                self.read_pipe()
            self._expect(")")

    def _read_condition(self) -> None:
        """Read the rest of `if … then … elif … then … else … end`."""
        word = "elif"
        while word == "elif":
            self.read_pipe()
            if self._take(NAME) != "then":
                raise _Unknown
            self.read_pipe()
            word = self._take(NAME)
        if word == "else":
            self.read_pipe()
            word = self._take(NAME)
        if word != "end":
            raise _Unknown

    def _read_brackets(self) -> None:
        """Read the rest of an array, an index or a slice: `[.a, .b]`, `[0]`, `[1:]`."""
        if self._takes("]"):
            return
        if not self._takes(":"):
            self.read_pipe()
            if self._takes("]"):
                return
            self._expect(":")
        if not self._takes("]"):
            self.read_pipe()
            self._expect("]")

    def _read_object(self) -> None:
        """Read the rest of `{a, b: .c, "d": 1, (.e): 2}`; `{env}` is short for `{env: .env}`."""
        is_done = self._takes("}")
        while not is_done:
            if self._takes("("):
                self.read_pipe()
                self._expect(")")
            elif self._takes('"'):
                self._read_string()
            elif not self._take(NAME):
                raise _Unknown
            if self._takes(":"):
                self.read_pipe(has_commas=False)
            is_done = self._takes("}")
            if not is_done:
                self._expect(",")

    def _read_string(self) -> None:
        r"""Read the rest of a string, with filters in `\(…)`."""
        while True:
            self.place = _end_of(TEXT, self.text, self.place)
            if self.text.startswith('"', self.place):
                self.place += 1
                return
            if not self.text.startswith("\\(", self.place):
                raise _Unknown
            self.place += 2
            self.read_pipe()
            self._expect(")")


def _end_of(pattern: re.Pattern[str], text: str, place: int) -> int:
    """Return where a match at a place ends; the place itself if there is none."""
    found = pattern.match(text, place)
    return found.end() if found else place
