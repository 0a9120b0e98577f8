"""The replay server against hostile programs and pages, over real sockets."""

import json
import socket
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest

from support.build import SESSION, assistant, session, text, user
from turnlog.agent.replay.local_http import ClientLimits
from turnlog.agent.replay.replay_server import ReplayServer
from turnlog.conversation.session import open_session

LIMITS = ClientLimits(connections=4, idle_seconds=1, request_seconds=1, body=10_000)
BODY = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode()
LENGTH = f"Content-Length: {len(BODY)}"


@contextmanager
def serving(folder: Path, limits: ClientLimits) -> Generator[ReplayServer]:
    path = folder / f"{SESSION}.jsonl"
    path.write_bytes(session(user("hi"), assistant(text("hello"))))
    server = ReplayServer(open_session(path), lambda why: None, limits=limits)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    with server:
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ReplayServer]:
    with serving(tmp_path, LIMITS) as server:
        yield server


@contextmanager
def connected(server: ReplayServer) -> Generator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        yield connection


def received(connection: socket.socket) -> bytes:
    """All that comes until the server closes the connection."""
    parts: list[bytes] = []
    with suppress(ConnectionError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def head(server: ReplayServer, *others: str, host: str = "127.0.0.1:PORT", size: int = -1) -> bytes:
    lines = ["POST /v1/messages HTTP/1.1", f"Host: {host}".replace("PORT", str(server.port))]
    lines += [] if any("length" in each.lower() for each in others) else [
        f"Content-Length: {len(BODY) if size < 0 else size}"
    ]  # fmt: skip
    return "\r\n".join([*lines, *others, "", ""]).encode("latin-1")


def status(server: ReplayServer, *others: str, body: bytes = BODY, **named: str) -> int:
    """The status of one request; the server is asked to close the connection after it."""
    with connected(server) as connection:
        size = -1 if body is BODY else len(body)
        connection.sendall(head(server, "Connection: close", *others, size=size, **named) + body)
        return int(received(connection).split(b" ")[1])


@pytest.mark.parametrize("host", ["127.0.0.1:PORT", "localhost:PORT", "[::1]:PORT"])
def test_programs_of_this_machine_are_served(server: ReplayServer, host: str) -> None:
    assert status(server, host=host) == 200


@pytest.mark.parametrize(
    "host",
    ["localhost:PORT@evil", "localhost:PORT@evil.example:80", "evil.example", "evil.example:PORT",
     "localhost", "127.0.0.1", "localhost:1", "localhost:PORT.evil", "localhost.:PORT", "",
     "127.0.0.2:PORT", "0.0.0.0:PORT", "[::ffff:127.0.0.1]:PORT", "localhost:PORT localhost:PORT",
     "evil:PORT\r\nHost: localhost:PORT", "user@localhost:PORT", "localhost:PORT/", "2130706433"],
)  # fmt: skip
def test_any_other_host_is_refused(server: ReplayServer, host: str) -> None:
    assert status(server, host=host) == 403


@pytest.mark.parametrize(
    "header",
    ["Origin: http://evil.example", "Origin: null", "Origin: http://localhost:1", "Origin: ",
     "Origin: https://localhost:PORT", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"],
)  # fmt: skip
def test_pages_of_other_origins_are_refused(server: ReplayServer, header: str) -> None:
    assert status(server, header.replace("PORT", str(server.port))) == 403


@pytest.mark.parametrize(
    "headers",
    [
        [LENGTH, "Content-Length: 50"],
        [LENGTH, LENGTH],
        ["Transfer-Encoding: chunked"],
        ["Transfer-Encoding: identity", LENGTH],
        ["transfer-encoding : chunked", LENGTH],
        [LENGTH, " Content-Length: 50"],
        [LENGTH, "X: a\r\n folded"],
    ],
)
def test_a_request_without_one_clear_end_is_refused(
    server: ReplayServer, headers: list[str]
) -> None:
    # `LENGTH` is right, so that the body is no other reason to refuse the request.
    with connected(server) as connection:
        connection.sendall(head(server, *headers) + BODY + head(server) + BODY)
        answers = received(connection)
    assert answers.startswith(b"HTTP/1.1 400 ")
    assert answers.count(b"HTTP/1.1 ") == 1


def test_a_body_may_be_as_large_as_the_limit(server: ReplayServer) -> None:
    assert status(server, body=BODY.ljust(LIMITS.body)) == 200


def test_requests_may_share_a_connection(server: ReplayServer) -> None:
    with connected(server) as connection:
        connection.sendall(2 * (head(server) + BODY) + head(server, "Connection: close") + BODY)
        assert received(connection).count(b"HTTP/1.1 200 ") == 3


@pytest.mark.parametrize(
    "length", ["", "-1", "+5", "5 5", "0x10", "1e3", "\xb2", "9" * 30, "10001"]
)
def test_a_length_that_is_none_or_too_large_is_refused(server: ReplayServer, length: str) -> None:
    assert status(server, f"Content-Length: {length}") == 413


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 9000,
        b'{"a":' * 1500 + b"1" + b"}" * 1500,
        b'{"messages":' + b"[" * 200 + b"]" * 200 + b"}",
        b'{"a":[' * 150 + b"]}" * 150,
        b'{"a":' + b"9" * 5000 + b"}",
        *(b"\xff", b"[]", b"null", b""),
    ],
)
def test_what_is_no_plain_object_gets_status_400(
    server: ReplayServer, body: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    assert status(server, body=body) == 400
    assert status(server) == 200
    assert "Traceback" not in capfd.readouterr().err


def test_too_many_or_too_long_headers_are_refused(server: ReplayServer) -> None:
    assert status(server, *(f"X-{number}: 1" for number in range(200))) == 431
    assert status(server, f"X: {'x' * 70_000}") == 431


@pytest.mark.parametrize("start", [b"", b"POST", b"POST /v1/messages HTTP/1.1\r\n", b"HEAD\x00"])
def test_who_sends_nothing_more_is_disconnected(server: ReplayServer, start: bytes) -> None:
    with connected(server) as connection:
        connection.sendall(start)
        begun = time.monotonic()
        received(connection)
        assert time.monotonic() - begun < 5


def test_who_sends_a_byte_now_and_then_is_disconnected(server: ReplayServer) -> None:
    with connected(server) as connection:
        begun = time.monotonic()
        with suppress(OSError):  # a broken pipe, or a reset
            while time.monotonic() - begun < 8:
                connection.sendall(b"X")
                time.sleep(0.1)
        assert time.monotonic() - begun < 5


def test_a_request_whose_time_is_over_before_it_is_read_ends_quietly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        serving(tmp_path, LIMITS._replace(request_seconds=0)) as server,
        connected(server) as connection,
    ):
        connection.sendall(b"POST")
        assert received(connection) == b""
    assert capsys.readouterr().err == ""


def test_a_body_that_never_ends_is_given_up(server: ReplayServer) -> None:
    with connected(server) as connection:
        connection.sendall(head(server, "Content-Length: 9000"))
        begun = time.monotonic()
        received(connection)
        assert time.monotonic() - begun < 5


def test_connections_beyond_the_limit_are_turned_away_and_come_free_again(
    server: ReplayServer,
) -> None:
    held = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(LIMITS.connections)]
    time.sleep(0.2)
    with connected(server) as connection:
        assert received(connection).startswith(b"HTTP/1.1 503 ")
    for connection in held:
        connection.close()
    deadline = time.monotonic() + 5
    while status(server) != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_body_that_is_not_read_is_no_request(server: ReplayServer) -> None:
    request = head(server).replace(b"POST", b"GET")
    with connected(server) as connection:
        connection.sendall(
            request.replace(b"Content-Length: ", b"Content-Length: 99") + head(server)
        )
        assert received(connection).count(b"HTTP/1.1 ") == 1
