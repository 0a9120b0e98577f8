"""The rows of a terminal, redrawn for another one."""

import re

import pytest

from turnlog.agent.background.job_wire import STOP, TYPED, FrameReader, encode_frame
from turnlog.agent.background.terminal_rows import MOST_ROWS, TerminalRows
from turnlog.agent.background.wrapped_secrets import mask_wrapped
from turnlog.secrets import mask


def rows_after(*outputs: bytes, columns: int = 20, height: int = 5) -> TerminalRows:
    rows = TerminalRows(columns, height)
    for output in outputs:
        rows.feed(output)
    return rows


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (b"one\r\ntwo", "one\ntwo"),
        (b"draft\r\x1b[Kfinal", "final"),
        (b"a\r\nb\r\nc\x1b[2A\rX", "X\nb\nc"),
        (b"a\r\nb\r\nc\x1b[1A\r\x1b[Jd", "a\nd"),
        (b"x" * 25, "x" * 20 + "\n" + "x" * 5),
        ("日本".encode() * 6, "日本" * 5 + "\n日本"),
        (b"e\xcc\x81", "e\u0301"),
        (b"\x1b]0;title\x07text\x1b[?25l\x1b[6n", "text"),
        (b"a\x1b[31mred\x1b[0m", "ared"),
        (b"ab\b\bX", "Xb"),
        (b"gone\x1b[2J\x1b[Hhome", "home"),
        (b"a\r\nb\r\nc\x1b[2;1HX", "a\nX\nc"),
        (b"a\r\nb\r\nc\x1b[1;3HX", "a X\nb\nc"),
        (b"a\x1b[4HX", "a\n\n\nX"),
        (b"a\x1b[99;99HX", "a\n\n\n\n" + " " * 19 + "X"),
        (b"abc\x1b[2GX", "aXc"),
        (b"a\r\nb\r\nc\x1b[2A\x1b[1B\rX", "a\nX\nc"),
        (b"abc\x1b[2DX", "aXc"),
        (b"\x1b[3CX", "   X"),
        (b"abc\x1b[2D\x1b[1K", "  c"),
        (b"abc\x1b[2K\rX", "X"),
    ],
)
def test_output_becomes_rows(output: bytes, text: str) -> None:
    assert rows_after(output).plain().decode() == f"{text}\n"
    # However it is cut into pieces.
    pieces = [output[place : place + 1] for place in range(len(output))]
    assert rows_after(*pieces).plain().decode() == f"{text}\n"


def test_the_cursor_does_not_leave_the_screen() -> None:
    rows = rows_after(b"\r\n".join(b"row %d" % each for each in range(10)), b"\x1b[99A\rtop")
    assert rows.plain().decode().splitlines()[4:7] == ["row 4", "top 5", "row 6"]


def test_drawing_again_gives_the_same_rows_and_cursor() -> None:
    before = rows_after(
        b"plain\r\n\x1b[1;32mgreen\x1b[0m and \x1b[31mred\x1b[0m\r\nlast\x1b[1A\x1b[?2004h"
    )
    after = rows_after(before.drawn())
    assert (after.rows, after.row, after.column) == (before.rows, before.row, before.column)
    assert after.modes == before.modes
    assert b"\x1b[?2004l" in after.undone()


def test_nothing_but_text_and_colours_is_drawn_again() -> None:
    rows = rows_after(b"\x1b]52;c;ZXZpbA==\x07a\x1b[5n\x1b[31mb\x1bPq\x1b\\\x07\x1b[?1049h")
    drawn = rows.drawn()
    assert all(each not in drawn for each in (b"\x1b]", b"\x1bP", b"\x07", b"[5n", b"1049"))


def test_no_other_spelling_of_a_control_sequence_is_drawn_again() -> None:
    drawn = rows_after("\x9b31mred\x9d0;title\x9c\x1b[>4;2mkeys".encode()).drawn().decode()
    assert not re.search(r"[\x80-\x9f]|\x1b\[[<->]", drawn)


def test_a_sequence_without_an_end_is_not_kept_for_ever() -> None:
    rows = rows_after(b"\x1b[", *[b"1" * 1000] * 100)
    rows.feed(b"\r\nafter")
    assert rows.plain().endswith(b"after\n")


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_a_key_is_masked_across_rows(columns: int) -> None:
    key = "sk-ant-api03-" + "Ab3dE5gH7jK9" * 8
    shown = rows_after(f"It is {key} indeed\r\nThe end".encode(), columns=columns)
    masked = mask(mask_wrapped(shown.plain().decode()))
    assert ("Ab3" in masked, "H7j" in masked) == (False, False)
    assert masked.endswith("\nThe end\n")


@pytest.mark.parametrize("row", ["│ {} │ x  │", "> {}", "▌ {}"])
def test_a_key_is_masked_in_tables_and_quotations(row: str) -> None:
    key = "sk-ant-api03-" + "Ab3dE5gH7jK9" * 8
    pieces = [key[start : start + 14].ljust(14) for start in range(0, len(key), 14)]
    rows = ["Look:", *map(row.format, [*pieces, " " * 14]), "end"]
    masked = mask(mask_wrapped("\n".join(rows)))
    assert ("Ab3" in masked, "H7j" in masked) == (False, False)
    assert (masked.startswith("Look:\n"), masked.endswith("\nend")) == (True, True)


def test_a_table_without_keys_stays_as_it_is() -> None:
    table = "┌───┬───┐\n│ a │ b │\n│   │ c │\n└───┴───┘\na │ b │ c\n│"
    assert mask_wrapped(table) == table


def test_old_rows_are_forgotten() -> None:
    rows = rows_after(b"x\r\n" * (3 * MOST_ROWS))
    assert len(rows.rows) <= MOST_ROWS + rows.height


def test_a_narrower_terminal_wraps_rows() -> None:
    rows = rows_after(b"abcdefghij\r\nxyz")
    rows.resize(4, 5)
    assert rows.plain().decode() == "abcd\nefgh\nij\nxyz\n"
    assert (rows.row, rows.column) == (3, 3)


def test_output_is_read_in_any_encoding() -> None:
    assert rows_after(b"\xff\xfe\x1b[999999999999A\x1b[;;;H\x1b[?h\x1b[mok").plain()


def test_requests_are_read_in_pieces_and_senseless_ones_refused() -> None:
    sent = encode_frame(TYPED, b"keys") + encode_frame(STOP)
    reader = FrameReader()
    found = [frame for byte in sent for frame in reader.feed(bytes([byte]))]
    assert found == [(TYPED, b"keys"), (STOP, b"")]
    with pytest.raises(ValueError, match="too long"):
        list(FrameReader().feed(b"\xff" * 100))
