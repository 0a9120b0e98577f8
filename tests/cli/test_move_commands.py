"""mv, rename and rm: preview, apply, report, undo."""

import json
import os
from pathlib import Path

import pytest

from cli.conftest import Run
from support.build import SESSION, assistant, encode, session, text, user
from support.folders import tree, write
from turnlog.edit.move import directory_of
from turnlog.store.paths import folder_name

OTHER = "0ther000-0000-4000-8000-000000000000"
OLD = "/home/ada/shop"


@pytest.fixture
def path(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session that no client has touched lately, with a sub-agent and a prompt in the history."""
    root = project.parent.parent
    monkeypatch.setenv("TURNLOG_HOME", str(root.parent / f"{root.name}-turnlog"))
    path = write(project / f"{SESSION}.jsonl", session(user("first"), assistant(text("done"))))
    write(project / SESSION / "subagents" / "agent-a.jsonl", session(user("x"), agent_id="a"))
    write(root / "history.jsonl", encode({"display": "q", "project": OLD, "sessionId": SESSION}))
    os.utime(path, (10**9, 10**9))
    return path


@pytest.fixture
def new(path: Path) -> Path:
    folder = path.parents[2].parent / f"{path.parents[2].name}-new.shop"
    folder.mkdir()
    return folder


def moved(path: Path, new: Path) -> Path:
    return path.parents[1] / folder_name(str(new)) / path.name


def store_of(path: Path) -> Path:
    return path.parents[2]


def test_mv_takes_a_session_to_another_directory_and_undo_back(
    path: Path, new: Path, turnlog: Run
) -> None:
    before = tree(store_of(path))
    done = turnlog("mv", SESSION, str(new))
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == f"Moved 1 session to {new}"
    assert lines[1] == f"  {SESSION}  {OLD} → {new}"
    assert lines[2].endswith(", 1 prompt of the history")
    assert lines[3].startswith("  turnlog undo ")
    assert directory_of(moved(path, new)) == str(new)
    assert not path.parent.exists()
    assert turnlog(*lines[3].split()[1:]).code == 0
    assert tree(store_of(path)) == before


def test_mv_resolves_links_to_the_new_directory(path: Path, new: Path, turnlog: Run) -> None:
    link = new.with_name(f"{new.name}-link")
    link.symlink_to(new)
    assert turnlog("mv", SESSION, str(link)).code == 0
    assert moved(path, new).is_file()


def test_mv_with_project_takes_all_sessions_of_a_directory(
    path: Path, new: Path, turnlog: Run
) -> None:
    below = write(
        path.parents[1] / folder_name(f"{OLD}/web") / f"{OTHER}.jsonl",
        session(user("q", cwd=f"{OLD}/web"), session_id=OTHER),
    )
    os.utime(below, (10**9, 10**9))
    told = json.loads(turnlog("mv", "--project", OLD, str(new), "--json").out)
    assert told["sessions"] == [
        {"id": SESSION, "old": OLD, "new": str(new)},
        {"id": OTHER, "old": f"{OLD}/web", "new": f"{new}/web"},
    ]
    assert (told["old"], told["new"], told["files"], told["prompts"]) == (OLD, str(new), 3, 1)
    assert turnlog("undo", told["change"]).code == 0
    assert below.is_file()


def test_mv_needs_a_directory_that_exists(path: Path, new: Path, turnlog: Run) -> None:
    refused = turnlog("mv", SESSION, str(new / "missing"))
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert "mkdir" in refused.err
    assert path.is_file()


def test_mv_of_a_project_without_sessions_says_so(path: Path, new: Path, turnlog: Run) -> None:
    assert turnlog("mv", "--project", "/no/such", str(new)).code == 1
    assert turnlog("mv", "--project", str(new), str(new)).code == 2


def test_mv_to_where_a_session_is_already_says_so(path: Path, new: Path, turnlog: Run) -> None:
    turnlog("mv", SESSION, str(new))
    again = turnlog("mv", SESSION, str(new))
    assert again.code == 0
    assert again.out.startswith("Nothing to move")
    assert "undo" not in again.out


def test_rename_gives_a_title_that_ls_shows(path: Path, turnlog: Run) -> None:
    before = tree(store_of(path))
    done = turnlog("rename", SESSION, "Mend the\ncart")
    assert done.out.splitlines()[0] == f"Renamed {SESSION} to Mend the cart"
    assert json.loads(turnlog("ls", "--json").out)[0]["title"] == "Mend the cart"
    assert turnlog("undo").code == 0
    assert tree(store_of(path)) == before
    told = json.loads(turnlog("rename", "first", "Second", "--json").out)
    assert (told["id"], told["title"], bool(told["change"])) == (SESSION, "Second", True)


def test_rename_to_nothing_is_a_wrong_command_line(path: Path, turnlog: Run) -> None:
    assert turnlog("rename", SESSION, " \n ").code == 2


def test_rm_removes_sessions_and_tells_how_to_bring_them_back(path: Path, turnlog: Run) -> None:
    before = tree(store_of(path))
    size = sum(file.stat().st_size for file in path.parent.rglob("*.jsonl"))
    done = turnlog("rm", SESSION)
    assert done.out.splitlines()[:2] == [
        f"Removed {SESSION}  first",
        f"  2 files, {size / 1000:.1f} kB, 0 prompts of the history",
    ]
    assert list(path.parent.iterdir()) == []
    assert turnlog("undo", done.out.split()[-1]).code == 0
    assert tree(store_of(path)) == before


def test_rm_of_several_sessions_is_one_change(path: Path, turnlog: Run) -> None:
    other = write(path.with_name(f"{OTHER}.jsonl"), session(user("q"), session_id=OTHER))
    os.utime(other, (10**9, 10**9))
    told = json.loads(turnlog("rm", SESSION, OTHER, SESSION, "--history", "--json").out)
    assert (told["sessions"], told["prompts"], len(told["files"])) == ([SESSION, OTHER], 1, 3)
    assert len(json.loads(turnlog("history", "--json").out)) == 1
    assert (store_of(path) / "history.jsonl").read_bytes() == b""
    assert turnlog("undo").code == 0
    assert path.is_file()
    assert other.is_file()


@pytest.mark.parametrize("command", ["mv", "mv --project", "rename", "rm"])
def test_a_dry_run_changes_nothing(path: Path, new: Path, turnlog: Run, command: str) -> None:
    before = tree(store_of(path))
    arguments = {"mv": [SESSION, str(new)], "rename": [SESSION, "Title"], "rm": [SESSION]}
    name, *options = command.split()
    told = turnlog(name, *options, *([OLD, str(new)] if options else arguments[name]), "--dry-run")
    assert told.out.startswith("Would ")
    assert "undo" not in told.out
    assert tree(store_of(path)) == before
    assert json.loads(turnlog("history", "--json").out) == []


@pytest.mark.parametrize("command", ["mv", "rename", "rm"])
def test_a_session_in_use_is_refused(path: Path, new: Path, turnlog: Run, command: str) -> None:
    registry = write(store_of(path) / "sessions" / f"{os.getpid()}.json", b"")
    registry.write_bytes(encode({"sessionId": SESSION}))
    before = tree(store_of(path))
    refused = turnlog(command, SESSION, *([] if command == "rm" else [str(new)]))
    assert (refused.code, refused.out) == (1, "")
    assert "open in a running client" in refused.err
    assert tree(store_of(path)) == before


@pytest.mark.parametrize("command", ["mv", "rename", "rm"])
def test_a_sub_agent_is_no_session_of_its_own(
    path: Path, new: Path, turnlog: Run, command: str
) -> None:
    refused = turnlog(command, "agent-a", *([] if command == "rm" else [str(new)]))
    assert refused.code == 2
    assert "sub-agent" in refused.err


@pytest.mark.parametrize("command", ["mv", "rename", "rm"])
def test_a_file_outside_the_store_is_refused(
    path: Path, new: Path, turnlog: Run, command: str
) -> None:
    outside = write(new / "notes.jsonl", path.read_bytes())
    write(new / "notes" / "important.txt", b"not a sidecar")
    refused = turnlog(command, str(outside), *([] if command == "rm" else [str(new)]))
    assert refused.code == 2
    assert sorted(each.name for each in new.rglob("*.*")) == ["important.txt", "notes.jsonl"]


def test_a_path_of_a_session_of_the_store_will_do(
    path: Path, turnlog: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    assert turnlog("rm", f"../{path.parent.name}/{path.name}").code == 0
    assert not path.exists()
