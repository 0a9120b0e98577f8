"""An address that hooks post to, on this machine."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple

from support.served import ClosableServer, served

Fields = dict[str, Any]


class Posted(NamedTuple):
    """A request of a hook."""

    path: str
    headers: dict[str, str]
    body: Fields


class Reply(NamedTuple):
    """The response to a hook."""

    text: str = ""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


class HookServer(ClosableServer):
    """Answers each path as a test wants, and records requests."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.replies: dict[str, Reply] = {}
        self.silent: set[str] = set()
        """Paths whose answer never comes."""
        self.posted: list[Posted] = []


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, HookServer)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.posted.append(Posted(self.path, dict(self.headers.items()), body))
        if self.path in server.silent:
            server.closing.wait()
            return
        reply = server.replies.get(self.path, Reply())
        self.send_response(reply.status)
        for name, value in reply.headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.text.encode())))
        self.end_headers()
        self.wfile.write(reply.text.encode())

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Keep quiet."""


@contextmanager
def hook_server() -> Generator[HookServer]:
    """Run a server that hooks can post to."""
    with served(HookServer()) as server:
        yield server
