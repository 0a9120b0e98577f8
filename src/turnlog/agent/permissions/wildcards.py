"""Patterns of commands, and commands that are only partly known."""

import re
from collections.abc import Iterator
from functools import lru_cache

from turnlog.agent.permissions.bash import HOLE, Word

ANY = "\x01"
"""In a pattern: any characters."""
BLANK = "\x1f"
"""In a pattern or a command: a space inside of a word."""
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
    """A pattern as a state machine; each bit of a state is a place in the pattern.

    All places advance at once, so the time grows with the text, not with the number of stars.
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
        """Add the places behind each `ANY`, which may stand for nothing."""
        return state | (state & self.any) << 1

    def step(self, state: int, char: str) -> int:
        """Return the places after one more character."""
        return self.spread((state & self._places.get(char, 0)) << 1 | state & self.any)

    def all_from(self, state: int) -> int:
        """Return the places after a hole: every one from the first on."""
        first = (state & -state).bit_length() - 1
        return (1 << (self.length + 1)) - (1 << first)


@lru_cache(maxsize=512)
def _machine(pattern: str) -> _Machine:
    # One star means the same as several, and `spread` then has to look at one place only.
    return _Machine(re.sub(f"{ANY}+", ANY, pattern))


def pattern_of(written: str) -> tuple[str, ...]:
    """Return the patterns that a rule for commands stands for: words are unquoted, `*` is anything.

    A last `*` after a space, or after a colon, may also stand for nothing at all.

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
    """Return a word without spaces, so that the words of a command stay distinct."""
    return word.replace(" ", BLANK).replace("\n", BLANK).replace("\t", BLANK)


def command_text(words: tuple[Word, ...]) -> str:
    """Join words into the text that rules are compared with."""
    return " ".join(joined(word.text) for word in words)
