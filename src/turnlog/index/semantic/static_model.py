"""Embed texts with a table of token vectors: the sum of a text's rows is its vector.

`scripts/distill_embeddings.py` writes the table. Rows are int8, already weighted by how rare their
token is. Rows are added up as Python integers with a lane of 16 bits per dimension: that is as fast
as numpy for texts of this size, and needs no 70 MB package.
"""

from collections.abc import Iterable
from functools import cache
from mmap import ACCESS_READ, mmap
from pathlib import Path
from struct import unpack

from turnlog.index.semantic.vector_codes import StoredVector, quantize
from turnlog.index.semantic.word_pieces import Vocabulary, words_of

FOLDER = Path(__file__).parent / "model"
NAME = "all-MiniLM-L6-v2, static, 1"
"""Change it with the table: indexes compute their vectors again."""
DIMENSIONS = 192
LONGEST = 256
"""Tokens of a text that count; more would overflow a lane."""
LONGEST_TEXT = 4_000
"""Characters of a text that are looked at."""
BIAS = 128
"""Added to each number, because lanes have no sign."""
REMEMBERED = 20_000
"""Words whose rows are kept in memory, about half a kilobyte each."""
_BIASED = bytes((value + BIAS) % 256 for value in range(256))


class StaticModel:
    """The table that comes with turnlog."""

    name = NAME

    def __init__(self, folder: Path = FOLDER) -> None:
        self.vocabulary = Vocabulary(folder / "vocabulary.txt")
        # Mapped, because processes that share a file would share the place at which they read.
        with (folder / "rows.int8").open("rb") as file:
            self.rows = mmap(file.fileno(), 0, access=ACCESS_READ)
        self.words: dict[str, tuple[int, int]] = {}

    def embed_texts(self, texts: Iterable[str]) -> list[StoredVector | None]:
        """Return the vector of each text; None for one without any known word."""
        return [self._embed(text) for text in texts]

    def _embed(self, text: str) -> StoredVector | None:
        total = count = 0
        known = self.words
        for word in words_of(text[:LONGEST_TEXT]):
            lanes, tokens = known.get(word) or self._lanes(word)
            count += tokens
            if count > LONGEST:
                count -= tokens
                break
            total += lanes
        if not count:
            return None
        sums = unpack(f"<{DIMENSIONS}H", total.to_bytes(2 * DIMENSIONS, "little"))
        bias = BIAS * count
        return quantize([each - bias for each in sums])

    def _lanes(self, word: str) -> tuple[int, int]:
        """Return the sum of a word's rows, a lane per dimension, and how many they are."""
        if len(self.words) >= REMEMBERED:
            self.words.clear()
        tokens = self.vocabulary.split_word(word)
        lanes = bytearray(2 * DIMENSIONS)
        total = 0
        for token in tokens:
            start = token * DIMENSIONS
            lanes[::2] = self.rows[start : start + DIMENSIONS].translate(_BIASED)
            total += int.from_bytes(lanes, "little")
        self.words[word] = total, len(tokens)
        return self.words[word]


@cache
def static_model() -> StaticModel:
    """Return the model of this process."""
    return StaticModel()
