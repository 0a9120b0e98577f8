"""Search for many known values at once, in time that does not depend on how many there are."""

import re
from collections.abc import Iterator, Mapping
from typing import AnyStr, Generic

PREFIX = 6
"""Characters by which values are looked for; a dictionary tells which of them follows."""


class KnownValues(Generic[AnyStr]):
    """Finds forms of values in texts, str in str or bytes in bytes; maps them to the values."""

    def __init__(self, values: Mapping[AnyStr, str]) -> None:
        self._values = values
        self._lengths: dict[AnyStr, set[int]] = {}
        for form in values:
            self._lengths.setdefault(form[:PREFIX], set()).add(len(form))
        self._widths = sorted({len(prefix) for prefix in self._lengths})
        self._pattern = _any_of(list(self._lengths)) if self._lengths else None

    def find(self, text: AnyStr) -> Iterator[tuple[int, AnyStr, str]]:
        """Yield position, form and value of each occurrence; those of one form do not overlap."""
        if self._pattern is None:
            return
        ends: dict[AnyStr, int] = {}
        hit = self._pattern.search(text)
        while hit:
            at = hit.start()
            for form in self._forms_at(text, at):
                if at >= ends.get(form, 0):
                    ends[form] = at + len(form)
                    yield at, form, self._values[form]
            hit = self._pattern.search(text, at + 1) if at < len(text) else None

    def _forms_at(self, text: AnyStr, at: int) -> Iterator[AnyStr]:
        for width in self._widths:
            for length in self._lengths.get(text[at : at + width], ()):
                form = text[at : at + length]
                if form in self._values:
                    yield form


def _any_of(prefixes: list[AnyStr]) -> re.Pattern[AnyStr]:
    # `re` tries the branches of `abc|abd` one by one; those of a trie, only by their first letter.
    if isinstance(prefixes[0], str):
        return re.compile(_trie_of({str(prefix) for prefix in prefixes}))
    texts = {prefix.decode("latin-1") for prefix in prefixes if isinstance(prefix, bytes)}
    return re.compile(_trie_of(texts).encode("latin-1"))


def _trie_of(words: set[str]) -> str:
    """Return a regex for any of some words; a word that begins with another one is left out.

    >>> _trie_of({"ghp_", "gho_", "sk"})
    '(?:gh(?:o_|p_)|sk)'
    """
    if "" in words:
        return ""
    by_letter: dict[str, set[str]] = {}
    for word in words:
        by_letter.setdefault(word[0], set()).add(word[1:])
    branches = [re.escape(letter) + _trie_of(rests) for letter, rests in sorted(by_letter.items())]
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
