"""Resume interrupted sessions, and check the requests and the file afterwards."""

import asyncio
import json
from typing import Any

import pytest

from support.chat_process import ChatProcess
from support.scripted_api import ScriptedApi
from turnlog.agent.chat.assembly import PRINTED, ChatOptions
from turnlog.agent.chat.opening import open_chat
from turnlog.conversation.session import open_session
from turnlog.edit.check.checks import check_session

GO_ON = "GO ON"
TORN = {"unreadable-line"}
Fields = dict[str, Any]


def go_on(chat: ChatProcess, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch) -> list[Fields]:
    """Resume a session as `turnlog chat -p --resume` does; return the messages sent.

    Check that they are sound, that the file's content is still there, and that only a torn line is
    bad.
    """
    before = chat.session.read_bytes()
    messages = asked_anew(chat, api, monkeypatch)
    check_messages(messages)
    assert chat.session.read_bytes().startswith(before)
    serious = [each for each in check_session(open_session(chat.session)) if each.is_serious]
    assert {each.kind for each in serious} <= TORN
    assert sum(each.count for each in serious) <= 1
    return messages


def check_told(content: bytes, messages: list[Fields]) -> None:
    """All that a file holds of a conversation is in the messages."""
    whole = content.splitlines(keepends=True)
    if whole and not is_json(whole[-1]):
        whole.pop()
    sent = {name_of(block) for message in messages for block in message["content"]}
    assert told_in(whole) <= sent | {""}


def asked_anew(
    chat: ChatProcess, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> list[Fields]:
    """Return the messages that are sent when a session is resumed."""
    for name, value in chat.environment.items():
        monkeypatch.setenv(name, value)

    async def run() -> None:
        options = ChatOptions(cwd=chat.work, entrypoint=PRINTED, resume=chat.session)
        opened = await open_chat(chat.store, options)
        async for _ in opened.send(GO_ON, "sdk"):
            pass
        await opened.close()

    asyncio.run(run())
    return api.requests[-1].body["messages"]


def check_messages(messages: list[Fields]) -> None:
    """Messages are as the API wants them: in turns, each call answered right behind it."""
    assert [message["role"] for message in messages[::2]] == ["user"] * len(messages[::2])
    assert [message["role"] for message in messages[1::2]] == ["assistant"] * len(messages[1::2])
    assert blocks_of(messages[-1], "text")[-1]["text"].strip() == GO_ON
    called: list[str] = []
    for message in messages:
        assert message["content"]
        answered = [block["tool_use_id"] for block in blocks_of(message, "tool_result")]
        assert answered == called
        called = [block["id"] for block in blocks_of(message, "tool_use")]
    assert called == []


def blocks_of(message: Fields, kind: str) -> list[Fields]:
    return [block for block in message["content"] if block["type"] == kind]


def told_in(lines: list[bytes]) -> set[str]:
    """The texts, calls and results that lines hold of a conversation."""
    entries = [json.loads(raw) for raw in lines]
    said_ = [each["message"] for each in entries if each["type"] in ("user", "assistant")]
    contents = [each["content"] for each in said_]
    return {name_of(block) for each in contents if not isinstance(each, str) for block in each}


def name_of(block: Fields) -> str:
    """Return the text or id that identifies a block; thinking has none, as it may be dropped."""
    names = ("text", "id", "tool_use_id")
    return next((f"{name}: {block[name].strip()}" for name in names if name in block), "")


def is_json(raw: bytes) -> bool:
    try:
        json.loads(raw)
    except ValueError:
        return False
    return True
