"""Embed texts with a table of token vectors: the sum of a text's rows is its vector.

`scripts/distill_embeddings.py` writes the table. Its head lists the values of each scale; a row
names its scale, followed by indexes into that scale, two per byte. Values are already weighted by
how rare their token is. Rows are added up as Python integers with a lane of 16 bits per dimension:
for texts of this size that is as fast as numpy, and needs no 70 MB package.
"""

import re
from collections.abc import Iterable
from functools import cache
from mmap import ACCESS_READ, mmap
from pathlib import Path
from struct import unpack

from turnlog.index.semantic.vector_codes import StoredVector, quantize
from turnlog.index.semantic.word_pieces import Vocabulary, words_of
from turnlog.secrets import MASKED, mask_start

FOLDER = Path(__file__).parent / "model"
NAME = "all-MiniLM-L6-v2, static, 4"
"""Change it whenever texts get different vectors, so that indexes recompute them."""
DIMENSIONS = 192
SCALES, NUMBERS = 64, 16
HEAD = SCALES * NUMBERS
"""Bytes of the head: the values of each scale, as int8."""
ROW = 1 + DIMENSIONS // 2
LONGEST = 256
"""Maximum tokens of a text; more would overflow a lane."""
LONGEST_TEXT = 4_000
"""Maximum characters of a text that are read."""
BIAS = 128
"""Added to each value, because lanes have no sign."""
REMEMBERED = 20_000
"""Words whose rows are kept in memory, about half a kilobyte each."""
MASK = re.compile(MASKED)
_BIASED = bytes((value + BIAS) % 256 for value in range(256))


class StaticModel:
    """The model that comes with turnlog: a table of token vectors."""

    name = NAME

    def __init__(self, folder: Path = FOLDER) -> None:
        self.vocabulary = Vocabulary(folder / "vocabulary.txt")
        # Mapped into memory, because forked processes that share an open file share its position.
        with (folder / "rows.int4").open("rb") as file:
            self.rows = mmap(file.fileno(), 0, access=ACCESS_READ)
        self.words: dict[str, tuple[int, int]] = {}

    def embed_texts(self, texts: Iterable[str]) -> list[StoredVector | None]:
        """Return the vector of each text; None for one without any known word."""
        return [self._embed(_without_secrets(text)) for text in texts]

    def _embed(self, text: str) -> StoredVector | None:
        total = count = 0
        known = self.words
        for word in words_of(text):
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
        """Return the sum of the vectors of a word's tokens, as one integer, and their number."""
        if len(self.words) >= REMEMBERED:
            self.words.clear()
        tokens = self.vocabulary.split_word(word)
        lanes = bytearray(2 * DIMENSIONS)
        total = 0
        for token in tokens:
            start = HEAD + token * ROW
            scale = self.rows[start] * NUMBERS
            low, high = _translations(self.rows[scale : scale + NUMBERS])
            packed = self.rows[start + 1 : start + ROW]
            lanes[::4], lanes[2::4] = packed.translate(low), packed.translate(high)
            total += int.from_bytes(lanes, "little")
        self.words[word] = total, len(tokens)
        return self.words[word]


def _without_secrets(text: str) -> str:
    """Return the start of a text without its secrets and their placeholders.

    Neither says anything about the subject. A placeholder contains a digest of its secret, so a
    vector that depends on either could confirm a guess.
    """
    return MASK.sub(" ", mask_start(text, LONGEST_TEXT))


@cache
def _translations(scale: bytes) -> tuple[bytes, bytes]:
    """Return tables that map a packed byte to its first and to its second value, plus the bias."""
    biased = scale.translate(_BIASED)
    low = bytes(biased[packed & 15] for packed in range(256))
    return low, bytes(biased[packed >> 4] for packed in range(256))


@cache
def static_model() -> StaticModel:
    """Return the model, which is loaded once per process."""
    return StaticModel()
