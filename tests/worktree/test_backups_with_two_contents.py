"""Backups that may have the content of another moment: overwritten, set aside or left over."""

import os
from pathlib import Path

import pytest

from support.build import Fields, assistant, attachment, line, moment, nth, session, text, user
from support.file_calls import Calls, recorded, state_of
from turnlog.conversation.session import open_session
from turnlog.edit.edit_choices import EditChoices, edit_options
from turnlog.edit.journal import open_journal
from turnlog.edit.service import clone_session, edit_session
from turnlog.store.paths import Store
from turnlog.worktree.beliefs import Certainty
from turnlog.worktree.file_steps import branch_leaves
from turnlog.worktree.worktree import Worktree, open_worktree

EXACT, DERIVED, GAP = Certainty.EXACT, Certainty.DERIVED, Certainty.GAP
COPY = "0123456789abcdef@v{}"


def snapshot(message: str, time: str | None, version: int = 2, **fields: bool) -> bytes:
    ref: Fields = {"backupFileName": COPY.format(version), "version": version}
    ref |= {} if time is None else {"backupTime": time}
    held = {"messageId": message, "trackedFileBackups": {"a.txt": ref}, "timestamp": time}
    return line("file-history-snapshot", message_id=message, snapshot=held, **fields)


def written(folder: Path, *lines: bytes, **copies: bytes) -> Path:
    """A session in a store, with the backups `v1=…`, `v2=…`."""
    path = recorded(folder)
    path.write_bytes(session(*lines))
    backups = folder / "file-history" / path.stem
    backups.mkdir(parents=True)
    for version, content in copies.items():
        (backups / COPY.format(version[1:])).write_bytes(content)
    for each in (path, *backups.iterdir()):
        os.utime(each, (1, 1))
    return path


def way(name: str, time: str | None, parent: str) -> list[bytes]:
    """A branch with a prompt, at which a backup was made, and an answer."""
    prompt = user(name, uuid=f"{name}-1", parent=parent)
    return [prompt, snapshot(f"{name}-1", time), assistant(text("ok"), uuid=f"{name}-2")]


def state_on(path: Path, leaf: str) -> tuple[Certainty, bytes | None]:
    worktree = open_worktree(open_session(path))
    rank = worktree.session.tree.rank_of(leaf)
    place = worktree.place_of_turn([worktree.session.node(leaf)])
    state = worktree.at(worktree.find("a.txt"), place, rank)
    return state.certainty, state.content


START = [user("go"), assistant(text("hello"))]


@pytest.mark.parametrize(
    ("first", "second", "again", "states"),
    [
        # The client lists an old backup again as long as the file is unchanged.
        (moment(3), moment(6), moment(3), [GAP, EXACT]),
        # The clock was set, or lines of two machines were merged.
        (moment(6), moment(3), moment(6), [DERIVED, DERIVED]),
        (moment(3), moment(3), moment(3), [EXACT, DERIVED]),
        ("t1", "t2", "t1", [DERIVED, DERIVED]),
        (None, None, None, [DERIVED, DERIVED]),
    ],
)
def test_a_backup_has_the_content_of_the_use_that_was_listed_first_last(
    tmp_path: Path,
    first: str | None,
    second: str | None,
    again: str | None,
    states: list[Certainty],
) -> None:
    lines = [*START, *way("x", first, nth(2)), *way("y", second, nth(2))]
    lines += [user("on", uuid="x-3", parent="x-2"), snapshot("x-3", again)]
    path = written(tmp_path, *lines, v2=b"of y\n")
    assert [state_on(path, leaf)[0] for leaf in ("x-1", "y-1")] == states


def test_a_backup_that_is_listed_again_does_not_prove_the_bytes(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        user("go"),
        snapshot(nth(1), moment(1)),
        *Calls().bash("mv old a.txt"),
        user("again"),
        snapshot(nth(5), moment(1)),
        v2=b"one\n",
    )
    worktree = open_worktree(open_session(path))
    assert state_of(worktree, "a.txt", "line:2").certainty is EXACT
    assert state_of(worktree, "a.txt").certainty is DERIVED


def test_a_backup_next_to_one_that_was_set_aside_is_not_exact(tmp_path: Path) -> None:
    path = written(tmp_path, *START, *way("x", moment(3), nth(2)), v2=b"here\n")
    assert state_on(path, "x-2") == (EXACT, b"here\n")
    other = tmp_path / "file-history" / path.stem / f"{COPY.format(2)}.1a2b3c4d.theirs"
    other.write_bytes(b"there\n")
    assert state_on(path, "x-2") == (DERIVED, b"here\n")


def two_ways(folder: Path) -> tuple[Store, Path]:
    """A session of which both branches used `@v2`, which has the content of the second."""
    lines = [user("go"), snapshot(nth(1), moment(1), 1), assistant(text("hello"))]
    lines += [*way("x", moment(4), nth(3)), *way("y", moment(7), nth(3))]
    return Store(folder), written(folder, *lines, v1=b"one\n", v2=b"of y\n")


def edited(store: Store, path: Path, in_place: bool, **choices: object) -> Path:
    options = edit_options(EditChoices(**choices))  # pyright: ignore
    if in_place:
        edit_session(store, open_session(path), options)
        return path
    return clone_session(store, open_session(path), options).clone.path


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("choice", ["branch", "until"])
def test_a_cut_leaves_no_backup_with_the_content_of_a_dropped_branch(
    tmp_path: Path, choice: str, in_place: bool
) -> None:
    store, path = two_ways(tmp_path)
    result = edited(store, path, in_place, **{choice: "x-2"})
    backups = tmp_path / "file-history" / result.stem
    assert [each.name for each in backups.iterdir()] == [COPY.format(1)]
    worktree = open_worktree(open_session(result))
    assert all(each.content == b"one\n" for each in worktree.versions(worktree.find("a.txt")))
    if in_place:
        open_journal().undo()
        assert (backups / COPY.format(2)).read_bytes() == b"of y\n"


@pytest.mark.parametrize("in_place", [True, False])
def test_a_cut_keeps_the_backups_of_the_branch_that_stays(tmp_path: Path, in_place: bool) -> None:
    store, path = two_ways(tmp_path)
    result = edited(store, path, in_place, branch="y-2")
    backups = tmp_path / "file-history" / result.stem
    assert (backups / COPY.format(2)).read_bytes() == b"of y\n"
    # The snapshot of the other branch's prompt is not one of the entry before it.
    assert result.read_bytes().count(b"file-history-snapshot") == 2


def worktrees(path: Path) -> Worktree:
    return open_worktree(open_session(path))


def certainties(path: Path, name: str = "a.txt") -> set[Certainty]:
    worktree = open_worktree(open_session(path))
    file = worktree.find(name)
    states = [
        each.certainty
        for leaf in branch_leaves(worktree.session)
        for each in worktree.versions(file, leaf)
    ]
    return {*states, state_of(worktree, name).certainty}


HOOK = attachment("hook_success", {"hookEvent": "PostToolUse", "toolUseID": "toolu_1"})
PROGRESS = line(
    "progress", data={"type": "hook_progress"}, parent_tool_use_id="toolu_1", tool_use_id="toolu_1"
)


@pytest.mark.parametrize(
    ("choices", "hazard"),
    [
        ({"strip_tools": True}, Calls().bash("echo two > a.txt")),
        ({"strip_progress": True}, [PROGRESS]),
        ({"branch": "end"}, Calls().bash("make watch &")),
        ({"compress": True, "keep_last": 1}, Calls().bash("make watch &")),
    ],
)
@pytest.mark.parametrize("in_place", [True, False])
def test_nothing_is_exact_once_an_edit_removed_what_may_have_changed_it(
    tmp_path: Path, choices: dict[str, object], hazard: list[bytes], in_place: bool
) -> None:
    calls = Calls()
    calls.count = 10
    aside = [user("aside", uuid="aside"), *hazard, assistant(text("ok"))]
    aside = aside if "branch" in choices else hazard
    lines = [user("go"), *aside, user("on", parent=nth(1) if "branch" in choices else None)]
    if "branch" not in choices:
        lines = [user("go"), *hazard, assistant(text("so")), user("on")]
    lines += [snapshot("end-0", moment(20))]
    lines += [user("last", uuid="end-0"), *calls.write("b.txt", "new\n")]
    path = written(tmp_path, *lines, assistant(text("done"), uuid="end"), v2=b"one\n")
    result = edited(Store(tmp_path), path, in_place, **choices)
    if "strip_tools" not in choices:
        assert EXACT not in certainties(result, "b.txt")
    assert EXACT not in certainties(result)


@pytest.mark.parametrize("in_place", [True, False])
def test_nothing_is_exact_once_a_repair_removed_lines_that_cannot_be_read(
    tmp_path: Path, in_place: bool
) -> None:
    path = written(tmp_path, user("go"), *Calls().write("a.txt", "one\n"))
    path.write_bytes(path.read_bytes() + b'{"type":"assistant","uu\n' + user("on", parent=nth(3)))
    os.utime(path, (1, 1))
    result = edited(Store(tmp_path), path, in_place, repair=True)
    assert open_session(result).problems == []
    assert EXACT not in certainties(result)


def test_a_cut_at_the_end_leaves_states_exact_until_the_session_goes_on(tmp_path: Path) -> None:
    calls = Calls()
    lines = [user("go"), *calls.write("a.txt", "one\n"), assistant(text("done"))]
    lines += [user("on"), *calls.bash("make watch &"), assistant(text("done"))]
    path = written(tmp_path, *lines)
    result = edited(Store(tmp_path), path, in_place=True, until="1")
    assert state_of(worktrees(result), "a.txt").certainty is EXACT
    more = session(*lines[:4], user("more"), *calls.write("a.txt", "two\n", "one\n"))
    result.write_bytes(result.read_bytes() + b"".join(more.splitlines(keepends=True)[4:]))
    assert state_of(worktrees(result), "a.txt", "line:4").certainty is EXACT
    assert state_of(worktrees(result), "a.txt").certainty is DERIVED
    # A second edit keeps what the first one noted.
    again = edited(Store(tmp_path), result, in_place=False, strip_thinking=True, until="2")
    assert state_of(worktrees(again), "a.txt").certainty is DERIVED


def test_an_edit_that_removes_no_evidence_leaves_states_exact(tmp_path: Path) -> None:
    path = written(tmp_path, user("go"), *Calls().write("a.txt", "one\n"), assistant(text("x")))
    result = edited(Store(tmp_path), path, in_place=False, strip_thinking=True)
    assert state_of(worktrees(result), "a.txt").certainty is EXACT
