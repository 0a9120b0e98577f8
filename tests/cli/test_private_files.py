"""Files that turnlog creates for itself are private, whatever the umask."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.build import SESSION, assistant, call, result, session, text, user
from support.planted import BARE
from support.scripted_api import ScriptedApi, called, said, scripted_api
from turnlog.agent.chat.debug_log import open_debug_log
from turnlog.errors import UsageError
from turnlog.format.private_files import create_private_folder, open_private, secure_folder

CONTENT = session(
    user(f"use {BARE[0].value}"),
    assistant(call("Bash", {"command": "ls"}, "A"), message_id="m1"),
    result("A", "out"),
    assistant(text("done"), message_id="m2"),
)
COMMANDS = [
    ["ls"],
    ["search", "done"],
    ["sync"],
    ["stats"],
    ["sql", "select 1"],
    ["statusline"],
    ["archive"],
    ["archive", "--check"],
    ["sync-with", "shared", "--init"],
    ["lake", "push", "lake"],
    ["lake", "verify", "lake"],
    ["rename", SESSION, "another"],
    ["clone", SESSION],
    ["bundle", SESSION, "-o", "x.turnlog"],
    ["share", SESSION, "--to", "page.html", "--yes"],
    ["redact", SESSION],
    ["edit", SESSION, "--strip-tools"],
    ["undo"],
    ["rm", SESSION],
    ["unbundle", "x.turnlog"],
    ["undo"],
    ["restore", SESSION],
    ["archive", "--install"],
    ["archive", "--background"],
    ["hook", "install", "--to", "http://127.0.0.1:9/"],
    ["hook", "status"],
    ["hook", "run", "--to", "http://127.0.0.1:9/"],
    ["hook", "send"],
    ["chat", "-p", "go", "--permission-mode", "bypassPermissions"],
    ["chat", "-p", "again", "--continue", "--fork-session"],
    ["search", "done"],
]
"""Commands that write, in an order in which each has something to do."""


@pytest.fixture
def api() -> Iterator[ScriptedApi]:
    write = called(("t1", "Write", {"file_path": "new.txt", "content": "one\n"}))
    print_much = called(("t2", "Bash", {"command": "seq 20000"}))
    with scripted_api(write, print_much, said("Done.")) as running:
        yield running


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with one session, in directories that only their user may enter."""
    home = tmp_path / "home"
    project = home / ".claude" / "projects" / "-home-ada"
    for folder in (home, home / ".claude", home / ".claude" / "projects", project, home / "work"):
        folder.mkdir(mode=0o700)
    path = project / f"{SESSION}.jsonl"
    path.write_bytes(CONTENT)
    path.chmod(0o600)
    os.utime(path, (0, 0))
    return home


def run(home: Path, api: ScriptedApi, command: list[str]) -> None:
    """Run a command with a umask that takes nothing away."""
    names = ("ANTHROPIC", "CLAUDE", "XDG", "TURNLOG")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(names)}
    key = {"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "not-a-key", "IS_SANDBOX": "1"}
    told = {"session_id": SESSION, "hook_event_name": "Stop", "transcript_path": "/nowhere"}
    done = subprocess.run(
        [sys.executable, "-m", "turnlog", *command],
        cwd=home / "work",
        env=kept | key | {"HOME": str(home)},
        input=json.dumps(told),
        capture_output=True,
        text=True,
        umask=0,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr, (command, done.stderr)
    assert command[0] == "hook" or done.returncode == 0, (command, done.stdout, done.stderr)


def open_to_others(home: Path) -> list[str]:
    """Return the paths that others may read or enter, except the user's own work."""
    return [
        f"{stat.S_IMODE(path.lstat().st_mode):o} {path.relative_to(home)}"
        for path in sorted(home.rglob("*"))
        if not path.is_relative_to(home / "work") and path.lstat().st_mode & 0o077
    ]


def test_nothing_that_turnlog_writes_is_open_to_others(home: Path, api: ScriptedApi) -> None:
    for command in COMMANDS:
        run(home, api, command)
    assert open_to_others(home) == []
    folders = {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_dir()}
    assert {
        ".cache/turnlog",
        ".local/share/turnlog/journal",
        ".local/share/turnlog/archive",
    } < folders


def test_turnlogs_own_directories_are_made_private_again(home: Path, api: ScriptedApi) -> None:
    cache, data = home / ".cache" / "turnlog", home / ".local" / "share" / "turnlog"
    own = [cache, data / "journal", data / "archive" / "sessions", data / "archive" / "objects"]
    for folder in own:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777)
    for command in (["search", "done"], ["archive"], ["rename", SESSION, "another"]):
        run(home, api, command)
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in own] == [0o700] * 4


def test_only_what_is_missing_is_created_and_existing_directories_stay(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o755)
    create_private_folder(shared / "a" / "b")
    create_private_folder(shared)
    modes = [stat.S_IMODE((shared / name).stat().st_mode) for name in ("", "a", "a/b")]
    assert modes == [0o755, 0o700, 0o700]
    (shared / "file").touch()
    with pytest.raises(FileExistsError):
        create_private_folder(shared / "file")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_belongs_to_another_user_is_left_as_it_is(tmp_path: Path) -> None:
    folder, file = tmp_path / "folder", tmp_path / "file"
    folder.mkdir()
    file.touch()
    for path in (folder, file):
        path.chmod(0o755)
        os.chown(path, 12345, 12345)
    secure_folder(folder)
    os.close(open_private(file, os.O_RDONLY))
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, file)] == [0o755, 0o755]


def test_a_log_is_not_written_to_a_file_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "debug.txt"
    file.touch(0o666)
    somebody = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: somebody)
    with pytest.raises(UsageError, match="belongs to another user"):
        open_debug_log(file, "")
    assert file.read_bytes() == b""
