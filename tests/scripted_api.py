"""The Messages API over real HTTP on this machine, saying what a test wants it to say."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple

from turnlog.format.fields import is_object

Fields = dict[str, Any]


class Reply(NamedTuple):
    """What the API says to one request."""

    body: Fields
    status: int = 200


class Request(NamedTuple):
    """What the API was asked."""

    path: str
    headers: dict[str, str]
    body: Fields


class ScriptedApi(ThreadingHTTPServer):
    """Gives one reply after the other, the last one again and again, and keeps the requests."""

    def __init__(self, *replies: Reply) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies = list(replies)
        self.requests: list[Request] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def next_reply(self) -> Reply:
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, ScriptedApi)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append(Request(self.path, headers, body))
        reply = self.server.next_reply()
        content = json.dumps(reply.body).encode()
        self.send_response(reply.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("request-id", f"req_{len(self.server.requests)}")
        self.send_header("retry-after-ms", "1")
        self.end_headers()
        self.wfile.write(content)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Keep quiet."""


@contextmanager
def scripted_api(*replies: Reply) -> Generator[ScriptedApi]:
    """An API that runs as long as it is looked at."""
    with ScriptedApi(*replies) as api:
        thread = Thread(target=api.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield api
        api.shutdown()
        thread.join()


def said(text: str, stop_reason: str = "end_turn") -> Reply:
    """An answer of the model."""
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude"}
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}]
    blocks += [{"type": "text", "text": text}] if text else []
    usage = {"input_tokens": 1, "output_tokens": 1}
    rest = {"content": blocks, "stop_reason": stop_reason, "stop_sequence": None, "usage": usage}
    return Reply(head | rest)


def refused(status: int, message: str) -> Reply:
    """An error of the API."""
    error = {"type": "error", "message": message}
    return Reply({"type": "error", "error": error}, status)


def text_of(request: Request) -> str:
    """What the user said in a request."""
    (message,) = request.body["messages"]
    content = message["content"]
    assert not is_object(content)
    return content
