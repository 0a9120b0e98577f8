"""Rows of the picker at every width: aligned, complete where there is room, never too long."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcwidth import wcswidth

from turnlog.index.reports.session_list import ListedSession
from turnlog.picker.cells import fit, fit_end, shown, width_of
from turnlog.picker.help_text import FOOTERS, footer
from turnlog.picker.picker_state import PickerMode
from turnlog.picker.preview_pane import facts_line
from turnlog.picker.row_layout import DAY, RowFacts, RowLayout, days_left, fill_of

NOW = time.time()


def listed(**fields: object) -> ListedSession:
    values: dict[str, object] = {
        "id": "5e55", "path": "/x/5e55.jsonl", "store": "/x", "marks": "*",
        "title": "Fix it", "project": "/home/ada/shop",
        "branch": "main", "models": [], "turns": 1, "calls": 0, "errors": 0, "tokens": 10,
        "cost_usd": 1.5, "subagents": 0, "started": NOW, "last_active": NOW - 7200,
        "is_checked": True, "finding": None, "is_ambiguous": False, "modified": NOW,
        "context_tokens": 80_000, "context_model": "claude-sonnet-4-5",
    }  # fmt: skip
    return ListedSession(**values | fields)  # pyright: ignore[reportArgumentType]


def drawn(session: ListedSession, width: int, live: str | None = None) -> str:
    facts = RowFacts({session.id: live} if live else {}, 30, NOW)
    return "".join(text for _, text in RowLayout(width).row(session, facts, is_selected=False))


def test_a_row_of_80_cells_shows_everything() -> None:
    row = drawn(listed(), 80, "working")
    assert row.split() == ["●", "✓", "2h", "Fix", "it", "shop", "main", "$1.50*", "40%", "30d"]


def test_titles_get_the_room_of_states_that_no_session_has() -> None:
    idle, busy = RowLayout(120, has_live=False), RowLayout(120)
    assert idle.cells["title"] - busy.cells["title"] == busy.cells["live"] - 1
    assert "live" in busy.heading()[0][1]
    assert "live" not in idle.heading()[0][1]
    row = "".join(text for _, text in idle.row(listed(), RowFacts({}, 30, NOW), is_selected=False))
    assert width_of(row) == width_of(idle.heading()[0][1]) == 120


def test_a_tag_stands_before_the_title() -> None:
    facts = RowFacts({}, 30, NOW)
    row = RowLayout(80).row(listed(tag="release"), facts, is_selected=False)
    assert (" class:tag", "#release ") in row
    assert "#release Fix it " in drawn(listed(tag="release"), 80)
    assert "Fix it" in drawn(listed(tag="x" * 90), 80)


@given(st.text(max_size=60), st.text(max_size=30), st.integers(12, 220))
def test_rows_and_headings_fill_the_width_exactly(title: str, project: str, width: int) -> None:
    session = listed(title=title, project=project, branch=title, tag=project)
    layout = RowLayout(width)
    row = drawn(session, width, "waiting for permission")
    heading = "".join(text for _, text in layout.heading())
    if width >= 36:
        assert width_of(row) == width_of(heading) == width
    assert not {"\n", "\r", "\x1b", "\t"} & set(row)


@pytest.mark.parametrize("text", ["日本語", "ab", "한국어 mix", "e\u0301a", ""])
@pytest.mark.parametrize("cells", [1, 2, 3, 5, 12])
def test_text_is_cut_or_padded_to_its_cells(text: str, cells: int) -> None:
    assert width_of(fit(text, cells)) == cells
    assert width_of(fit_end(text, cells)) == cells


def test_health_is_unknown_until_a_session_was_checked() -> None:
    assert " · " in drawn(listed(is_checked=False), 80)
    assert " ✗ " in drawn(listed(finding="no time"), 80)


@pytest.mark.parametrize(
    ("size", "expected"),
    [(10, "not checked yet"), (5 << 20, "not checked, as it has 5.2 MB: turnlog check 5e55")],
)
def test_a_session_that_is_too_large_to_be_checked_says_so(
    tmp_path: Path, size: int, expected: str
) -> None:
    path = tmp_path / "5e55.jsonl"
    path.write_bytes(b"")
    os.truncate(path, size)
    facts = RowFacts({}, 30, NOW)
    lines = facts_line(listed(path=str(path), is_checked=False), facts, 80)
    assert f"· {expected}" in "".join(text for _, text in lines)
    assert "checked" not in "".join(text for _, text in facts_line(listed(), facts, 80))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("👩‍👩‍👧 b", "👩 b"),
        ("👩🏽‍🚀 b", "👩 b"),
        ("🏳️‍🌈 b", "🏳 b"),
        ("1️⃣ b", "1 b"),
        ("🏴󠁧󠁢󠁥󠁮󠁧󠁿 b", "🏴 b"),
        ("fi\u200dne", "fine"),
        ("日本", "日本"),
    ],
)
def test_of_an_emoji_of_several_parts_the_first_one_is_shown(text: str, expected: str) -> None:
    assert shown(text) == expected
    assert wcswidth(expected) == width_of(expected)


@pytest.mark.parametrize(
    ("days_ago", "expected"), [(0, "30d"), (29.5, "<1d"), (31, "now"), (25.2, "5d")]
)
def test_days_until_the_clean_up(days_ago: float, expected: str) -> None:
    assert days_left(listed(modified=NOW - days_ago * DAY), 30, NOW) == expected


def test_a_context_larger_than_the_short_window_is_in_the_long_one() -> None:
    assert fill_of(listed(context_tokens=250_000)) == 0.25
    assert fill_of(listed(context_tokens=None)) is None


@pytest.mark.parametrize("mode", list(PickerMode))
def test_the_footer_tells_how_to_leave_at_any_width(mode: PickerMode) -> None:
    text = "".join(fragment[1] for fragment in footer(FOOTERS[mode], "chat", 40))
    assert any(word in text for word in ("quit", "cancel", "keep", "close", "commands"))


def test_where_only_one_column_fits_it_is_the_title() -> None:
    assert [each.name for each in RowLayout(3).columns] == ["title"]


@pytest.mark.parametrize(
    ("days", "text", "is_urgent"),
    [(31, "now", True), (29.5, "<1d", True), (21.5, "8d", True), (10.5, "20d", False)],
)
def test_the_last_days_of_a_session_are_marked(days: float, text: str, is_urgent: bool) -> None:
    session = listed(modified=NOW - days * DAY)
    row = RowLayout(80).row(session, RowFacts({}, 30, NOW), is_selected=False)
    (style,) = (style for style, cell in row if cell.strip() == text)
    assert ("class:waiting" in style) == is_urgent


def test_the_facts_start_with_the_short_id() -> None:
    session = listed(id="5e551011-0000-4000-8000-000000000001")
    line = "".join(text for _, text in facts_line(session, RowFacts({}, 30, NOW), 80))
    assert line.startswith("── 5e551011 · 1 turn · ")
