"""Normalize text for the full-text index and for comparison with it.

Chinese, Japanese, Korean, Thai, Lao, Khmer and Burmese are written without spaces: each of their
letters becomes a token, and a word is searched as a phrase of letters.
"""

import re
from unicodedata import decomposition, normalize

UNSPACED = (
    "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46\u0e81-\u0eb0\u0eb2\u0eb3\u0ebd-\u0ec6\u0edc-\u0edf"
    "\u1000-\u102a\u1050-\u1055\u1100-\u11ff\u1780-\u17b3\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029"
    "\u3031-\u3035\u3040-\u30ff\u3105-\u312f\u3130-\u318f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U0001b000-\U0001b16f"
    "\U00020000-\U0003134f"
)
_LETTERS = f"[{UNSPACED}]+"
_OTHERS = "[^\x00-\u0dff\u2000-\u2dff\U0001f000-\U0001faff]+"
"""A superset with few ranges, which matches faster: everything but Latin, Cyrillic, punctuation …
"""
ASCII = bytes(range(128))
FEW = 24
"""Up to this many distinct characters, `str.replace` for each is faster than a pattern."""
_TOKEN = rf"[{UNSPACED}]|[^\W_{UNSPACED}]+"
COLUMNS = {
    "title": "asked",
    "prompt": "asked",
    "answer": "said",
    "thinking": "said",
    "summary": "said",
    "note": "said",
    "input": "done",
    "result": "done",
}
"""The column of `words` for each kind of text."""


def searchable(text: str) -> str:
    """Return a text with unspaced letters separated into words.

    >>> searchable("fix 検索 now")
    'fix  検  索  now'
    """
    if text.isascii():
        return text
    # The same word may be spelled composed or decomposed: "é" as one character or two, Hangul as
    # syllables or as single letters. Only one spelling is indexed.
    text = normalize("NFC", text)
    letters = _few_letters(text)
    if letters is None:
        return re.sub(_OTHERS, lambda found: re.sub(_LETTERS, _apart, found[0]), text)
    for letter in letters:
        text = text.replace(letter, f" {letter} ")
    return text


def _few_letters(text: str) -> list[str] | None:
    """Return the letters to separate, if the text is mostly ASCII with few other characters."""
    rest = text.encode("utf-8", "surrogatepass").translate(None, ASCII)
    if 2 * len(rest) >= len(text):
        return None
    found = set(rest.decode("utf-8", "surrogatepass"))
    return list(filter(is_unspaced, found)) if len(found) <= FEW else None


def _apart(letters: re.Match[str]) -> str:
    return f" {'  '.join(letters[0])} "


def in_column(kind: str, text: str) -> tuple[str | None, str | None, str | None]:
    """Return a text in its column: (asked, said, done)."""
    column = COLUMNS[kind]
    return (
        text if column == "asked" else None,
        text if column == "said" else None,
        text if column == "done" else None,
    )


def tokens_of(text: str) -> list[str]:
    """Return the tokens that the index would make of a text.

    >>> tokens_of("Café_au.lait("), tokens_of("修正fix")
    (['cafe', 'au', 'lait'], ['修', '正', 'fix'])
    """
    plain = folded(text)
    return re.findall("[a-z0-9]+" if plain.isascii() else _TOKEN, plain)


def is_unspaced(letter: str) -> bool:
    """Return whether a letter is a token of its own."""
    return letter > "\u0e00" and re.match(_LETTERS, letter) is not None


def folded(text: str) -> str:
    """Return a text in lower case without accents, with every character at its old offset.

    >>> folded("ÀÉ straße")
    'ae straße'
    """
    if text.isascii():
        return text.lower()
    return text.translate(_FOLDING)


def composed(text: str) -> str:
    """Return a text with accents composed into their letters, so that folding keeps offsets."""
    return text if text.isascii() else normalize("NFC", text)


def _fold(code: int) -> int:
    """Return a letter in lower case, Latin letters without accents, as FTS5 folds them."""
    base = code
    while parts := decomposition(chr(base)).split():
        if parts[0].startswith("<"):
            break
        base = int(parts[0], 16)
    lower = chr(base if base < 128 else code).casefold()
    # "ß" casefolds to two letters; replacing it would shift all later offsets.
    return ord(lower) if len(lower) == 1 else code


class _Folding(dict[int, int]):
    """A cache of folded characters, filled on first use."""

    def __missing__(self, code: int) -> int:
        self[code] = _fold(code)
        return self[code]


_FOLDING = _Folding()
