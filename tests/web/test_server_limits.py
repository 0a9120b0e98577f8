"""Programs that open many connections, send slowly, read slowly, or send too much."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from http.client import HTTPConnection
from pathlib import Path

import pytest

from support.build import SESSION, assistant, call, result, session, text, user
from support.web_server import WebServer, running_server
from turnlog.web.session_api import MOST_TURNS

FAR = 10**6
MANY = 1000
LARGE = 900_000
CALLS = 20
"""Characters of each of so many results, which are many times what a socket buffers."""
ROWS = f"/api/sessions/{SESSION}/rows?n=1&first=0&last=100&whole=1"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "home" / "projects" / "-home-ada-shop"
    folder.mkdir(parents=True)
    lines = [user("hello"), assistant(text("hi"))]
    (folder / f"{SESSION}.jsonl").write_bytes(session(*lines))
    return tmp_path / "home"


def open_descriptors(server: WebServer) -> int:
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


def opened(server: WebServer, count: int, stack: ExitStack) -> Iterator[socket.socket]:
    for _ in range(count):
        yield stack.enter_context(closing(server.connect()))


def test_a_response_has_as_many_turns_as_one_may_have(home: Path) -> None:
    (path,) = home.rglob("*.jsonl")
    turns = [line for n in range(60) for line in (user(f"q{n}"), assistant(text("hi")))]
    path.write_bytes(session(*turns))
    with running_server(home) as server:
        server.log_in()
        answer = server.get(f"/api/sessions/{SESSION}/turns?first=1&last=1000")
    assert len(json.loads(answer.text)) == MOST_TURNS


def test_responses_do_not_wait_for_acknowledgements(home: Path) -> None:
    with running_server(home) as server:
        headers = {"Cookie": server.log_in().cookie or ""}
        connection = HTTPConnection("127.0.0.1", server.port)
        seconds: list[float] = []
        for _ in range(20):
            started = time.monotonic()
            connection.request("GET", "/static/app.css", headers=headers)
            assert connection.getresponse().read()
            seconds.append(time.monotonic() - started)
        connection.close()
        # If Nagle's algorithm holds the body back, each of them takes 0.04 seconds.
        assert min(seconds) < 0.03


@pytest.mark.parametrize("limits", [{}, {"connections": FAR}])
def test_a_thousand_open_connections_do_not_lock_the_browser_out(
    home: Path, limits: dict[str, float]
) -> None:
    with running_server(home, limits=limits) as server, ExitStack() as stack:
        server.log_in()
        assert len(list(opened(server, MANY, stack))) == MANY
        started = time.monotonic()
        assert server.get("/api/sessions").status == 200
        assert time.monotonic() - started < 5
        is_limited = not limits
        assert (open_descriptors(server) < 300) == is_limited


@pytest.mark.parametrize("seconds", [1, FAR])
@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n"])
def test_a_request_that_does_not_arrive_closes_its_connection(
    home: Path, seconds: float, sent: bytes
) -> None:
    limits = {"request_seconds": seconds}
    with running_server(home, limits=limits) as server, server.connect() as connection:
        connection.settimeout(4)
        connection.sendall(sent)
        assert is_closed(connection) == (seconds == 1)


def test_a_byte_now_and_then_does_not_keep_a_connection(home: Path) -> None:
    with (
        running_server(home, limits={"request_seconds": 1}) as server,
        server.connect() as connection,
        pytest.raises((BrokenPipeError, ConnectionResetError)),
    ):
        drip(connection, seconds=8)


def drip(connection: socket.socket, seconds: float) -> None:
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        connection.sendall(b"G")
        time.sleep(0.2)


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


@pytest.mark.parametrize("seconds", [1, FAR])
def test_a_client_that_does_not_read_is_dropped(home: Path, seconds: float) -> None:
    lines = [user("x")]
    for n in range(CALLS):
        lines.append(assistant(call("Bash", {"command": "cat"}, f"t{n}")))
        lines.append(result(f"t{n}", "y " * (LARGE // 2)))
    next(home.rglob("*.jsonl")).write_bytes(session(*lines))
    with running_server(home, limits={"read_seconds": seconds}) as server:
        server.log_in()
        with server.connect() as connection:
            head = f"GET {ROWS} HTTP/1.1\r\nHost: {server.host}\r\nCookie: {server.cookie}\r\n\r\n"
            connection.sendall(head.encode())
            assert connection.recv(10).startswith(b"HTTP/1.1")
            time.sleep(4)
            assert (received(connection) < CALLS * LARGE) == (seconds == 1)


def received(connection: socket.socket) -> int:
    """Return how many bytes arrive until the end, or until nothing does for a second."""
    connection.settimeout(2)
    total = 0
    try:
        while part := connection.recv(1 << 16):
            total += len(part)
    except (TimeoutError, ConnectionResetError):
        pass
    return total


def test_a_long_head_is_refused(home: Path) -> None:
    with running_server(home) as server, server.connect() as connection:
        connection.sendall(f"GET / HTTP/1.1\r\nHost: {server.host}\r\n".encode())
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(b"X: " + b"x" * (1 << 20))
            assert b" 400 " in connection.recv(1000)
        assert server.log_in().get("/api/sessions").status == 200


@pytest.mark.parametrize(("size", "status"), [(15_000, 200), (18_000, 400), (100_000, 400)])
def test_the_limit_of_a_head_holds_for_one_that_arrives_at_once(
    home: Path, size: int, status: int
) -> None:
    with running_server(home) as server, server.connect() as connection:
        cookie = server.log_in().cookie
        head = f"GET / HTTP/1.1\r\nHost: {server.host}\r\nCookie: {cookie}\r\nX: {'x' * size}"
        connection.sendall(f"{head}\r\n\r\n".encode())
        assert connection.recv(1000).startswith(f"HTTP/1.1 {status} ".encode())


def test_a_body_is_not_read(home: Path) -> None:
    with running_server(home) as server, server.connect() as connection:
        connection.settimeout(10)
        head = f"GET / HTTP/1.1\r\nHost: {server.host}\r\nContent-Length: 100000000\r\n\r\n"
        connection.sendall(head.encode())
        assert b" 401 " in connection.recv(1000)
        assert received(connection) < 1000
        assert is_closed(connection)


def test_a_line_of_300_megabytes_is_shown_in_part(home: Path) -> None:
    path = next(home.rglob("*.jsonl"))
    marks = session(
        user("before"), assistant(call("Bash", {"command": "x"})), result("toolu_1", "@")
    )
    head, _, tail = marks.rpartition(b"@")
    with path.open("wb") as file:
        file.write(head)
        for _ in range(300):
            file.write(b"A" * (1 << 20))
        file.write(tail)
    with running_server(home) as server:
        server.log_in()
        started = time.monotonic()
        turns = server.get(f"/api/sessions/{SESSION}/turns?first=1&last=1")
        raw = server.get(f"/api/sessions/{SESSION}/raw/3")
        assert time.monotonic() - started < 120
        assert turns.status == raw.status == 200
        assert "before" in turns.text
        assert len(turns.body) + len(raw.body) < 1_000_000
