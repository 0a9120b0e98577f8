"""A session opened with its node table is the same as one read from its file."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.build import assistant, call, compaction, line, nth, result, session, text, user
from support.session_strategies import Files, damaged_sessions, sessions
from support.strategies import damaged_files, sound_files
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


def assert_same(fast: Session, slow: Session) -> None:
    """Compare everything that a reader can see of two sessions."""
    assert list(fast.turns) == list(slow.turns)
    assert list(map(str, rows_of(fast, FULL))) == list(map(str, rows_of(slow, FULL)))
    views = [[turn_view(each, turn) for turn in each.turns] for each in (fast, slow)]
    assert views[0] == views[1]
    assert list(draw_tree(fast)) == list(draw_tree(slow))
    assert (fast.slug, fast.client_version) == (slow.slug, slow.client_version)
    assert fast.outline() == slow.outline()
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


def test_every_session_is_the_same_with_its_table(session_file: Path) -> None:
    check_tables(session_file)


@given(sessions() | damaged_sessions() | damaged_sessions(wildly=True))
def test_so_is_every_session_that_a_client_may_leave(
    tmp_path_factory: pytest.TempPathFactory, files: Files
) -> None:
    check_tables(files.write(tmp_path_factory.mktemp("drawn")))


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
