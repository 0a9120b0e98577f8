"""Streamed answers: finished blocks, the tail, and their rendering."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.agent.terminal.markdown_stream import MarkdownStream, draw, split_finished
from turnlog.agent.terminal.styled_text import COLOUR, cells

PIECES = st.sampled_from(
    ["word ", "\n", "\n\n", "```\n", "```py\n", "~~~\n", "- item\n", "  more\n", "# head\n", "`"]
)
TEXTS = st.lists(PIECES, max_size=30).map("".join)


@given(TEXTS)
def test_what_is_finished_and_the_tail_are_the_whole(text: str) -> None:
    finished, tail = split_finished(text)
    assert finished + tail == text


@given(TEXTS, TEXTS)
def test_what_is_finished_stays_so(start: str, rest: str) -> None:
    finished, _ = split_finished(start)
    assert split_finished(start + rest)[0].startswith(finished)


@given(TEXTS, st.integers(1, 7))
def test_an_answer_is_given_out_once_and_whole(text: str, size: int) -> None:
    answer = MarkdownStream()
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    given_out = "".join(answer.grow(piece) for piece in pieces)
    assert given_out + answer.finish(text) == text
    assert answer.tail == ""


@pytest.mark.parametrize(
    "text",
    ["one\n\n  continued", "- a\n\n  - b", "```\ncode\n\nmore", "no end", "| a |\n|---|\n| 1 |\n"],
)
def test_a_block_that_may_go_on_is_not_finished(text: str) -> None:
    assert split_finished(text) == ("", text)


def test_a_closed_fence_is_finished_by_what_follows() -> None:
    assert split_finished("````\n```\n\n````\n\nthen") == ("````\n```\n\n````\n\n", "then")


def test_only_tables_are_laid_out_in_boxes() -> None:
    text = (
        "# Head\n\nsome **bold** `code`\n\n1. one\n\n```python\nx = 1\n```\n\n"
        "| a | b |\n|---|---|\n| 1 | 2 |"
    )
    drawn = COLOUR.sub("", draw(text, 40, is_coloured=True))
    assert [line.rstrip() for line in drawn.split("\n")] == [
        "Head",
        "",
        "some bold code",
        "",
        "1. one",
        "",
        "x = 1",
        "",
        "┌─────┬─────┐",
        "│  a  │  b  │",
        "├─────┼─────┤",
        "│ 1   │ 2   │",
        "└─────┴─────┘",
    ]


def test_no_line_is_wider_than_the_terminal() -> None:
    text = "日本語のとても長い文章です。" * 5 + "\n\n```\n" + "x" * 50 + "\n```"
    assert max(cells(line) for line in draw(text, 20, is_coloured=True).split("\n")) <= 20


def test_what_a_model_says_cannot_control_the_terminal() -> None:
    assert "\x1b[2J" not in draw("a\x1b[2Jb\x07", 40, is_coloured=True)
