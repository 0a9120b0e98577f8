"""Markdown tables on the screen: frames, wide characters, narrow terminals, hostile cells."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.agent.terminal.markdown_stream import draw
from turnlog.agent.terminal.styled_text import COLOUR, cells

SMALL = "| Name | Value | 日本語 |\n|---|--:|:-:|\n| a | 1 | 漢字 |\n| `code` | **22** | x |"
CELLS = st.text(st.sampled_from("ab 日本é\x1b\x07*`"), max_size=40)
ROWS = st.lists(st.tuples(CELLS, CELLS), max_size=4)


def drawn(text: str, columns: int) -> list[str]:
    plain = COLOUR.sub("", draw(text, columns, is_coloured=True))
    return [line.rstrip() for line in plain.split("\n")]


def table(*rows: tuple[str, str]) -> str:
    return "\n".join(["| A | B |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)])


def test_a_table_is_framed_and_aligned_by_cells() -> None:
    assert drawn(SMALL, 80) == [
        "┌──────┬───────┬────────┐",
        "│ Name │ Value │ 日本語 │",
        "├──────┼───────┼────────┤",
        "│ a    │     1 │  漢字  │",
        "├──────┼───────┼────────┤",
        "│ code │    22 │   x    │",
        "└──────┴───────┴────────┘",
    ]


def test_long_cells_are_broken_and_short_ones_are_centred_beside_them() -> None:
    long = "日本語の文章です日本語の文章です"
    assert drawn(table(("one two three four", long), ("x", "y")), 40) == [
        "┌────────┬────────────────────────────┐",
        "│   A    │             B              │",
        "├────────┼────────────────────────────┤",
        "│ one    │                            │",
        "│ two    │ 日本語の文章です日本語の文 │",
        "│ three  │ 章です                     │",
        "│ four   │                            │",
        "├────────┼────────────────────────────┤",
        "│ x      │ y                          │",
        "└────────┴────────────────────────────┘",
    ]


def test_a_table_of_high_rows_is_written_cell_by_cell() -> None:
    assert drawn(table(("word " * 22, "short"), ("x", "y")), 30) == [
        "A: word word word word word",
        "  word word word word word",
        "  word word word word word",
        "  word word word word word",
        "  word word",
        "B: short",
        "──────────────────────────────",
        "A: x",
        "B: y",
    ]


def test_words_are_not_broken_into_bits_on_a_narrow_terminal() -> None:
    assert drawn(SMALL, 20)[:3] == ["Name: a", "Value: 1", "日本語: 漢字"]


def test_of_a_huge_table_the_first_rows_are_shown() -> None:
    lines = drawn(table(*[("x", "y")] * 1_200), 80)
    assert lines[-1] == "… 1,000 more rows"
    assert sum("x" in line for line in lines) == 200


@pytest.mark.parametrize("columns", [10, 17, 40, 100])
@given(rows=ROWS)
def test_no_row_is_wider_than_the_terminal_or_controls_it(
    columns: int, rows: list[tuple[str, str]]
) -> None:
    text = draw(table(*rows), columns, is_coloured=True)
    assert max(cells(line) for line in text.split("\n")) <= columns
    assert "\x1b" not in COLOUR.sub("", text)
    assert "\x07" not in text


def test_a_frame_stays_closed_while_more_rows_arrive() -> None:
    rows = [("x", "y")] * 3
    for count in range(4):
        lines = drawn(table(*rows[:count]), 40)
        assert lines[0][0] == "┌"
        assert lines[-1][-1] == "┘"
