"""What a directory brings along counts only once the user trusts it."""

import asyncio
import json
from pathlib import Path

import pytest

from turnlog.agent.chat.trust import is_trusted, require_trust
from turnlog.agent.turn.asking import Question, Reply
from turnlog.errors import UsageError
from turnlog.store.paths import Store


class User:
    """Is asked, and gives one answer to everything."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.asked: list[str] = []

    async def ask(self, question: Question) -> Reply:
        self.asked.append(question.verdict.reason)
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
