"""Text for the screen: harmless, measured in cells, broken where necessary."""

from hypothesis import given
from hypothesis import strategies as st

from turnlog.agent.terminal.styled_text import cells, cut, fold, has_colour, make_style, one_line

ANY = st.text(alphabet=st.characters(codec="utf-8"), max_size=60)


@given(ANY)
def test_nothing_that_controls_a_terminal_is_left(text: str) -> None:
    left = make_style(is_coloured=False)(text, "text") + one_line(text)
    assert not any(ord(each) < 32 and each != "\n" for each in left)
    assert "\x7f" not in left
    assert "\x9b" not in left


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
