"""The Messages API without the official client: what is sent, and streams of any shape."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.scripted_api import Reply, ScriptedApi, said
from turnlog.agent.model.direct_api import DirectClient, _data
from turnlog.agent.model.streaming import Model
from turnlog.errors import ModelError
from turnlog.format.json_values import Fields

REQUEST: Fields = {
    "model": "claude-opus-5-5",
    "max_tokens": 10,
    "messages": [{"role": "user", "content": "hi \u2028 \ud800"}],
    "extra_headers": {"anthropic-beta": "a,b"},
}


def ask(environment: dict[str, str]) -> list[Fields]:
    async def run() -> list[Fields]:
        model = Model(environment)
        try:
            async with model.ask(REQUEST) as stream:
                return [event async for event in stream.events]
        finally:
            await model.close()

    return asyncio.run(run())


def pieces(*given: bytes) -> list[bytes]:
    async def stream() -> AsyncIterator[bytes]:
        for piece in given:
            yield piece

    async def run() -> list[bytes]:
        return [data async for data in _data(stream())]

    return asyncio.run(run())


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_are_found_wherever_the_stream_is_cut(size: int) -> None:
    text = 'event: a\ndata: {"a":\ndata: 1}\n\n: comment\n\nevent: b\r\ndata:"x\u2028y"\r\n\r\n'
    raw = text.encode()
    cut = [raw[start : start + size] for start in range(0, len(raw), size)]
    assert pieces(*cut) == [b'{"a":\n1}', '"x\u2028y"'.encode()]


def test_an_event_that_is_not_complete_is_none() -> None:
    assert pieces(b"data: 1\n\ndata: 2\n") == [b"1"]


@pytest.mark.parametrize(
    ("variables", "token"),
    [
        ({"ANTHROPIC_API_KEY": "k"}, "Bearer k"),
        ({"ANTHROPIC_AUTH_TOKEN": "t"}, "Bearer t"),
        ({"ANTHROPIC_API_KEY": "k", "ANTHROPIC_AUTH_TOKEN": "t"}, "Bearer k"),
    ],
)
def test_the_key_and_the_headers_are_sent(
    variables: dict[str, str], token: str, api: ScriptedApi
) -> None:
    events = ask(variables | {"ANTHROPIC_BASE_URL": f"{api.url}/"})
    assert events[-1]["type"] == "message_stop"
    assert "ping" not in [event["type"] for event in events]
    (request,) = api.requests
    assert request.path == "/v1/messages"
    headers = ("authorization", "anthropic-beta", "content-type")
    assert [request.headers[name] for name in headers] == [token, "a,b", "application/json"]
    assert request.headers["anthropic-version"]
    assert request.body == {
        **{name: REQUEST[name] for name in ("model", "max_tokens")},
        "messages": [{"role": "user", "content": "hi \u2028 ?"}],
        "stream": True,
    }


def test_a_refusal_without_json_has_its_status(api: ScriptedApi) -> None:
    api.replies[:] = [Reply({}, 404)]
    with pytest.raises(ModelError, match=r"Error code: 404 \(status 404, request req_1\)"):
        ask({"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": api.url})


@pytest.mark.parametrize("key", ["\u201csecret", "secret\nsecret"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ModelError, match="ANTHROPIC_AUTH_TOKEN contains") as found:
        ask({"ANTHROPIC_AUTH_TOKEN": key, "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"})
    assert "secret" not in found.value.line


def test_the_usual_address_is_that_of_the_api() -> None:
    async def address() -> str:
        client = DirectClient({"ANTHROPIC_API_KEY": "k"})
        await client.close()
        return client.address

    assert asyncio.run(address()) == "https://api.anthropic.com/v1/messages"


def test_a_chat_does_not_import_the_official_client(api: ScriptedApi, tmp_path: Path) -> None:
    """Its import takes longer than the whole start of the client."""
    api.replies[:] = [said("Hello.")]
    package = tmp_path / "shadow" / "anthropic"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('the official client')")
    done = subprocess.run(
        [sys.executable, "-m", "turnlog", "chat", "-p", "hi", "--output-format", "json"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(package.parent)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert json.loads(done.stdout)["result"] == "Hello."
    assert "official" not in done.stderr
