"""The Messages API over real HTTP on this machine, saying what a test wants it to say.

A request with `stream` is answered by server-sent events, another one by JSON; both are made from
the same reply. A reply may also fail in the ways that real ones do. Nothing else is found here.
"""

import json
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from itertools import count
from threading import Event
from typing import Any, NamedTuple

from support.served import ClosableServer, served
from turnlog.format.json_values import is_object

Fields = dict[str, Any]
MODEL = "claude-opus-5-5"
PIECE = 7
"""Characters of a text or an input per event."""
_numbers = count(1)


class Reply(NamedTuple):
    """The response to one request."""

    body: Fields
    status: int = 200
    cut_after: int | None = None
    """Events to send before the connection is lost."""
    hold_after: int | None = None
    """Events to send before the stream stalls until the API is closed."""
    garbled_after: int | None = None
    """Events to send before one that is not JSON."""
    headers: tuple[tuple[str, str], ...] = (("retry-after-ms", "1"),)


class Request(NamedTuple):
    """A request to the API."""

    path: str
    headers: dict[str, str]
    body: Fields


class ScriptedApi(ClosableServer):
    """Gives one reply after the other, the last one again and again, and keeps the requests."""

    def __init__(self, *replies: Reply) -> None:
        super().__init__(_Handler)
        self.replies = list(replies)
        self.requests: list[Request] = []
        self.choose: Callable[[Fields], Reply | None] = lambda body: None
        """Picks the reply to a request by its content; None for the next one in the list."""
        self.holding = Event()
        """Set when an answer has come to where nothing more is sent."""

    def reply_to(self, body: Fields) -> Reply:
        chosen = self.choose(body)
        if chosen is not None:
            return chosen
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        api = self.server
        assert isinstance(api, ScriptedApi)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.path.partition("?")[0].endswith("/messages"):
            self.send_error(404)
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        api.requests.append(Request(self.path, headers, body))
        number = len(api.requests)
        reply = api.reply_to(body)
        if reply.status == 200:
            reply = reply._replace(body=reply.body | {"id": f"msg_{next(_numbers):04d}"})
        if reply.status == 200 and body.get("stream"):
            self._stream(api, reply, number)
        else:
            self._send(reply, number)

    def do_GET(self) -> None:
        self.send_error(404)

    def do_HEAD(self) -> None:
        self.send_error(404)

    def _send(self, reply: Reply, number: int) -> None:
        content = json.dumps(reply.body).encode()
        self._head(reply, number, "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, api: ScriptedApi, reply: Reply, number: int) -> None:
        self._head(reply, number, "text/event-stream")
        self.end_headers()
        for place, event in enumerate(stream_events(reply.body)):
            if place == reply.cut_after:
                break
            if place == reply.hold_after:
                api.holding.set()
                api.closing.wait()
                break
            data = "{garbled" if place == reply.garbled_after else json.dumps(event)
            try:
                self.wfile.write(f"event: {event['type']}\ndata: {data}\n\n".encode())
            except OSError:  # whoever asked has gone
                break

    def _head(self, reply: Reply, number: int, kind: str) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", kind)
        self.send_header("request-id", f"req_{number}")
        for name, value in reply.headers:
            self.send_header(name, value)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keep quiet."""


def stream_events(body: Fields) -> Iterator[Fields]:
    """Yield the events that stream a message."""
    usage = body["usage"]
    start: Fields = body | {
        "content": list[Fields](),
        "stop_reason": None,
        "usage": usage | {"output_tokens": 1},
    }
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    for index, block in enumerate(body["content"]):
        hollow, deltas = _pieces_of(block)
        yield {"type": "content_block_start", "index": index, "content_block": hollow}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": body["stop_reason"], "stop_sequence": body["stop_sequence"]}
    yield {"type": "message_delta", "delta": end, "usage": usage}
    yield {"type": "message_stop"}


def _pieces_of(block: Fields) -> tuple[Fields, list[Fields]]:
    """Return the initial block and its deltas."""
    if block["type"] == "text":
        texts = [{"type": "text_delta", "text": piece} for piece in _cut(block["text"])]
        return block | {"text": ""}, texts
    if block["type"] == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": each} for each in _cut(block["thinking"])]
        signed = {"type": "signature_delta", "signature": block["signature"]}
        return block | {"thinking": "", "signature": ""}, [*deltas, signed]
    if block["type"] == "tool_use":
        written = _cut(json.dumps(block["input"]))
        parts = [{"type": "input_json_delta", "partial_json": piece} for piece in written]
        return block | {"input": {}}, parts
    return block, []


def _cut(text: str) -> list[str]:
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]


@contextmanager
def scripted_api(*replies: Reply) -> Generator[ScriptedApi]:
    """Run an API that gives scripted replies."""
    with served(ScriptedApi(*replies)) as api:
        yield api


def said(text: str, stop_reason: str = "end_turn") -> Reply:
    """An answer of the model."""
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}]
    blocks += [{"type": "text", "text": text}] if text else []
    return answered(*blocks, stop_reason=stop_reason)


def called(*calls: tuple[str, str, Fields], text: str = "") -> Reply:
    """An answer that calls tools, each given as its id, the tool's name and the input."""
    blocks: list[Fields] = [{"type": "text", "text": text}] if text else []
    blocks += [{"type": "tool_use", "id": i, "name": name, "input": v} for i, name, v in calls]
    return answered(*blocks, stop_reason="tool_use")


def answered_by(model: str, reply: Reply) -> Reply:
    """An answer that names another model than the usual one."""
    return reply._replace(body=reply.body | {"model": model})


def answered(*blocks: Fields, stop_reason: str = "end_turn", **usage: int) -> Reply:
    """An answer of any blocks; `usage` adds to its counts of tokens."""
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL}
    counts = {"input_tokens": 1, "output_tokens": 1} | usage
    rest = {"stop_reason": stop_reason, "stop_sequence": None, "usage": counts}
    return Reply(head | {"content": list(blocks)} | rest)


def refused(status: int, message: str, kind: str = "error") -> Reply:
    """An error of the API."""
    error = {"type": kind, "message": message}
    return Reply({"type": "error", "error": error}, status)


def text_of(request: Request) -> str:
    """Return the text of the only message of a request."""
    (message,) = request.body["messages"]
    content = message["content"]
    assert not is_object(content)
    return content
