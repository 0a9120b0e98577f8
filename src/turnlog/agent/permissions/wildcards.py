"""Match commands against the patterns of rules."""

import re
from collections.abc import Iterator
from functools import lru_cache

from turnlog.agent.permissions.bash import Word

ANY = "\x01"
"""In a pattern: any characters."""
BLANK = "\x1f"
"""In a pattern or a command: whitespace inside a word."""
TOKEN = re.compile(
    r"""\\(?P<escaped>.)|'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|(?P<char>.)""", re.S
)
LITERAL = re.compile(r"\\([$`\"\\\n])")


def fits(pattern: str, text: str) -> bool:
    """Return whether a text matches a pattern.

    >>> fits(f"git {ANY}", "git push"), fits(f"git {ANY}", "gitk")
    (True, False)
    """
    return _regex(pattern).fullmatch(text) is not None


@lru_cache(maxsize=512)
def _regex(pattern: str) -> re.Pattern[str]:
    # Possessive up to the next fixed text: there is no backtracking, however many wildcards.
    first, *others = map(re.escape, re.sub(f"{ANY}+", ANY, pattern).split(ANY))
    if not others:
        return re.compile(first, re.S)
    *inner, last = others
    middle = "".join(f"(?>.*?{each})" for each in inner)
    return re.compile(f"{first}{middle}.*{last}", re.S)


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
