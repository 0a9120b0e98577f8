"""The web app as a real server process, and clients that talk to it."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import NamedTuple

from turnlog.web.request_guards import GUARDS, SECURITY_HEADERS

SCRIPT = """
import json
import sys
from pathlib import Path
from threading import Thread
from turnlog.store.paths import Store
from turnlog.web import request_guards
from turnlog.web.login import Access
from turnlog.web.app import Protection, create_app
from turnlog.web.library import Library
from turnlog.web.server import ServerLimits, bind, serve
from turnlog.web.session_api import load_libraries

without, limits, *roots = sys.argv[1:]
bound = bind(0)
port = bound.getsockname()[1]
access = Access(port)
kept = tuple(guard for guard in request_guards.GUARDS if guard.__name__ != without)
headers = {k: v for k, v in request_guards.SECURITY_HEADERS.items() if k != without}
protection = Protection(request_guards.origins_of(port), access, kept, headers)
app = create_app(Library([Store(Path(root)) for root in roots]), protection)
def start():
    print(f"http://127.0.0.1:{port}{access.path}", flush=True)
    Thread(target=load_libraries, daemon=True).start()

serve(app, bound, start, ServerLimits(**json.loads(limits)))
"""


class Answer(NamedTuple):
    """A response, read whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class WebServer:
    """A running server; `get` sends the cookie once `log_in` has been called."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url
        """The one-time URL."""
        self.origin, self.landing = url[: url.index("/open")], url[url.index("/open") :]
        self.port = int(self.origin.rpartition(":")[2])
        self.cookie: str | None = None

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def log_in(self) -> "WebServer":
        """Exchange the one-time URL for the cookie."""
        answer = self.ask(self.landing)
        assert answer.status == 303
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return self

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        """Ask with the cookie."""
        return self.ask(path, {"Cookie": self.cookie or "", **(headers or {})})

    def ask(
        self, path: str, headers: Mapping[str, str] | None = None, method: str = "GET"
    ) -> Answer:
        """Ask with exactly these headers, besides `Host`."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in {"Host": self.host, **(headers or {})}.items():
                connection.putheader(name, value)
            connection.endheaders()
            response: HTTPResponse = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def connect(self) -> socket.socket:
        """Open a connection that sends nothing yet."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)


@contextmanager
def running_server(
    *roots: Path, without: str = "", limits: Mapping[str, float] | None = None
) -> Generator[WebServer]:
    """Run the server; `without` names a guard or a header that is left out."""
    names = {guard.__name__ for guard in GUARDS} | SECURITY_HEADERS.keys() | {""}
    assert without in names
    chosen = json.dumps(dict(limits or {}))
    command = [sys.executable, "-c", SCRIPT, without, chosen, *map(str, roots)]
    yield from _run(command)


@contextmanager
def running_command(*arguments: str) -> Generator[WebServer]:
    """Run `turnlog web`."""
    yield from _run([sys.executable, "-m", "turnlog", "web", "--no-open", *arguments])


def _run(command: list[str]) -> Generator[WebServer]:
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    )
    assert process.stdout
    assert process.stderr
    try:
        url = process.stdout.readline().strip()
        assert url, process.stderr.read()
        yield WebServer(process, url)
    finally:
        process.terminate()
        process.wait(timeout=10)
        process.stdout.close()
        process.stderr.close()
