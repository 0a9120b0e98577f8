"""The words of a shell command: what they are once the shell has read them, as far as is plain."""

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from turnlog.agent.permissions.wildcards import HOLE, joined

if TYPE_CHECKING:
    from tree_sitter import Node

ENDS_WORD = re.compile(r"[\s;|&<>()`]")
GLOB = re.compile(r"[*?\[]")
BRACES = re.compile(r"\{.*(,|\.\.).*\}", re.S)
ESCAPED = re.compile(r"\\(.)", re.S)
ESCAPED_IN_QUOTES = re.compile(r"\\([$`\"\\\n])")
EXPANSIONS = frozenset(
    """
    simple_expansion expansion command_substitution process_substitution arithmetic_expansion
    """.split()
)
PLAIN = frozenset("word number variable_name special_variable_name test_operator regex".split())


class Word(Struct, frozen=True):
    """A word; what only the shell will know is a hole in its text."""

    text: str
    has_glob: bool = False
    has_tilde: bool = False

    @property
    def is_known(self) -> bool:
        """Whether the program is given just this."""
        return HOLE not in self.text and not self.has_glob

    @property
    def is_option(self) -> bool:
        return self.text.startswith("-") and self.text != "-"


UNKNOWN = Word(HOLE)


class Unclear(Exception):
    """A command that cannot be told with certainty."""


def word_of(node: "Node") -> Word:
    """A word of the parsed command; raises `Unclear` for what has no plain meaning."""
    text, unquoted = _read(node)
    if BRACES.search(unquoted):
        return UNKNOWN
    return Word(text, bool(GLOB.search(unquoted)), unquoted.startswith(("~", "=")))


def _read(node: "Node") -> tuple[str, str]:
    """What a word says, and of that what stands there without quotes."""
    written = text_of(node)
    if node.type in PLAIN:
        return _without_escapes(written)
    if node.type == "raw_string":
        return written[1:-1], ""
    if node.type == "string":
        return _in_quotes(node), ""
    if node.type == "ansi_c_string":
        return (HOLE if "\\" in written else written[2:-1]), ""
    if node.type in EXPANSIONS:
        return HOLE, ""
    if node.type in ("concatenation", "command_name"):
        parts = [_read(child) for child in node.children]
        return "".join(text for text, _ in parts), _joined_unquoted(parts)
    raise Unclear(f"{written} has no plain meaning")


def _joined_unquoted(parts: list[tuple[str, str]]) -> str:
    """The unquoted text of joined pieces; a quoted piece in front hides a tilde."""
    return "".join(unquoted or ("'" if text else "") for text, unquoted in parts)


def _without_escapes(written: str) -> tuple[str, str]:
    return ESCAPED.sub(lambda found: found[1].strip("\n"), written), ESCAPED.sub("'", written)


def _in_quotes(node: "Node") -> str:
    """What stands between double quotes; spaces around an expansion are its hole's."""
    pieces = [
        HOLE if child.type in EXPANSIONS else ESCAPED_IN_QUOTES.sub(_unescaped, text_of(child))
        for child in node.children[1:-1]
    ]
    return "".join(pieces)


def _unescaped(found: re.Match[str]) -> str:
    return found[1].strip("\n")


def is_torn(node: "Node") -> bool:
    """Whether what the parser takes for a word goes on where the shell's word has ended.

    It takes the end of a line into a word that starts with a backslash, and looks for the name of
    a variable behind it.
    """
    if node.type in ("concatenation", "simple_expansion"):
        return any(a.end_byte != b.start_byte for a, b in pairwise(node.children))
    return node.type == "word" and bool(ENDS_WORD.search(ESCAPED.sub("", text_of(node))))


def text_of(node: "Node") -> str:
    """The source of a node."""
    return (node.text or b"").decode("utf-8", "surrogateescape")


def command_text(words: tuple[Word, ...]) -> str:
    """Words as one text that rules are compared with."""
    return " ".join(joined(word.text) for word in words)
