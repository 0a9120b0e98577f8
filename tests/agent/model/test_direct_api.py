"""The Messages API without the official client: requests, and streams of any shape."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.scripted_api import Reply, ScriptedApi, said
from turnlog.agent.model.direct_api import DirectClient, RequestBodies, RequestBody, _data
from turnlog.agent.model.streaming import Faltered, Model
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


@contextmanager
def redirecting_server(target: str) -> Generator[tuple[str, list[str]]]:
    """A server that sends every request elsewhere; its address, and the paths it was asked for."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(307)
            self.send_header("Location", f"{target}{self.path}")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
        server.shutdown()


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
    ("variables", "credential"),
    [
        ({"ANTHROPIC_API_KEY": "k"}, {"x-api-key": "k"}),
        ({"ANTHROPIC_AUTH_TOKEN": "t"}, {"authorization": "Bearer t"}),
        ({"ANTHROPIC_API_KEY": "k", "ANTHROPIC_AUTH_TOKEN": "t"}, {"x-api-key": "k"}),
    ],
)
def test_the_key_and_the_headers_are_sent(
    variables: dict[str, str], credential: dict[str, str], api: ScriptedApi
) -> None:
    events = ask(variables | {"ANTHROPIC_BASE_URL": f"{api.url}/"})
    assert events[-1]["type"] == "message_stop"
    assert "ping" not in [event["type"] for event in events]
    (request,) = api.requests
    assert request.path == "/v1/messages"
    headers = ("anthropic-beta", "content-type")
    assert [request.headers[name] for name in headers] == ["a,b", "application/json"]
    names = ("x-api-key", "authorization")
    assert {name: request.headers[name] for name in names if name in request.headers} == credential
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


@pytest.mark.parametrize("more", [{}, {"ANTHROPIC_CUSTOM_HEADERS": "X-Team: a"}])
def test_no_redirect_is_followed(more: dict[str, str], api: ScriptedApi) -> None:
    """Nor is it tried again: neither key nor conversation goes where the user did not send it."""
    with redirecting_server(api.url) as (url, seen):
        given = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": url, **more}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in given.items():
                patch.setenv(name, value)
            with pytest.raises(ModelError, match=r"status 307") as found:
                ask(given)
    assert (len(seen), api.requests) == (1, [])
    assert not isinstance(found.value, Faltered)


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:99999",
        "http://localhost:0",
        "http://:80",
        "localhost:80",
        "ftp://localhost",
        "http://[::1",
        "http://ada:hunter2@localhost:port",
    ],
)
def test_an_address_that_cannot_be_requested_is_refused(url: str) -> None:
    with pytest.raises(ModelError, match="ANTHROPIC_BASE_URL is not the address") as found:
        ask({"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": url})
    assert "hunter2" not in found.value.line


def test_an_error_does_not_show_the_password_in_an_address() -> None:
    with pytest.raises(ModelError, match=r"no answer from http://127.0.0.1:9/v1/messages") as found:
        ask({"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "http://ada:hunter2@127.0.0.1:9"})
    assert "hunter2" not in found.value.line


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("", "https://api.anthropic.com/v1/messages"),
        ("http://localhost:1", "http://localhost:1/v1/messages"),
        ("http://localhost:65535", "http://localhost:65535/v1/messages"),
    ],
)
def test_requests_go_to_the_api_unless_another_address_is_named(base: str, expected: str) -> None:
    async def address() -> str:
        client = DirectClient({"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": base})
        await client.close()
        return client.address

    assert asyncio.run(address()) == expected


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


def bytes_of(bodies: RequestBodies, body: Fields) -> bytes:
    """The JSON of a request, which is the same in pieces and as a whole."""

    async def read(encoded: RequestBody) -> bytes:
        return b"".join([piece async for piece in encoded])

    encoded = bodies.encode(body)
    whole = bytes(encoded)
    assert asyncio.run(read(encoded)) == whole
    assert len(encoded) == len(whole)
    return whole


def test_what_was_sent_before_is_not_encoded_again() -> None:
    bodies = RequestBodies()
    first, *more = ({"role": "user", "content": f"text {number}"} for number in range(20))
    sent = json.loads(bytes_of(bodies, {"model": "m", "messages": [first, *more[:10]]}))
    assert sent == {"model": "m", "messages": [first, *more[:10]]}
    was = dict(first)
    first["content"] = "changed, and not looked at again"
    sent = json.loads(bytes_of(bodies, {"model": "m", "messages": [first, *more]}))
    assert sent == {"model": "m", "messages": [was, *more]}


@given(st.lists(st.lists(st.integers(0, 12), max_size=12), max_size=8))
def test_requests_are_encoded_as_they_are(requests: list[list[int]]) -> None:
    bodies = RequestBodies()
    known: list[Fields] = [{"role": "user", "content": [{"text": f"{n}"}]} for n in range(13)]
    for places in requests:
        body = {"model": "m", "messages": [known[place] for place in places]}
        assert json.loads(bytes_of(bodies, body)) == body


def test_a_lone_surrogate_becomes_a_question_mark() -> None:
    body = {"messages": [{"role": "user", "content": "a\ud83d"}], "system": "é"}
    sent = json.loads(bytes_of(RequestBodies(), body))
    assert (sent["messages"][0]["content"], sent["system"]) == ("a?", "é")
