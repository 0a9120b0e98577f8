"""What a directory brings along counts only once the user trusts it."""

import asyncio
import json
from pathlib import Path
from typing import Literal

import pytest

from scripted_api import ScriptedApi
from turnlog.agent.chat.assembly import Options
from turnlog.agent.chat.opening import open_chat
from turnlog.agent.chat.trust import ask_for_imports, is_trusted, may_import, require_trust
from turnlog.agent.permissions.asking import Question, Reply
from turnlog.errors import UsageError
from turnlog.store.paths import Store


class User:
    """Is asked, and gives one answer to everything."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.asked: list[str] = []
        self.named: list[str] = []

    async def ask(self, question: Question) -> Reply:
        self.asked.append(question.verdict.reason)
        self.named.append(question.input["description"])
        return self.reply


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"TURNLOG_HOME": str(tmp_path / "turnlog"), "CLAUDE_CONFIG_DIR": "set"}


def require(store: Store, root: Path, user: User, environment: dict[str, str]) -> None:
    asyncio.run(require_trust(store, root, user.ask, environment))


def test_a_directory_that_brings_nothing_is_not_asked_about(
    store: Store, project: Path, environment: dict[str, str]
) -> None:
    user = User(Reply("deny"))
    require(store, project, user, environment)
    assert user.asked == []


def test_one_that_brings_settings_is_asked_about_once(
    store: Store, project: Path, environment: dict[str, str]
) -> None:
    (project / ".claude").mkdir()
    (project / ".mcp.json").write_text("{}")
    user = User(Reply("allow"))
    require(store, project, user, environment)
    require(store, project, user, environment)
    assert user.asked == ["what it brings along can run commands: .claude, .mcp.json"]
    assert is_trusted(store, project / "below", environment)
    assert not is_trusted(store, project.parent, environment)


def test_one_that_is_not_trusted_is_left(
    store: Store, project: Path, environment: dict[str, str]
) -> None:
    (project / ".claude").mkdir()
    with pytest.raises(UsageError, match="is not trusted"):
        require(store, project, User(Reply("deny")), environment)
    assert not is_trusted(store, project, environment)


def test_what_the_client_was_told_counts(
    store: Store, project: Path, environment: dict[str, str]
) -> None:
    told = {"projects": {str(project): {"hasTrustDialogAccepted": True}}}
    store.root.mkdir(parents=True, exist_ok=True)
    (store.root / ".claude.json").write_text(json.dumps(told))
    assert is_trusted(store, project, environment)


@pytest.fixture
def outside(project: Path) -> Path:
    """A file that the project's memory imports, and that is not of the project."""
    path = project.parent / "mine.md"
    path.write_text("MINE")
    (project / "CLAUDE.md").write_text(f"@{path}\n@inside.md\n")
    (project / "inside.md").write_text("INSIDE")
    return path


def ask(store: Store, root: Path, user: User, environment: dict[str, str]) -> None:
    asyncio.run(ask_for_imports(store, root, user.ask, environment))


@pytest.mark.parametrize(("reply", "may"), [("allow", True), ("deny", False)])
def test_what_memory_imports_from_outside_is_asked_about_once(
    store: Store,
    project: Path,
    outside: Path,
    environment: dict[str, str],
    reply: Literal["allow", "deny"],
    may: bool,
) -> None:
    user = User(Reply(reply))
    ask(store, project, user, environment)
    ask(store, project, user, environment)
    assert user.named == [str(outside)]
    assert may_import(store, project, environment) is may


def test_imports_are_approved_for_a_whole_repository(
    store: Store, project: Path, outside: Path, environment: dict[str, str]
) -> None:
    (project / ".git").mkdir()
    below = project / "web"
    below.mkdir()
    ask(store, below, User(Reply("allow")), environment)
    assert may_import(store, project, environment)
    assert not may_import(store, project.parent, environment)


def test_memory_that_imports_nothing_from_outside_is_not_asked_about(
    store: Store, project: Path, environment: dict[str, str]
) -> None:
    (project / "CLAUDE.md").write_text("@inside.md")
    (project / "inside.md").write_text("INSIDE")
    user = User(Reply("allow"))
    ask(store, project, user, environment)
    assert user.asked == []
    assert not may_import(store, project, environment)


@pytest.mark.parametrize(
    ("told", "may"),
    [
        ({"hasClaudeMdExternalIncludesApproved": True}, True),
        (
            {
                "hasClaudeMdExternalIncludesApproved": False,
                "hasClaudeMdExternalIncludesWarningShown": True,
            },
            False,
        ),
    ],
)
def test_what_the_client_was_told_of_imports_counts(
    store: Store,
    project: Path,
    outside: Path,
    environment: dict[str, str],
    told: dict[str, bool],
    may: bool,
) -> None:
    store.root.mkdir(parents=True, exist_ok=True)
    (store.root / ".claude.json").write_text(json.dumps({"projects": {str(project): told}}))
    user = User(Reply("allow"))
    ask(store, project, user, environment)
    assert user.asked == []
    assert may_import(store, project, environment) is may


@pytest.mark.parametrize("reply", ["allow", "deny", None])
def test_only_what_is_approved_is_part_of_a_chat(
    store: Store,
    project: Path,
    outside: Path,
    api: ScriptedApi,
    monkeypatch: pytest.MonkeyPatch,
    reply: Literal["allow", "deny"] | None,
) -> None:
    monkeypatch.setenv("TURNLOG_HOME", str(project.parent / "turnlog"))

    async def memory() -> str:
        user = User(Reply(reply or "deny"))
        chat = await open_chat(store, Options(cwd=project), approve=user.ask if reply else None)
        await chat.close()
        return "".join(chat.parts.memory)

    found = asyncio.run(memory())
    assert ("MINE" in found, "INSIDE" in found) == (reply == "allow", True)
