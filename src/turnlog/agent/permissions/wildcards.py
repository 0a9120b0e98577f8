"""Patterns of commands, and commands of which not every character is known."""

import re
from collections.abc import Iterator

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
    """Whether a text is as a pattern says; with `in_holes`, whether it could be.

    >>> fits(f"git {ANY}", "git push"), fits(f"git {ANY}", "gitk"), fits("git push", f"git {HOLE}")
    (True, False, False)
    >>> fits("git push", f"git {HOLE}", in_holes=True), fits("rm", f"git {HOLE}", in_holes=True)
    (True, False)
    """
    start = pattern.partition(ANY)[0]
    known = text.partition(HOLE)[0] if in_holes else text
    if not (known.startswith(start) or (in_holes and start.startswith(known))):
        return False
    places = _spread(pattern, {0})
    for char in text:
        if not places:
            return False
        if in_holes and char == HOLE:
            places = set(range(min(places), len(pattern) + 1))
        else:
            places = _spread(pattern, set(_step(pattern, places, char)))
    return len(pattern) in places


def _step(pattern: str, places: set[int], char: str) -> Iterator[int]:
    for place in places:
        if place < len(pattern):
            if pattern[place] == ANY:
                yield place
            elif pattern[place] == char:
                yield place + 1


def _spread(pattern: str, places: set[int]) -> set[int]:
    """Places with those behind an `ANY`, which may stand for nothing."""
    found = set(places)
    for place in places:
        after = place
        while after < len(pattern) and pattern[after] == ANY:
            after += 1
            found.add(after)
    return found


def pattern_of(written: str) -> tuple[str, ...]:
    """The patterns that a rule for commands stands for: words are unquoted, `*` is anything.

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
    """A word that has no space, so that words can be told apart in a command."""
    return word.replace(" ", BLANK).replace("\n", BLANK).replace("\t", BLANK)


def command_text(words: tuple[Word, ...]) -> str:
    """Join words into the text that rules are compared with."""
    return " ".join(joined(word.text) for word in words)
