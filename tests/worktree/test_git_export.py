"""A session as a git repository: commits, branches, merges, and nothing that git objects to."""

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from support.build import SESSION, assistant, call, line, moment, nth, result, session, text, user
from support.file_calls import CREATED, ROOT, Calls, forked, full_path, recorded
from turnlog.conversation.session import open_session
from turnlog.edit.move import move_session
from turnlog.edit.service import move_sessions
from turnlog.errors import Conflict, NotFound
from turnlog.store.paths import Store
from turnlog.worktree.across_sessions import history_of
from turnlog.worktree.file_names import FileName, file_name
from turnlog.worktree.git_export import GitExport, export_git
from turnlog.worktree.safe_paths import SPECIAL_IN_GIT, safe_paths
from turnlog.worktree.worktree import open_worktree

TOKEN = "ghp_" + "Ab3dEf6hIj9lMn2pQr5tUv8xYz1bCd4fGh7j"


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", folder, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def export(path: Path, target: Path, bare: bool = False) -> GitExport:
    done = export_git(open_worktree(open_session(path)), target, bare)
    assert git(target, "fsck", "--strict", "--full", "--no-dangling") == ""
    return done


def below_p(_: FileName) -> str:
    return "/p"


def two_turns(folder: Path) -> Path:
    calls = Calls()
    path = recorded(folder)
    lines = [
        user(f"Add a file\n\nThe key is {TOKEN}"),
        *calls.write("src/a.py", "one\n"),
        assistant(text("done")),
        user("Only look"),
        *calls.read("src/a.py", "one\n"),
        assistant(text("seen")),
        user("Change it"),
        *calls.edit("src/a.py", "one", "two", "one\n"),
        *calls.edit("b.md", "x", "y", "x\nkept\n"),
        assistant(text("done")),
    ]
    path.write_bytes(session(*lines))
    return path


def test_a_commit_for_each_turn_that_changed_files(tmp_path: Path) -> None:
    path, target = two_turns(tmp_path), tmp_path / "repository"
    done = export(path, target)
    assert list(done.branches) == ["main"]
    assert git(target, "log", "--format=%s|%an|%ad", "--date=iso").splitlines() == [
        "Change it|Claude Code|2026-11-15 06:00:14 +0000",
        "Add a file|Claude Code|2026-11-15 06:00:04 +0000",
        "Before the session|Claude Code|2026-11-15 06:00:01 +0000",
    ]
    assert git(target, "show", "HEAD:b.md") == "y\nkept\n"
    assert git(target, "show", "HEAD~2:b.md") == "x\nkept\n"
    assert (target / "src/a.py").read_text() == "two\n"
    assert git(target, "status", "--porcelain") == ""
    blamed = git(target, "blame", "-s", "src/a.py")
    assert blamed.startswith(git(target, "rev-parse", "HEAD")[:7])


def test_the_first_commit_is_the_oldest(tmp_path: Path) -> None:
    path, target = two_turns(tmp_path), tmp_path / "repository"
    newer = line("queue-operation", operation="enqueue", timestamp=moment(60))
    path.write_bytes(newer + path.read_bytes())
    export(path, target)
    times = git(target, "log", "--format=%at").split()
    assert times == sorted(times, reverse=True)


def test_the_prompt_is_masked_and_trailers_name_the_turn(tmp_path: Path) -> None:
    target = tmp_path / "repository"
    export(two_turns(tmp_path), target)
    message = git(target, "log", "-1", "--format=%B", "HEAD~1")
    assert TOKEN not in message
    assert "[github-token:" in message
    trailers = git(target, "log", "-1", "--format=%(trailers)", "HEAD").splitlines()
    assert trailers[:3] == [
        "Session: 5e551011-0000-4000-8000-000000000000",
        "Turn: 3",
        "Lines: 9-14",
    ]
    assert "Model: claude-opus-5-5" in trailers
    assert any(line.startswith("Cost: ") and line.endswith(" USD") for line in trailers)
    assert "States: 2 derived" in trailers


def test_two_exports_have_the_same_hashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = two_turns(tmp_path)
    first = export(path, tmp_path / "one")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Mallory")
    monkeypatch.setenv("GIT_AUTHOR_DATE", "2001-01-01T00:00:00Z")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    second = export_git(open_worktree(open_session(path)), tmp_path / "two.git", bare=True)
    assert first.branches == second.branches


def test_the_users_git_settings_have_no_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "user"
    (home / "template/hooks").mkdir(parents=True)
    marker = tmp_path / "ran"
    hook = home / "template/hooks/post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    (home / ".gitconfig").write_text(
        f"[init]\n\ttemplateDir = {home}/template\n[core]\n\tautocrlf = true\n"
        f"\thooksPath = {home}/template/hooks\n"
    )
    (home / ".config/git").mkdir(parents=True)
    (home / ".config/git/attributes").write_text("* text eol=crlf\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    path = two_turns(tmp_path)
    export_git(open_worktree(open_session(path)), tmp_path / "repository")
    assert not marker.exists()
    assert not (tmp_path / "elsewhere").exists()
    assert (tmp_path / "repository/src/a.py").read_bytes() == b"two\n"


def test_branches_of_the_conversation_are_branches(tmp_path: Path) -> None:
    calls = Calls()
    path = forked(tmp_path, calls, *calls.write("b.py", "three\n"))
    target = tmp_path / "repository"
    done = export(path, target)
    main, other = done.branches
    assert main == "main"
    assert other.startswith("branch-2-")
    assert git(target, "log", "-1", "--format=%s", "main") == "second way\n"
    assert git(target, "log", "-1", "--format=%s", other) == "first way\n"
    assert git(target, "merge-base", "main", other) == git(target, "rev-parse", "main~1")
    assert git(target, "show", "main:a.py") == "one\n"
    assert git(target, "show", f"{other}:a.py") == "two\n"


def test_the_work_of_sub_agents_is_merged(tmp_path: Path) -> None:
    calls = Calls()
    path = recorded(
        tmp_path,
        calls.write("a.txt", "one\n"),
        assistant(call("Agent", {"prompt": "go"}, "toolu_agent")),
        result("toolu_agent", "done", tool_use_result={"agentId": "a1", "status": "completed"}),
    )
    given = {"file_path": full_path("b.txt"), "content": "by the agent\n"}
    time = "2026-11-15T06:00:04.500Z"
    inner = [
        user("go", timestamp=time),
        assistant(call("Write", given, "sub_1"), timestamp=time),
        result("sub_1", CREATED.format(full_path("b.txt")), timestamp=time),
    ]
    folder = path.with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    (folder / "agent-a1.jsonl").write_bytes(session(*inner, agent_id="a1"))
    (folder / "agent-a1.meta.json").write_text(
        '{"description":"Write b","toolUseId":"toolu_agent"}'
    )
    target = tmp_path / "repository"
    export(path, target)
    assert git(target, "rev-list", "--parents", "-1", "main").count(" ") == 2
    assert git(target, "log", "-1", "--format=%s", "main^2") == "Write b\n"
    assert git(target, "show", "main^2:b.txt") == "by the agent\n"
    assert git(target, "diff", "--name-only", "main^1", "main^2") == "b.txt\n"
    assert sorted(git(target, "ls-files").split()) == ["a.txt", "b.txt"]


HOSTILE = (
    "/home/ada/shop/../../../etc/passwd",
    "/home/ada/shop/.git/hooks/post-checkout",
    "/home/ada/shop/.GIT/config",
    "/home/ada/shop/.g\u200cit/config",
    "/home/ada/shop/git~1/config",
    "/home/ada/shop/.git./x",
    "/home/ada/shop/sub/.gitmodules",
    "/home/ada/shop/.gitattributes",
    "/home/ada/shop/new\nline\nM 100755 inline evil",
    "/home/ada/shop/nul\0byte",
    '/home/ada/shop/quote"and\\slash',
    "/home/ada/shop/Readme.md",
    "/home/ada/shop/README.md",
    "/home/ada/shop/folder",
    "/home/ada/shop/folder/file",
    "/home/ada/shop/con.txt",
    "/home/ada/shop/" + "long" * 100,
    "/home/ada/shop/" + "deep/" * 2000 + "x",
    "/home/ada/shop/\u202egpj.exe",
    "/home/ada/shop/tab\there",
    "/home/ada/shop/-rf",
    "relative/../../../out",
    "C:\\Users\\ada\\..\\x.txt",
    "\\\\server\\share\\x",
    "/",
)


def test_hostile_paths_stay_inside_and_apart(tmp_path: Path) -> None:
    calls = Calls()
    parts = [
        calls.pair(
            "Write",
            {"file_path": path, "content": f"{number}\n"},
            CREATED.format("x"),
            {"type": "create", "filePath": path, "content": f"{number}\n"},
        )
        for number, path in enumerate(HOSTILE)
    ]
    target = tmp_path / "inside" / "repository"
    export(recorded(tmp_path, *parts), target)
    files = [path for path in target.rglob("*") if path.is_file() and ".git" not in path.parts]
    names = {str(path.relative_to(target)).casefold() for path in files}
    assert len(names) == len(files) == len(set(git(target, "ls-files", "-z").split("\0")) - {""})
    assert {path.name for path in tmp_path.iterdir()} == {"inside", "projects"}
    assert {path.name for path in (tmp_path / "inside").iterdir()} == {"repository"}
    assert not (target / ".git/hooks").exists()
    assert (target / "%2Egit/hooks/post-checkout").is_file()
    assert (target / "_outside/etc/passwd").is_file()
    assert (target / "_outside/C/Users/x.txt").is_file()
    contents = sorted(int(path.read_text()) for path in files)
    # Spellings of one path are one file; every other one keeps its own content.
    assert len(contents) == len(set(contents)) >= len(HOSTILE) - 3


def test_names_that_differ_only_in_case_stay_short_enough() -> None:
    long = "a" * 190
    names = [file_name(f"/p/{long[:n]}{long[n:].upper()}", None) for n in range(100)]
    paths = list(safe_paths(names, below_p).values())
    assert len({path[0].casefold() for path in paths}) == 100
    assert max(len(path[0].encode()) for path in paths) <= 200


def test_safe_paths_do_not_depend_on_the_order() -> None:
    names = [file_name(f"/p/{name}", None) for name in ("A", "a", "a/b", "B", "b")]
    assert safe_paths(names, below_p, SPECIAL_IN_GIT) == safe_paths(
        names[::-1], below_p, SPECIAL_IN_GIT
    )


def test_a_hostile_prompt_makes_no_commit_of_its_own(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    prompt = "x\0\ndata 3\nabc\n\nSession: forged\x1b[2J\ncommit refs/heads/evil\n\ud800"
    calls = Calls()
    path.write_bytes(session(user(prompt.replace("\ud800", "")), *calls.write("a.py", "one\n")))
    target = tmp_path / "repository"
    done = export(path, target)
    assert list(done.branches) == ["main"]
    assert git(target, "log", "--format=%(trailers:key=Session,valueonly)", "-1").split() == [
        path.stem
    ]
    assert "\x1b" not in git(target, "log", "-1", "--format=%B")


def test_a_gap_keeps_the_last_known_content_and_says_so(tmp_path: Path) -> None:
    calls = Calls()
    path = recorded(tmp_path)
    lines = [
        user("one"),
        *calls.write("a.py", "one\n"),
        assistant(text("done")),
        user("two"),
        *calls.edit("a.py", "nine", "ten", None),
        *calls.write("b.py", "b\n"),
    ]
    path.write_bytes(session(*lines))
    target = tmp_path / "repository"
    done = export(path, target)
    assert done.gaps == [full_path("a.py")]
    assert git(target, "show", "main:a.py") == "one\n"
    assert f"Gap: {full_path('a.py')}\n" in git(target, "log", "-1", "--format=%B")


def test_an_existing_directory_is_not_touched(tmp_path: Path) -> None:
    path, target = two_turns(tmp_path), tmp_path / "full"
    target.mkdir()
    (target / "kept").write_text("mine")
    with pytest.raises(Conflict, match="not empty"):
        export_git(open_worktree(open_session(path)), target)
    assert [each.name for each in target.iterdir()] == ["kept"]
    assert not list(tmp_path.glob(".turnlog-git-*"))


def test_a_session_without_changes_is_refused(tmp_path: Path) -> None:
    path = recorded(tmp_path, Calls().read("a.py", "x"))
    with pytest.raises(NotFound, match="changed no files"):
        export_git(open_worktree(open_session(path)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def moved(folder: Path) -> Path:
    """A session of /home/ada/shop that was moved to /srv/store."""
    store, calls = Store(folder), Calls()
    digest = hashlib.sha256(f"{ROOT}/src/a.py".encode()).hexdigest()[:16]
    delta = line(
        "file-history-delta",
        tracking_path=f"{ROOT}/src/a.py",
        backup={"backupFileName": f"{digest}@v1", "version": 1, "backupTime": "t"},
        message_id=nth(2),
        snapshot_message_id=nth(1),
    )
    written = calls.write("src/a.py", "one\n", original="before\n")
    path = recorded(folder, written, delta, calls.write("/etc/x", "x\n"))
    os.utime(path, (1, 1))
    (store.file_history / SESSION).mkdir(parents=True)
    (store.file_history / SESSION / f"{digest}@v1").write_bytes(b"before\n")
    move_sessions(store, move_session(store, path, "/srv/store"))
    return store.project_of("/srv/store") / path.name


def test_files_of_a_moved_session_stay_in_their_project(tmp_path: Path) -> None:
    path, target = moved(tmp_path), tmp_path / "repository"
    worktree = open_worktree(open_session(path))
    assert [name.path for name in worktree.files.values()] == ["/srv/store/src/a.py", "/etc/x"]
    assert worktree.find(f"{ROOT}/src/a.py") == worktree.find("src/a.py")
    (step,) = history_of({f"{ROOT}/src/a.py": [path]})
    assert step.step.version.path == "/srv/store/src/a.py"
    export(path, target)
    listed = git(target, "ls-tree", "-r", "--name-only", "main").split()
    assert listed == ["_outside/etc/x", "src/a.py"]
    assert git(target, "show", "main~1:src/a.py") == "before\n"
    assert git(target, "show", "main:src/a.py") == "one\n"


@pytest.mark.parametrize(
    ("new", "others", "expected"),
    [
        ("/srv/shop", [], ["src/a.py", "src/shop/b.py"]),
        ("/srv/shop", ["/etc/x"], ["_outside/etc/x", "src/a.py", "src/shop/b.py"]),
        # Something is in the new directory, or another of the name was used: nothing tells.
        ("/srv/shop", ["/srv/shop/c.py"], ["_outside/home/ada/shop/src/a.py", "c.py"]),
        ("/srv/shop", ["/opt/shop/c.py"], ["_outside/home/ada/shop/src/a.py"]),
        ("/srv/store", [], ["_outside/home/ada/shop/src/a.py"]),
    ],
)
def test_a_directory_of_the_same_name_has_the_files_of_a_moved_session(
    tmp_path: Path, new: str, others: list[str], expected: list[str]
) -> None:
    store, calls = Store(tmp_path), Calls()
    written = [calls.write(name, "x\n") for name in ("src/a.py", "src/shop/b.py", *others)]
    path = recorded(tmp_path, *written)
    os.utime(path, (1, 1))
    move_sessions(store, move_session(store, path, new))
    export(store.project_of(new) / path.name, tmp_path / "out")
    listed = git(tmp_path / "out", "ls-tree", "-r", "--name-only", "main").split()
    assert set(expected) <= set(listed)


def test_files_are_placed_by_the_directory_of_their_line(tmp_path: Path) -> None:
    elsewhere = Calls(cwd="/srv/other")
    later = elsewhere.write("/srv/other/sub/b.py", "two\n")
    path, target = recorded(tmp_path, Calls().write("a.py", "one\n"), later), tmp_path / "out"
    export(path, target)
    assert git(target, "ls-tree", "-r", "--name-only", "main").split() == ["a.py", "sub/b.py"]
