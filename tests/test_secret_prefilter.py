"""The fast search for secrets finds what running every rule at every keyword finds."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnlog.secrets import detector, masking
from turnlog.secrets.detector import (
    Secret,
    _candidates,  # pyright: ignore[reportPrivateUsage]
    _Rule,  # pyright: ignore[reportPrivateUsage]
    _rules,  # pyright: ignore[reportPrivateUsage]
)
from turnlog.secrets.invisible import INVISIBLE_OR_SPELLED, SPELLED_START
from turnlog.secrets.names import PASSWORD_NAME, STRONG_NAME, SUFFIX, WEAK_NAME, strength_of

RULES = [
    (_Rule(row), row["keywords"])
    for row in json.loads(Path(detector.__file__).with_name("rules.json").read_text())["rules"]
]
WORDS = sorted({word for _, words in RULES for word in words})
NAMES = "key Key KEY token pass secret Secret cred Cred salt psk pwd api_key apikey auth".split()
AROUND = [*" \n\t-_.\"'`:=>(<\\,/", "é", "ſ", "\u212a", "--", "is ", " = ", ": ", "=> ", "\\n"]
ENDINGS = "ed ing ize s board _data _prod Value 2 _key-user word w frame ential val".split()
VALUES = ["xK9mP2q8s7d6f5g4Zt", "hunter2", "tr0ub4dor&3", "<token>", "a", '"s3cr3t-77x"', "1234567"]
PIECES = st.sampled_from([*WORDS, *8 * NAMES, *8 * AROUND, *4 * ENDINGS, *20 * VALUES])


def find_slowly(text: str) -> Iterator[tuple[Secret, int]]:
    """Yield what every rule finds at every keyword."""
    found: list[tuple[Secret, int]] = []
    for rule, words in RULES:
        for word in words:
            at = text.find(word)
            while at >= 0:
                rule.find(text, at, found)
                at = text.find(word, at + 1)
    yield from found


@settings(max_examples=600)
@given(st.lists(PIECES, max_size=12).map("".join))
def test_the_prefilter_loses_no_secret(text: str) -> None:
    assert set(_candidates(text)) == set(find_slowly(text))


@pytest.mark.parametrize("word", NAMES)
def test_neighbours_of_a_name_hide_no_secret(word: str) -> None:
    value = "xK9mP2q8s7d6f5g4Zt"
    for before in ["", "api", "api\n", "x", *AROUND]:
        for after in ["", *AROUND, *ENDINGS]:
            for text in (f"{before}{word}{after}: {value}", f"{before}{word}{after} {value}\n"):
                assert set(_candidates(text)) == set(find_slowly(text)), text


@given(st.text('\\uUxe013b[]dDfFaA2460e"', max_size=12))
def test_every_spelled_escape_is_announced_by_its_start(text: str) -> None:
    for found in re.finditer(INVISIBLE_OR_SPELLED, text):
        assert "\\" not in found[0] or re.search(SPELLED_START, text)


@given(st.lists(st.sampled_from([*NAMES, *ENDINGS, *"_.-", "paſſ", "next", "db"])).map("".join))
def test_every_secret_name_contains_a_stem(name: str) -> None:
    patterns = ((3, PASSWORD_NAME), (2, STRONG_NAME), (1, WEAK_NAME))
    found = (rank for rank, each in patterns if re.search(rf"(?:{each}){SUFFIX}$", name[-200:]))
    assert strength_of(name) == next(found, 0)


def test_a_text_is_masked_the_same_when_it_was_seen_before() -> None:
    clean, secret = "ordinary words " * 20, "password = 'tr0ub4dor&3' " * 20
    for _ in range(3):
        assert masking.mask(clean) == clean
        assert "tr0ub4dor" not in masking.mask(secret)


def test_each_stop_of_the_prefilter_is_an_anchor() -> None:
    prefilter, letters, _ = _rules()
    for word in WORDS:
        for hit in prefilter.finditer(f" {word} "):
            assert f" {word} "[hit.start()] in letters
