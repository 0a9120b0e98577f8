"""Split words into the tokens of a table: a word, or the longest known pieces of it (WordPiece).

The vocabulary is uncased and has no accents; `##` marks a piece that continues a word.
"""

from functools import cached_property
from pathlib import Path

from turnlog.index.tokenizer import composed, tokens_of

LONGEST = 40
"""Maximum characters of a word; longer ones are hashes and encoded data."""


def words_of(text: str) -> list[str]:
    """Return the words of a text, in lower case and without accents, as for the full-text index.

    >>> words_of("Café_au-lait, UTF8!")
    ['cafe', 'au', 'lait', 'utf8']
    """
    return tokens_of(composed(text))


class Vocabulary:
    """The tokens of a table, by their place in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The place of each token, read when the first text needs it."""
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
