"""Split text into the tokens of a table: words, or the longest known pieces of them (WordPiece).

The vocabulary is uncased and knows no accents; `##` marks a piece that continues a word.
"""

import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from unicodedata import category, normalize

LONGEST = 40
"""Characters of a word that is looked at; longer ones are hashes and encoded data."""
_WORD = re.compile(r"[^\W_]+")
_ASCII_WORD = re.compile(r"[a-z0-9]+")


def words_of(text: str) -> Iterator[str]:
    """Yield the words of a text in lower case, without accents.

    >>> list(words_of("Café_au-lait, UTF8!"))
    ['cafe', 'au', 'lait', 'utf8']
    """
    if text.isascii():
        return (found[0] for found in _ASCII_WORD.finditer(text.lower()))
    # Hangul stays composed: the vocabulary has its letters, but not in the order of its syllables.
    plain = "".join(each for each in normalize("NFD", text.lower()) if category(each) != "Mn")
    return (found[0] for found in _WORD.finditer(plain))


class Vocabulary:
    """The tokens of a table, by their place in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def numbers(self) -> dict[str, int]:
        tokens = self.path.read_text("utf-8").split("\n")
        return {token: number for number, token in enumerate(tokens) if token}

    def split_word(self, word: str) -> list[int]:
        """Return the tokens of a word; none if it has a character that the vocabulary lacks."""
        numbers = self.numbers
        if word in numbers:
            return [numbers[word]]
        found: list[int] = []
        rest, mark = word[:LONGEST], ""
        while rest:
            size = next((n for n in range(len(rest), 0, -1) if mark + rest[:n] in numbers), 0)
            if size == 0:
                return []
            found.append(numbers[mark + rest[:size]])
            rest, mark = rest[size:], "##"
        return found
