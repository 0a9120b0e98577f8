"""Text for the screen: harmless, in cells, broken where it must be."""

from hypothesis import given
from hypothesis import strategies as st

from turnlog.agent.console.ink import cells, cut, fold, harmless, has_colour, make_style, one_line

ANY = st.text(alphabet=st.characters(codec="utf-8"), max_size=60)


@given(ANY)
def test_nothing_that_controls_a_terminal_is_left(text: str) -> None:
    left = harmless(text)
    assert not any(ord(each) < 32 and each != "\n" for each in left)
    assert "\x7f" not in left
    assert "\x9b" not in left


def test_sequences_go_as_a_whole() -> None:
    assert harmless("\x1b[2J\x1b]0;title\x07\x1b[1;31mred\x1b[0m\x1bc") == "red"
    assert harmless("\x1bP1$tx\x1b\\a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\") == "alink"


def test_of_what_is_overwritten_the_last_is_left() -> None:
    assert harmless("10%\r50%\r100%\ndone\r\nnext") == "100%\ndone\nnext"


@given(ANY, st.integers(0, 20))
def test_a_text_is_cut_to_its_room(text: str, room: int) -> None:
    shown = cut(one_line(text), room)
    assert cells(shown) <= max(room, 0)


@given(ANY, st.integers(6, 30))
def test_a_folded_line_fits_and_says_the_same(text: str, room: int) -> None:
    line = one_line(text)
    folded = fold(make_style(is_coloured=True)(line, "error"), room, 2).split("\n")
    assert all(cells(row) <= room for row in folded)
    said = "".join(folded).replace(" ", "").removeprefix("\x1b[31m").removesuffix("\x1b[0m")
    assert said == line.replace(" ", "")


def test_wide_characters_take_two_cells() -> None:
    assert fold("日本語日本語", 7) == "日本語\n日本語"


def test_without_colours_bold_stays() -> None:
    style = make_style(is_coloured=False)
    assert style("x", "error") == "x"
    assert style("x", "prompt") == "\x1b[1mx\x1b[0m"


def test_colours_are_left_out_when_the_user_says_so() -> None:
    assert has_colour({"TERM": "xterm"})
    assert not has_colour({"TERM": "xterm", "NO_COLOR": "1"})
    assert not has_colour({"TERM": "dumb"})
