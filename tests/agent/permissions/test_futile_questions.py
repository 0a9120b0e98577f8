"""Nobody is asked about a call that is bound to fail, and it tells no more than the model knows."""

import asyncio
from pathlib import Path

import pytest

from support.chatting import make_parts, rules_of
from turnlog.agent.loop.conversation import Parts
from turnlog.agent.permissions import VerdictKind
from turnlog.agent.permissions.gate import Invalid, admit
from turnlog.agent.permissions.policy import PermissionReply, Question
from turnlog.agent.tools.read import READ
from turnlog.agent.tools.toolbox import TOOLS
from turnlog.store.paths import Store


@pytest.fixture
def asked() -> list[Question]:
    return []


@pytest.fixture
def parts(store: Store, tmp_path: Path, asked: list[Question]) -> Parts:
    """A conversation whose user is asked about each edit, and agrees."""

    async def agree(question: Question) -> PermissionReply:
        asked.append(question)
        return PermissionReply("allow")

    made = make_parts(store, tmp_path)
    made.tools |= TOOLS
    made.ask = agree
    rules_of(made).kinds["Edit"] = VerdictKind.ASK
    return made


def read(parts: Parts, path: Path) -> None:
    async def run() -> None:
        value = READ.read({"file_path": str(path)})
        await READ.run(value, parts.workspace, lambda text: None)

    asyncio.run(run())


def edit(parts: Parts, path: Path, old: str) -> None:
    given = {"file_path": str(path), "old_string": old, "new_string": "new"}
    asyncio.run(admit(parts, {"id": "t1", "name": "Edit", "input": given}))


def test_an_edit_of_text_that_does_not_occur_is_not_asked_about(
    parts: Parts, tmp_path: Path, asked: list[Question]
) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    read(parts, path)
    with pytest.raises(Invalid, match="String to replace not found"):
        edit(parts, path, "y = 1")
    assert asked == []
    edit(parts, path, "x = 1")
    assert len(asked) == 1


def test_what_is_in_a_file_that_was_not_read_is_not_told(
    parts: Parts, tmp_path: Path, asked: list[Question]
) -> None:
    path = tmp_path / "a.py"
    path.write_text("password = 1\n")
    for old in ("password = 1", "password = 2"):
        edit(parts, path, old)
    assert len(asked) == 2


def test_a_link_that_takes_the_place_of_a_file_tells_nothing(
    parts: Parts, tmp_path: Path, asked: list[Question]
) -> None:
    path, secret = tmp_path / "a.py", tmp_path / "secret"
    path.write_text("x = 1\n")
    secret.write_text("password = 1\n")
    read(parts, path)
    path.unlink()
    path.symlink_to(secret)
    for old in ("password = 1", "password = 2"):
        edit(parts, path, old)
    assert len(asked) == 2
