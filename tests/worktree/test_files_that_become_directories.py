"""A path is a file or a directory at a moment, never both."""

import subprocess
from pathlib import Path

import pytest

from support.build import assistant, nth, session, text, user
from support.file_calls import (
    Calls,
    full_path,
    recorded,
    state_of,
    worktree_of,
)
from turnlog.conversation.session import open_session
from turnlog.edit.put_files import PlannedFile, put_files
from turnlog.worktree.beliefs import Certainty
from turnlog.worktree.file_names import file_name
from turnlog.worktree.git_export import export_git
from turnlog.worktree.moments import parse_moment
from turnlog.worktree.restore_plan import plan_restore
from turnlog.worktree.safe_paths import safe_paths
from turnlog.worktree.worktree import open_worktree


def git(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-C", folder, *words], capture_output=True, text=True, check=True
    ).stdout


def test_a_write_below_a_file_proves_that_the_file_is_gone(tmp_path: Path) -> None:
    calls = Calls()
    worktree = worktree_of(
        tmp_path,
        calls.write("x", "one\n"),
        calls.bash("rm x"),
        calls.write("x/y", "two\n"),
        calls.edit("x/y", "two", "three", "two\n"),
        calls.bash("make"),
    )
    assert state_of(worktree, "x", "line:5").content == b"one\n"
    gone = state_of(worktree, "x", "line:7")
    assert (gone.certainty, gone.is_absent, gone.line) == (Certainty.EXACT, True, 7)
    assert gone.tool == "file below"
    assert state_of(worktree, "x").is_absent
    assert state_of(worktree, "x").certainty is Certainty.DERIVED
    versions = worktree.versions(file_name("x", "/home/ada/shop"))
    assert [each.is_absent for each in versions] == [False, True]
    assert state_of(worktree, "x/y").content == b"three\n"
    assert state_of(worktree, "x/y", "line:3").is_absent


def test_a_write_in_place_of_a_directory_proves_that_files_in_it_are_gone(tmp_path: Path) -> None:
    calls = Calls()
    worktree = worktree_of(
        tmp_path, calls.write("x/y/z", "one\n"), calls.bash("rm -r x"), calls.write("x", "two\n")
    )
    gone = state_of(worktree, "x/y/z")
    assert (gone.certainty, gone.is_absent, gone.tool) == (Certainty.EXACT, True, "file above")
    assert state_of(worktree, "x").content == b"two\n"


@pytest.mark.parametrize("kind", ["missing", "deleted"])
def test_a_missing_file_says_nothing_about_the_path_above_it(tmp_path: Path, kind: str) -> None:
    calls = Calls()
    look = (
        calls.bash("rm x/y", [{"filePath": full_path("x/y"), "deleted": True, "hunks": []}])
        if kind == "deleted"
        else calls.pair(
            "Read", {"file_path": full_path("x/y")}, "Error: File does not exist.", None
        )
    )
    worktree = worktree_of(tmp_path, calls.write("x", "one\n"), look)
    assert state_of(worktree, "x").content == b"one\n"


def test_a_file_and_a_later_one_below_it_keep_their_names(tmp_path: Path) -> None:
    calls = Calls()
    path = recorded(tmp_path)
    one, two = calls.write("x", "one\n"), [*calls.bash("rm x"), *calls.write("x/y", "two\n")]
    three = [*calls.bash("rm -r x"), *calls.write("x", "three\n")]
    turns = [[user("go"), *each, assistant(text("done"))] for each in (one, two, three)]
    path.write_bytes(session(*(line for turn in turns for line in turn)))
    worktree = open_worktree(open_session(path))
    for number, (name, content) in enumerate([("x", b"one\n"), ("x/y", b"two\n")], 1):
        moment = parse_moment(worktree, str(number), None)
        plan = plan_restore(worktree, moment, worktree.changed_files)
        assert [(file.parts, file.content) for file in plan.files] == [
            (tuple(name.split("/")), content)
        ]
        target = tmp_path / str(number)
        put_files(target, [PlannedFile(*each) for each in plan.files], "restore")
        assert (target / name).read_bytes() == content
    target = tmp_path / "repository"
    export_git(worktree, target)
    assert [
        git(target, "ls-tree", "-r", "--name-only", f"main{end}") for end in ("~2", "~1", "")
    ] == [
        "x\n",
        "x/y\n",
        "x\n",
    ]
    assert git(target, "show", "main:x") == "three\n"


def test_branches_may_have_a_file_and_a_directory_of_one_name(tmp_path: Path) -> None:
    calls = Calls()
    path = recorded(tmp_path)
    lines = [
        user("start"),
        assistant(text("done")),
        user("first way"),
        *calls.edit("b", "x", "y", "x\n"),
        assistant(text("done")),
        user("second way", parent=nth(2)),
        *calls.edit("b/c", "x", "z", "x\n"),
        assistant(text("done")),
    ]
    path.write_bytes(session(*lines))
    target = tmp_path / "repository"
    main, other = export_git(open_worktree(open_session(path)), target).branches
    assert git(target, "fsck", "--strict") == ""
    assert git(target, "ls-tree", "-r", "--name-only", f"{main}~1") == "b\n"
    assert git(target, "show", f"{main}:b/c") == "z\n"
    assert git(target, "show", f"{other}:b") == "y\n"


def test_names_that_are_not_above_one_another_still_differ() -> None:
    names = [file_name(f"/p/{name}", None) for name in ("X", "x/y", "a", "a/b", "A/c")]
    paths = {key: "/".join(path) for key, path in safe_paths(names, lambda _: "/p").items()}
    assert paths == {
        "/p/A/c": "A/c",
        "/p/X": "X",
        "/p/a": "%61",
        "/p/a/b": "a/b",
        "/p/x/y": "%78/y",
    }
