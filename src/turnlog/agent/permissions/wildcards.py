"""Match commands, which may be only partly known, against the patterns of rules."""

import re
from collections.abc import Iterator
from functools import lru_cache

from turnlog.agent.permissions.bash import HOLE, Word

ANY = "\x01"
"""In a pattern: any characters."""
BLANK = "\x1f"
"""In a pattern or a command: whitespace inside a word."""
TOKEN = re.compile(
    r"""\\(?P<escaped>.)|'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|(?P<char>.)""", re.S
)
LITERAL = re.compile(r"\\([$`\"\\\n])")


def fits(pattern: str, text: str, *, in_holes: bool = False) -> bool:
    """Return whether a text matches a pattern; with `in_holes`, whether it could match.

    >>> fits(f"git {ANY}", "git push"), fits(f"git {ANY}", "gitk"), fits("git push", f"git {HOLE}")
    (True, False, False)
    >>> fits("git push", f"git {HOLE}", in_holes=True), fits("rm", f"git {HOLE}", in_holes=True)
    (True, False)
    """
    start = pattern.partition(ANY)[0]
    known = text.partition(HOLE)[0] if in_holes else text
    # A fast path: most rules differ from a command in their first word.
    if not (known.startswith(start) or (in_holes and start.startswith(known))):
        return False
    machine = _machine(pattern)
    state = machine.spread(1)
    for char in text:
        if not state:
            return False
        is_hole = in_holes and char == HOLE
        state = machine.all_from(state) if is_hole else machine.step(state, char)
    return bool(state >> machine.length & 1)


class _Machine:
    """A pattern as a nondeterministic automaton; each bit of a state is a position in the pattern.

    All positions advance at once, so there is no backtracking, however many wildcards there are.
    """

    def __init__(self, pattern: str) -> None:
        self.length = len(pattern)
        self.any = 0
        self._places: dict[str, int] = {}
        for place, char in enumerate(pattern):
            if char == ANY:
                self.any |= 1 << place
            else:
                self._places[char] = self._places.get(char, 0) | 1 << place

    def spread(self, state: int) -> int:
        """Add the position after each `ANY`, which may match the empty string."""
        return state | (state & self.any) << 1

    def step(self, state: int, char: str) -> int:
        """Return the positions after one more character."""
        return self.spread((state & self._places.get(char, 0)) << 1 | state & self.any)

    def all_from(self, state: int) -> int:
        """Return the positions after a hole: the first active one and all that follow it."""
        first = (state & -state).bit_length() - 1
        return (1 << (self.length + 1)) - (1 << first)


@lru_cache(maxsize=512)
def _machine(pattern: str) -> _Machine:
    # Adjacent wildcards mean the same as one; `spread` relies on there being only one.
    return _Machine(re.sub(f"{ANY}+", ANY, pattern))


def pattern_of(written: str) -> tuple[str, ...]:
    """Return the patterns of a rule for commands, with words unquoted and `*` replaced by `ANY`.

    A trailing ` *` or `:*` also matches the command without further arguments.

    >>> [each.replace(ANY, "*") for each in pattern_of("npm  run:*")]
    ['npm run', 'npm run *']
    """
    written = written.strip()
    if written.endswith(":*"):
        written = f"{written[:-2].rstrip()} *"
    pattern = "".join(_unquoted(written))
    return (pattern[:-2], pattern) if pattern.endswith(f" {ANY}") else (pattern,)


def _unquoted(written: str) -> Iterator[str]:
    before = ""
    for token in TOKEN.finditer(written):
        char = token["char"]
        if char is None:
            inner = token["escaped"] or token["single"] or LITERAL.sub(r"\1", token["double"] or "")
            yield joined(inner)
        elif char.isspace():
            yield "" if before == " " else " "
            char = " "
        else:
            yield ANY if char == "*" else char
        before = char or ""


def joined(word: str) -> str:
    """Replace whitespace in a word with `BLANK`, so that the words of a command stay distinct."""
    return word.replace(" ", BLANK).replace("\n", BLANK).replace("\t", BLANK)


def command_text(words: tuple[Word, ...]) -> str:
    """Join words into the text that rules are compared with."""
    return " ".join(joined(word.text) for word in words)
