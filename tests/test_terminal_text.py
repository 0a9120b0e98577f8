"""Text for terminals: nothing unsafe is left, nothing is lost."""

import json
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.text import NAMES, as_printed, guarded, harmless, one_line, safe_json, visible

HOSTILE = st.sampled_from(
    "\0\a\b\t\n\r\x1b\x7f\x85\x9b\xa0\xad\u034f\u061c\u115f\u180e\u200b\u200d\u200e\u202e\u2028"
    "\u2066\u2800\u3000\u3164\ufe0f\ufeff\ud800\udfff\ue000\U000e0041\U000e0100\u0301<>U+CRES⚠"
)
ANY = st.text(st.one_of(HOSTILE, st.characters()), max_size=60)
NAMED = {name: char for char, name in NAMES.items()}


def restored(text: str) -> str:
    """The text that a visible one stands for."""

    def char(found: re.Match[str]) -> str:
        return NAMED.get(found[1]) or chr(int(found[1][2:], 16))

    return re.sub(rf"<(U\+[0-9A-F]{{4,6}}|{'|'.join(NAMED)})>", char, text)


def hides(text: str, place: int) -> bool:
    """Return whether the character at a place controls a terminal or is invisible."""
    char = text[place]
    if char in " \n":
        return False
    if char == "\ufe0f":  # makes an emoji of the symbol before it
        return not place or unicodedata.category(text[place - 1]) not in ("So", "Sm")
    return unicodedata.category(char)[0] in "CZ" or char in "\u034f\u115f\u2800\u3164\U000e0100"


@given(ANY)
def test_visible_text_hides_nothing(text: str) -> None:
    shown = visible(text)
    assert not [place for place in range(len(shown)) if hides(shown, place)]


@given(ANY)
def test_visible_text_loses_nothing(text: str) -> None:
    assert restored(visible(text)) == text
    assert restored(visible(text, keep="")) == text


@given(ANY)
def test_harmless_and_guarded_text_cannot_control_a_terminal(text: str) -> None:
    uncoloured = re.sub(r"\x1b\[[0-9;]*m", "", guarded(text))
    for shown in (harmless(text), uncoloured, one_line(text), harmless(as_printed(text))):
        assert not re.search(r"(?![\n\t])[\x00-\x1f\x7f-\x9f\ud800-\udfff]", shown)
        assert not re.search(r"[\u200e\u202a-\u202e\u2066-\u2069\U000e0041]", shown)


@given(st.dictionaries(ANY, st.lists(ANY)))
def test_safe_json_means_the_same(value: dict[str, list[str]]) -> None:
    text = safe_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(text) == value
    assert not re.search(r"[\x7f-\x9f\u202e\ud800-\udfff\U000e0041]", text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ls \r; touch pwned", "ls <CR>; touch pwned"),
        ("ls \x1b]0;hidden", "ls <ESC>]0;hidden"),
        ("a\u202eb\u2066c", "a<U+202E>b<U+2066>c"),
        ("rm\u00a0x\u200b", "rm<U+00A0>x<U+200B>"),
        ("<CR>", "<U+003C>CR>"),
        ("naïve 日本語 ⚠️ <div>", "naïve 日本語 ⚠️ <div>"),
        ("x" + "\u0301" * 5, "x" + "\u0301" * 3 + "<U+0301>" * 2),
    ],
)
def test_unusual_characters_are_spelled_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_prose_in_any_language_stays_as_it_is() -> None:
    text = "می‌خواهم, 👨‍👩‍👧, 20\u00a0€, हिन्दी, ⚠️"
    assert harmless(text) == text


def test_sequences_in_the_output_of_programs_are_removed() -> None:
    assert as_printed("\x1b[2J\x1b]0;title\x07\x1b[1;31mred\x1b[0m\x1bc") == "red"
    assert as_printed("\x1bP1$tx\x1b\\a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\") == "alink"


def test_a_sequence_that_does_not_end_hides_nothing() -> None:
    assert "rest" in as_printed("\x1b]0;the rest")
    assert "rest" in as_printed("\x1bPthe rest\nand more")


def test_overwritten_output_is_left_out() -> None:
    assert as_printed("10%\r50%\r100%\ndone\r\nnext\r") == "100%\ndone\nnext"
