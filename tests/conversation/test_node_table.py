"""A session opened with its node table is the same as one read from its file."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.build import assistant, call, compaction, line, nth, result, session, text, user
from support.session_strategies import Files, damaged_sessions, sessions
from support.strategies import damaged_files, sound_files
from turnlog.conversation import table_session, turn_blocks
from turnlog.conversation.milestones import Milestones
from turnlog.conversation.node_table import (
    TYPES,
    NodeTable,
    StaleTable,
    read_table,
    table_in_memory,
    write_table,
)
from turnlog.conversation.session import Session, open_session
from turnlog.conversation.table_builder import build_at, build_table, possible_cuts
from turnlog.conversation.table_session import TableSession
from turnlog.render.html.session_pages import session_head
from turnlog.render.json_views import turn_view
from turnlog.render.rows import ViewOptions, rows_of
from turnlog.render.tree_drawing import draw_tree

VERSION = "test"
FULL = ViewOptions(full=True)


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    """Let sessions of few turns have several blocks, and long turns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turn_blocks, "BLOCK", 2)
        patch.setattr(table_session, "BLOCK", 2)
        patch.setattr(turn_blocks, "LONG", 2)
        yield


def assert_same(fast: Session, slow: Session) -> None:
    """Compare everything that a reader can see of two sessions."""
    assert list(fast.turns) == list(slow.turns)
    assert list(map(str, rows_of(fast, FULL))) == list(map(str, rows_of(slow, FULL)))
    views = [[turn_view(each, turn) for turn in each.turns] for each in (fast, slow)]
    assert views[0] == views[1]
    assert list(draw_tree(fast)) == list(draw_tree(slow))
    assert (fast.slug, fast.client_version) == (slow.slug, slow.client_version)
    assert fast.outline() == slow.outline()
    assert fast.turn_blocks == slow.turn_blocks
    assert fast.outline(1, 3) == slow.outline(1, 3)
    assert fast.prompts() == slow.prompts()
    assert (fast.models, fast.last_line) == (slow.models, slow.last_line)
    lines = range(slow.last_line + 2)
    assert list(map(fast.turn_at, lines)) == list(map(slow.turn_at, lines))
    assert list(map(fast.node_at, lines)) == list(map(slow.node_at, lines))
    assert fast.active_leaf == slow.active_leaf
    assert branches(fast.milestones) == branches(slow.milestones)
    assert session_head(fast) == session_head(slow)
    assert fast.problems == slow.problems
    assert fast.subagents == slow.subagents
    names = {each.id for each in slow.calls}
    assert [fast.find_call(name) for name in names] == [slow.find_call(name) for name in names]
    assert fast.context() == slow.context()


def branches(stones: Milestones) -> list[tuple[object, ...]]:
    return [(stones.node(end), stones.depth(end), stones.last_entry(end)) for end in stones.ends]


def tables_of(path: Path) -> Iterator[NodeTable]:
    """Yield the table of a session for every place where it can end."""
    opened = open_session(path)
    if build_table(opened, VERSION):
        for cut in possible_cuts(opened):
            if parts := build_at(opened, cut, VERSION):
                yield table_in_memory(*parts)


def check_tables(path: Path) -> None:
    slow = open_session(path)
    for table in tables_of(path):
        fast = TableSession(path, table)
        assert_same(fast, slow)
        assert not fast._is_stale


def check_growth(path: Path, content: bytes, split: int) -> None:
    """Build tables of the first lines, append the rest, and compare."""
    lines = content.splitlines(keepends=True)
    start = b"".join(lines[: split % (len(lines) + 1)])
    path.write_bytes(start)
    tables = list(tables_of(path))
    with path.open("ab") as file:
        file.write(content[len(start) :])
    slow = open_session(path)
    for table in tables:
        try:
            fast = TableSession(path, table)
        except StaleTable:
            continue
        assert_same(fast, slow)
        assert not fast._is_stale


def check_refresh(path: Path, content: bytes, splits: list[int]) -> None:
    """Append in several steps to an open session, which is brought up to date each time."""
    ends = sorted(split % (len(content) + 1) for split in splits)
    lines = content[: ends[0]].rpartition(b"\n")
    path.write_bytes(b"".join(lines[:2]))
    followed = [TableSession(path, table) for table in tables_of(path)]
    for end in [*ends, len(content)]:
        size = path.stat().st_size
        with path.open("ab") as file:
            file.write(content[size:end])
        slow = open_session(path)
        for fast in followed:
            fast.refresh()
            assert_same(fast, slow)


def test_every_session_is_the_same_with_its_table(session_file: Path) -> None:
    check_tables(session_file)


@given(sessions() | damaged_sessions() | damaged_sessions(wildly=True))
def test_so_is_every_session_that_a_client_may_leave(
    tmp_path_factory: pytest.TempPathFactory, files: Files
) -> None:
    check_tables(files.write(tmp_path_factory.mktemp("drawn")))


def test_a_line_with_two_prompts_is_in_the_later_turn(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    first, second, *rest = session(user("one"), user("two"), *TURNS).splitlines()
    path.write_bytes(first + second + b"\n" + b"\n".join(rest) + b"\n")
    assert open_session(path).turn_at(1) == 2
    check_tables(path)


@given(damaged_files() | sound_files)
def test_so_is_every_other_file(scratch: Path, content: bytes) -> None:
    scratch.write_bytes(content)
    check_tables(scratch)


@given(sessions() | damaged_sessions(), st.integers(0, 60))
def test_lines_may_be_appended(
    tmp_path_factory: pytest.TempPathFactory, files: Files, split: int
) -> None:
    path = files.write(tmp_path_factory.mktemp("grown"))
    check_growth(path, files.content, split)


@given(sessions() | damaged_sessions(), st.lists(st.integers(0, 9000), min_size=1, max_size=3))
def test_an_open_session_reads_on(
    tmp_path_factory: pytest.TempPathFactory, files: Files, splits: list[int]
) -> None:
    path = files.write(tmp_path_factory.mktemp("followed"))
    check_refresh(path, files.content, splits)


def turn(number: int, parent: str | None = None) -> list[bytes]:
    """A turn with a call; the parent of its prompt is the line before it unless given."""
    above = {"parent": parent} if parent else {}
    return [
        user(f"prompt {number}", **above),
        assistant(call("Bash", {"command": "ls"}, f"toolu_{number}"), message_id=f"a{number}"),
        result(f"toolu_{number}", "a file"),
        assistant(text(f"answer {number}"), message_id=f"b{number}"),
    ]


TURNS = [raw for number in range(1, 6) for raw in turn(number)]


def test_a_subagent_inside_an_open_session_reads_on(scratch: Path) -> None:
    started = assistant(call("Task", {"prompt": "look here"}, "toolu_t"), message_id="t")
    lines = [
        user("Look around"),
        started,
        user("look here", parent=None, is_sidechain=True),
        assistant(text("seen here"), is_sidechain=True),
        result("toolu_t", parent=nth(22)),
    ]
    whole = session(*TURNS, *lines)
    ends = [whole.index(b"look here", whole.index(b"toolu_t") + 200), whole.index(b"seen here")]
    check_refresh(scratch, whole, [whole.rindex(b"\n", 0, end) + 1 for end in ends])


def test_a_compaction_on_a_cycle_has_a_depth(scratch: Path) -> None:
    cut = compaction("what was said", logical_parent_uuid=nth(8))
    scratch.write_bytes(session(*TURNS[:4], *cut, *turn(6), *turn(7, parent=nth(6))))
    assert len(session_head(open_session(scratch))["branches"]) == 2
    check_tables(scratch)


INDEPENDENT = {
    "a turn": turn(6),
    "an unanswered prompt": turn(6)[:1],
    "half a turn": turn(6)[:2],
    "several turns": turn(6) + turn(7),
    "a rewind within the tail": [*turn(6), *turn(7, parent=nth(20))],
    "a compaction": [*turn(6), *compaction("what was said", logical_parent=nth(24)), *turn(7)],
    "notes": [line("last-prompt", leaf_uuid=nth(20)), line("summary", summary="s"), *turn(6)],
    "a clock that was set back": [user("prompt 6", timestamp="2020-01-01T00:00:00.000Z")],
}
DEPENDENT = {
    "a rewind": turn(6, parent=nth(8)),
    "a recorded tip": [line("last-prompt", leaf_uuid=nth(8), explicit=True)],
    "a line written again": [user("prompt 2", uuid=nth(5), parent=nth(4)), *turn(6)],
    "a result of an earlier call": [*turn(6), result("toolu_2", "late")],
    "more of an earlier message": [*turn(6), assistant(text("more"), message_id="b2")],
    "a missing parent": [*turn(6), user("lost", parent="gone"), *turn(7)],
    "a new root": [*turn(6), user("anew", parent=None)],
}


def appended(path: Path, lines: list[bytes]) -> tuple[NodeTable, Session]:
    """Build the table of five turns whose tail is the last one, and append lines."""
    whole = session(*TURNS, *lines)
    start = b"".join(whole.splitlines(keepends=True)[: len(TURNS)])
    path.write_bytes(start)
    first = next(tables_of(path))
    assert first.head.offset < len(start)
    path.write_bytes(whole)
    return first, open_session(path)


@pytest.mark.parametrize("lines", INDEPENDENT.values(), ids=INDEPENDENT)
def test_the_table_is_used_for_lines_that_go_on(scratch: Path, lines: list[bytes]) -> None:
    table, slow = appended(scratch, lines)
    fast = TableSession(scratch, table)
    assert list(fast.turns) == list(slow.turns)
    assert "whole" not in vars(fast)
    assert_same(fast, slow)


@pytest.mark.parametrize("lines", DEPENDENT.values(), ids=DEPENDENT)
def test_the_table_is_not_used_for_lines_that_change_what_was_before(
    scratch: Path, lines: list[bytes]
) -> None:
    table, slow = appended(scratch, lines)
    with pytest.raises(StaleTable):
        TableSession(scratch, table)
    check_tables(scratch)
    assert slow.turns


def test_the_table_is_not_used_for_a_line_that_may_be_the_parent_of_an_orphan(
    scratch: Path,
) -> None:
    lost = user("lost", parent="gone", timestamp="2026-11-15T07:00:00.000Z")
    lines = [*turn(1), lost, assistant(text("yes")), *turn(2), *turn(3)]
    for hour, is_used in ((6, False), (8, True)):
        after = user("prompt 4", timestamp=f"2026-11-15T0{hour}:59:59.000Z")
        whole = session(*lines, after)
        scratch.write_bytes(b"".join(whole.splitlines(keepends=True)[: len(lines)]))
        table = next(tables_of(scratch))
        scratch.write_bytes(whole)
        if is_used:
            assert_same(TableSession(scratch, table), open_session(scratch))
        else:
            with pytest.raises(StaleTable):
                TableSession(scratch, table)


def test_the_table_is_used_for_a_tail_that_is_one_prompt(scratch: Path) -> None:
    scratch.write_bytes(session(*TURNS, *turn(6)[:1]))
    start = len(session(*TURNS))
    (table,) = [each for each in tables_of(scratch) if each.head.offset == start]
    fast, slow = TableSession(scratch, table), open_session(scratch)
    assert list(fast.turns) == list(slow.turns)
    assert "whole" not in vars(fast)
    assert_same(fast, slow)


NO_LEAF = "00000000-0000-0000-0000-000000000000"
PRESERVING = {"preservedMessages": {"anchorUuid": nth(19), "uuids": [nth(15), nth(16)]}}
REPLACED = [
    user("aside", parent=nth(12)),
    *compaction("so far", logical_parent=nth(16), compact_metadata=PRESERVING),
    line("last-prompt", leaf_uuid=nth(17)),
]
"""Records a tip that a compaction replaced, so that it does not overrule the lines so far."""
RECORDED_TIPS: dict[str, tuple[list[bytes], bool]] = {
    "none": ([], True),
    "above": ([line("last-prompt", leaf_uuid=nth(8))], True),
    "replaced": (REPLACED, False),
    "replaced, then none": (
        [*REPLACED, line("last-prompt", leaf_uuid=NO_LEAF, explicit=True)],
        False,
    ),
    "replaced, then above": ([*REPLACED, line("last-prompt", leaf_uuid=nth(19))], True),
    "replaced, then unknown": ([*REPLACED, line("last-prompt", leaf_uuid=nth(99))], True),
    "replaced, then a compaction": ([*REPLACED, *compaction("and now")], True),
}


@pytest.mark.parametrize("notes", RECORDED_TIPS)
def test_a_table_grows_unless_a_recorded_tip_may_overrule_later_lines(
    scratch: Path, notes: str
) -> None:
    lines, can_grow = RECORDED_TIPS[notes]
    scratch.write_bytes(session(*TURNS[:16], *lines, *turn(5)))
    longest = max(tables_of(scratch), key=lambda table: table.head.offset)
    assert longest.head.can_grow == can_grow


def test_entries_before_the_first_prompt_wait_for_its_turn(scratch: Path) -> None:
    lines = [user("a note", uuid=nth(1), is_meta=True), user("hi", uuid=nth(2))]
    content = session(*lines)
    check_growth(scratch, content, split=1)


def test_a_line_edited_in_place_is_noticed_where_it_is_shown(scratch: Path) -> None:
    table, _ = appended(scratch, turn(6))
    content = scratch.read_bytes()
    with scratch.open("r+b") as file:
        file.write(content.replace(b"prompt 2", b"PROMPT 2"))
    fast = TableSession(scratch, table)
    assert fast.turns[1] == open_session(scratch).turns[1]
    assert_same(fast, open_session(scratch))


def test_a_file_edited_without_growing_has_no_table(scratch: Path) -> None:
    scratch.write_bytes(session(*TURNS))
    tables = list(tables_of(scratch))
    content = scratch.read_bytes()
    with scratch.open("r+b") as file:
        file.write(content.replace(b"prompt 2", b"PROMPT 2"))
    os.utime(scratch, ns=(0, 1))
    for table in tables:
        with pytest.raises(StaleTable):
            TableSession(scratch, table)


def test_a_table_contains_no_text_of_its_session(tmp_path: Path) -> None:
    path, file = tmp_path / "session.jsonl", tmp_path / "table"
    path.write_bytes(session(*TURNS))
    parts = build_table(open_session(path), VERSION)
    assert parts
    write_table(file, *parts)
    content = file.read_bytes()
    for word in (b"prompt 2", b"answer", b"Bash", b"toolu", nth(3).encode()):
        assert word not in content


def test_every_column_is_verified(tmp_path: Path) -> None:
    """A byte changed anywhere makes a table stale, or changes nothing that is seen."""
    path, file = tmp_path / "session.jsonl", tmp_path / "table"
    path.write_bytes(session(*TURNS))
    slow = open_session(path)
    parts = build_table(slow, VERSION)
    assert parts
    assert set(parts.columns) == set(TYPES)
    write_table(file, *parts)
    content = file.read_bytes()
    for place in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[place] ^= 0x55
        file.write_bytes(damaged)
        assert_same(open_or_read(path, file), slow)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 100, 500, 1500])
def test_a_truncated_table_is_not_used(tmp_path: Path, size: int) -> None:
    path, file = tmp_path / "session.jsonl", tmp_path / "table"
    path.write_bytes(session(*TURNS))
    slow = open_session(path)
    parts = build_table(slow, VERSION)
    assert parts
    write_table(file, *parts)
    os.truncate(file, size)
    assert_same(open_or_read(path, file), slow)


@given(st.data())
def test_hostile_numbers_do_no_harm(scratch: Path, data: st.DataObject) -> None:
    """Numbers out of range in a table with valid checksums lead to the whole file."""
    scratch.write_bytes(session(*TURNS))
    slow = open_session(scratch)
    parts = build_table(slow, VERSION)
    assert parts
    name = data.draw(st.sampled_from(sorted(set(TYPES) - FIGURES)))
    column = parts.columns[name]
    if not column:
        return
    place = data.draw(st.integers(0, len(column) - 1))
    largest = 2 ** (8 * column.itemsize - (column.typecode in "iq")) - 1
    column[place] = data.draw(st.sampled_from([largest, largest // 2, 200]))
    try:
        fast = TableSession(scratch, table_in_memory(*parts))
    except StaleTable:
        return
    assert len(fast.turns) == len(slow.turns)
    assert [each.n for each in fast.turns] == [each.n for each in slow.turns]
    list(draw_tree(fast))
    list(rows_of(fast, FULL))
    fast.find_call("toolu_2")


FIGURES = {name for name in TYPES if name.startswith("figure_")}


def open_or_read(path: Path, file: Path) -> Session:
    table = read_table(file, VERSION)
    try:
        return TableSession(path, table) if table else open_session(path)
    except StaleTable:
        return open_session(path)
