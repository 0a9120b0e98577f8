"""The tree: parents, branches, leaves, and paths to them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation.conftest import Opened
from support.build import (
    assistant,
    attachment,
    compaction,
    encode,
    line,
    moment,
    nth,
    system,
    text,
    user,
)
from turnlog.conversation.milestones import TreeMilestones
from turnlog.conversation.nodes import ChainNode
from turnlog.conversation.session import open_session
from turnlog.conversation.tree import Tree, grow_tree

TALK = (user("q1"), assistant(text("a1")), user("q2"), assistant(text("a2")))


def lines_of(tree: Tree, ranks: list[int]) -> list[int]:
    return [tree.chain[rank].line for rank in ranks]


def parents(tree: Tree) -> dict[int, int | None]:
    """The line of each line's parent."""
    at = [node.line for node in tree.chain]
    return {at[rank]: at[up] if up >= 0 else None for rank, up in enumerate(tree.parents)}


def flat(*values: object) -> bytes:
    return b"".join(map(encode, values))


def test_entries_hang_on_their_parents(opened: Opened) -> None:
    tree = opened(*TALK, user("other", parent=nth(2))).tree
    assert parents(tree) == {1: None, 2: 1, 3: 2, 4: 3, 5: 2}
    assert lines_of(tree, tree.leaves) == [4, 5]
    assert lines_of(tree, tree.roots) == [1]


def test_entries_that_are_no_part_of_the_conversation_are_not_in_the_tree(opened: Opened) -> None:
    tree = opened(line("summary", summary="x"), user("q1"), line("custom-title")).tree
    assert [node.line for node in tree.chain] == [2]


def test_a_path_goes_on_before_a_compaction(opened: Opened) -> None:
    tree = opened(*TALK, *compaction("so far", logical_parent_uuid=nth(2)), user("q3")).tree
    assert tree.active_leaf is not None
    assert lines_of(tree, tree.path_to(tree.active_leaf)) == [1, 2, 5, 6, 7]
    assert lines_of(tree, tree.ancestors(tree.active_leaf)) == [7, 6, 5]


@pytest.mark.parametrize("logical", [{}, {"logical_parent_uuid": nth(99)}])
def test_a_compaction_that_does_not_tell_follows_on_the_line_before_it(
    opened: Opened, logical: dict[str, str]
) -> None:
    tree = opened(*TALK, *compaction("so far", **logical)).tree
    assert tree.active_leaf is not None
    assert lines_of(tree, tree.path_to(tree.active_leaf)) == [1, 2, 3, 4, 5, 6]


def test_a_logical_parent_behind_its_compaction_does_not_go_round_in_circles(
    opened: Opened,
) -> None:
    tree = opened(user("q1"), *compaction("so far", logical_parent_uuid=nth(3))).tree
    assert tree.active_leaf is not None
    assert lines_of(tree, tree.path_to(tree.active_leaf)) == [1, 2, 3]


@pytest.mark.parametrize("named", [1, 2, 3, 5, 6, 7])
def test_every_milestone_is_reached_though_a_compaction_names_itself_or_a_later_entry(
    opened: Opened, named: int
) -> None:
    both = [*compaction("once", logical_parent_uuid=nth(named)), user("q2")]
    whole = opened(user("q1"), assistant(text("a1")), *both, *compaction("twice"), user("q3"))
    assert set(TreeMilestones(whole.tree).depths) == {0, 1, 2, 3, 4}


def test_a_parent_that_is_gone_is_told(opened: Opened) -> None:
    tree = opened(*TALK[:2], user("q2", parent=nth(77))).tree
    assert parents(tree) == {1: None, 2: 1, 3: 2}
    assert [node.line for node in tree.orphans] == [3]


def test_the_first_entry_may_have_a_parent_in_another_file(opened: Opened) -> None:
    tree = opened(user("q1", parent=nth(77)), assistant(text("a1"))).tree
    assert parents(tree) == {1: None, 2: 1}
    assert tree.orphans == []


def test_a_circle_is_cut_once(opened: Opened) -> None:
    tree = opened(user("q1"), user("x", parent=nth(4)), user("y"), user("z")).tree
    assert parents(tree) == {1: None, 2: 1, 3: 2, 4: 3}


def test_an_entry_that_is_its_own_parent_follows_on_the_line_before_it(opened: Opened) -> None:
    assert parents(opened(user("q1"), user("q2", parent=nth(2))).tree) == {1: None, 2: 1}


def test_an_entry_without_its_parent_follows_on_the_latest_before_it(opened: Opened) -> None:
    late = assistant(text("a1"), timestamp=moment(60))
    lost = user("q2", parent="gone", timestamp=moment(2))
    assert parents(opened(user("q1", timestamp=moment(1)), late, lost).tree)[3] == 1


def test_of_entries_with_one_uuid_the_last_is_in_the_tree(opened: Opened) -> None:
    tree = opened(user("q1"), user("old"), user("new", uuid=nth(2), parent=nth(1))).tree
    assert parents(tree) == {1: None, 3: 1}


def test_entries_that_cannot_be_a_tip_are_no_leaves(opened: Opened) -> None:
    progress = line("progress", data={"type": "hook_progress"})
    tree = opened(*TALK, progress, line("sparkle", uuid="s", parent=nth(5))).tree
    assert lines_of(tree, tree.leaves) == [4]
    assert tree.active_leaf is not None
    assert tree.chain[tree.active_leaf].line == 4


def test_a_leaf_behind_progress_takes_the_place_of_the_one_before_it(opened: Opened) -> None:
    progress = line("progress", data={"type": "hook_progress"})
    tree = opened(*TALK, progress, attachment("date"), system("informational")).tree
    assert lines_of(tree, tree.leaves) == [7]


def test_the_newest_leaf_is_that_of_the_latest_time(opened: Opened) -> None:
    late = user("late", parent=nth(2), timestamp="2027-01-01T00:00:00.000Z")
    tree = opened(*TALK[:2], late, user("q2", parent=nth(2)), TALK[3]).tree
    assert tree.newest_leaf is not None
    assert tree.active_leaf is not None
    assert tree.chain[tree.newest_leaf].line == 3
    assert tree.chain[tree.active_leaf].line == 5


def test_without_times_there_is_no_newest_leaf(opened: Opened) -> None:
    assert opened(user("q1", timestamp=None)).tree.newest_leaf is None


def test_below_an_entry_is_all_that_follows_on_it(opened: Opened) -> None:
    tree = opened(*TALK, user("other", parent=nth(2)), user("root", parent=None)).tree
    assert [node.line for node in tree.below(1)] == [2, 3, 4, 5]


def test_an_empty_file_has_an_empty_tree(opened: Opened) -> None:
    tree = opened().tree
    assert (tree.chain, tree.leaves, tree.active_leaf, tree.newest_leaf) == ([], [], None, None)


def test_the_entries_of_sub_agents_are_not_in_the_tree_of_their_session(opened: Opened) -> None:
    tree = opened(*TALK, user("side", parent=None, is_sidechain=True)).tree
    assert [node.line for node in tree.chain] == [1, 2, 3, 4]


def test_in_a_file_of_a_sub_agent_they_are(opened: Opened) -> None:
    tree = opened(user("side", is_sidechain=True), assistant(text("a"), is_sidechain=True)).tree
    assert parents(tree) == {1: None, 2: 1}


def test_a_log_without_any_uuid_or_parent_is_in_the_order_of_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "flat.jsonl"
    said = {"message": {"role": "assistant", "content": "a1"}}
    path.write_bytes(flat({"type": "user", "content": "q1"}, said, {"type": "user"}))
    tree = open_session(path).tree
    assert parents(tree) == {1: None, 2: 1, 3: 2}
    assert lines_of(tree, tree.leaves) == [3]


@pytest.mark.parametrize("field", [{"uuid": "x"}, {"parentUuid": "x"}])
def test_of_several_lines_without_a_uuid_the_last_counts_if_any_line_has_one_or_a_parent(
    tmp_path: Path, field: dict[str, str]
) -> None:
    path = tmp_path / "mixed.jsonl"
    plain = {"type": "user", "content": "q1"}
    path.write_bytes(flat(plain, plain | field, plain))
    kept = parents(open_session(path).tree)
    assert kept == ({2: None, 3: None} if "uuid" in field else {3: None})


@given(st.lists(st.integers(-1, 11), min_size=1, max_size=12))
def test_no_circle_is_left_whatever_the_parents(links: list[int]) -> None:
    names = [f"n{rank}" for rank in range(len(links))]
    nodes = [
        ChainNode(rank, rank, 0, 0, 0, "user", None, names[rank], parent, None, is_sidechain=False)
        for rank, link in enumerate(links)
        for parent in [names[link] if 0 <= link < len(links) else None]
    ]
    tree = grow_tree(nodes)
    for rank in range(len(nodes)):
        assert len(tree.ancestors(rank)) <= len(nodes)


def test_a_node_is_found_by_the_start_of_its_uuid(opened: Opened) -> None:
    whole = opened(user("q1", uuid="abc1"), user("q2", uuid="abd2", parent="abc1"))
    assert whole.node("abd").line == 2
    assert whole.node("abc1").line == 1
