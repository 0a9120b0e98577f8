"""Symlinks in a store of someone else: nothing that they lead to is changed, moved or removed."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Run
from support.build import assistant, session, text, user
from turnlog.store.paths import folder_name

SESSION = "11111111-2222-4333-8444-555555555555"
TOKEN = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"


class Shared:
    """A store with one session, and files outside of it."""

    def __init__(self, root: Path) -> None:
        self.root = root / "claude"
        self.cwd = root / "shop"
        self.outside = root / "outside"
        self.folder = self.root / "projects" / folder_name(str(self.cwd))
        self.file = self.folder / f"{SESSION}.jsonl"
        self.outside.mkdir()
        self.cwd.mkdir()
        self.folder.mkdir(parents=True)
        cwd = str(self.cwd)
        lines = [user(f"hello {TOKEN}", slug="calm-fox", cwd=cwd), assistant(text("done"), cwd=cwd)]
        raw = session(*lines, session_id=SESSION)
        self.file.write_bytes(raw)
        (self.outside / "a.txt").write_text(f"mine {TOKEN}\n", "utf-8")
        (self.outside / "agent-a1.jsonl").write_bytes(raw)
        (self.outside / f"{SESSION}.jsonl").write_bytes(raw)
        (self.outside / "custom-title.json").write_text(f'{{"customTitle":"{TOKEN}"}}', "utf-8")
        (self.outside / "empty" / "folder").mkdir(parents=True)

    def settle(self) -> None:
        """Let all files seem old: a session that was just written to may be open."""
        for path in (*self.root.rglob("*.jsonl"), *self.outside.rglob("*.jsonl")):
            os.utime(path, (0, 0))

    def state(self) -> dict[Path, bytes | None]:
        return {
            path: path.read_bytes() if path.is_file() else None for path in self.outside.rglob("*")
        }


def link(path: Path, target: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def whole_folder(shared: Shared) -> None:
    """Replace the project's folder with a link to one outside."""
    shared.file.unlink()
    shared.folder.rmdir()
    shared.folder.symlink_to(shared.outside)


def session_itself(shared: Shared) -> None:
    shared.file.unlink()
    shared.file.symlink_to(shared.outside / shared.file.name)


def all_projects(shared: Shared) -> None:
    (shared.outside / shared.folder.name).mkdir()
    shared.file.rename(shared.outside / shared.folder.name / shared.file.name)
    shared.folder.rmdir()
    shared.folder.parent.rmdir()
    shared.folder.parent.symlink_to(shared.outside)


LINKS: dict[str, Callable[[Shared], None]] = {
    "sidecars": lambda s: link(s.file.with_suffix(""), s.outside),
    "tool results": lambda s: link(s.file.with_suffix("") / "tool-results", s.outside),
    "sub-agents": lambda s: link(s.file.with_suffix("") / "subagents", s.outside),
    "sub-agent beside": lambda s: link(s.folder / "agent-a1.jsonl", s.outside / "agent-a1.jsonl"),
    "backups": lambda s: link(s.root / "file-history" / SESSION, s.outside),
    "all backups": lambda s: (
        (s.outside / SESSION).mkdir(),
        (s.outside / SESSION / "x@v1").write_text(TOKEN, "utf-8"),
        link(s.root / "file-history", s.outside),
    )[2],
    "plan": lambda s: link(s.root / "plans" / "calm-fox.md", s.outside / "a.txt"),
    "plan of a sub-agent": lambda s: link(
        s.root / "plans" / "calm-fox-agent-x.md", s.outside / "a.txt"
    ),
    "to-do list": lambda s: link(s.root / "todos" / f"{SESSION}-agent-x.json", s.outside / "a.txt"),
    "debug log": lambda s: link(s.root / "debug" / f"{SESSION}.txt", s.outside / "a.txt"),
    "memory": lambda s: (
        (s.outside / "notes.md").write_text(TOKEN, "utf-8"),
        link(s.folder / "memory", s.outside),
    )[1],
    "title": lambda s: link(
        s.file.with_suffix("") / "custom-title.json", s.outside / "custom-title.json"
    ),
    "project": whole_folder,
    "session": session_itself,
    "projects": all_projects,
}
COMMANDS = {
    "redact": ["redact", SESSION],
    "redact all": ["redact", "--all"],
    "rm": ["rm", SESSION],
    "mv": ["mv", SESSION, "NEW"],
    "rename": ["rename", SESSION, "title"],
    "tag": ["tag", SESSION, "name"],
    "edit": ["edit", SESSION, "--strip-thinking"],
    "clone": ["clone", SESSION],
    "bundle": ["bundle", SESSION, "-o", "NEW/x.turnlog"],
}
REACHED = {
    "redact": {*LINKS} - {"title"},
    "rm": {*LINKS} - {"plan", "plan of a sub-agent", "memory"},
}
"""Links that a command meets on its way, and has to report."""


@pytest.fixture
def shared(tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Shared:
    assert project, "sets variables that are set anew here"
    made = Shared(tmp_path)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(made.root))
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    return made


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", LINKS)
def test_nothing_outside_of_a_store_changes(
    shared: Shared, tmp_path: Path, turnlog: Run, kind: str, command: str
) -> None:
    LINKS[kind](shared)
    shared.settle()
    (tmp_path / "new").mkdir()
    before = shared.state()
    words = [word.replace("NEW", str(tmp_path / "new")) for word in COMMANDS[command]]
    done = turnlog(*words)
    assert shared.state() == before
    if kind in REACHED.get(command, ()):
        assert done.code == 1
        assert "a symbolic link" in done.out + done.err


def test_a_folder_that_a_session_moves_to_may_be_no_link(
    shared: Shared, tmp_path: Path, turnlog: Run
) -> None:
    (tmp_path / "new").mkdir()
    link(shared.root / "projects" / folder_name(str(tmp_path / "new")), shared.outside)
    shared.settle()
    before = shared.state()
    done = turnlog("mv", SESSION, str(tmp_path / "new"))
    assert (done.code, shared.state()) == (1, before)
    assert shared.file.exists()


def test_a_link_to_a_file_of_the_store_is_not_worth_a_line(shared: Shared, turnlog: Run) -> None:
    """The client keeps `debug/latest`."""
    (shared.root / "debug").mkdir()
    (shared.root / "debug" / f"{SESSION}.txt").write_text(TOKEN, "utf-8")
    link(shared.root / "debug" / "latest", shared.root / "debug" / f"{SESSION}.txt")
    shared.settle()
    done = turnlog("redact", "--all")
    assert (done.code, "symbolic" in done.err) == (0, False)


def test_the_root_of_a_store_may_be_a_link(
    shared: Shared, tmp_path: Path, turnlog: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(shared.root)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "link"))
    shared.settle()
    assert turnlog("rm", SESSION).code == 0
    assert not shared.file.exists()
