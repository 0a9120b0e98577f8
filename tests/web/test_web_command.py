"""The command `turnlog web`: what it prints, how it stops, and why it may not start."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.build import SESSION, assistant, session, text, user
from support.web_server import running_command
from turnlog.store.paths import Store

OTHER = "0bad0000-0000-4000-8000-000000000000"


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "data"))


def add_session(store: Store, prompt: str, session_id: str = SESSION) -> Path:
    path = store.projects / "-home-ada-shop" / f"{session_id}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(session(user(prompt), assistant(text("hi")), session_id=session_id))
    return path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "turnlog", "web", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_url_is_printed_and_ctrl_c_stops_the_server(store: Store) -> None:
    add_session(store, "hello")
    with running_command() as server:
        assert server.url.startswith("http://127.0.0.1:")
        assert server.log_in().get("/sessions").status == 200
        started = time.monotonic()
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(timeout=10) == 0
        assert time.monotonic() - started < 5
        assert server.process.stderr
        assert server.process.stderr.read() == "Press Ctrl-C to stop.\n"


@pytest.mark.parametrize("path", [f"sessions/{SESSION}/events", "live/events"])
def test_ctrl_c_ends_streams_at_once(store: Store, path: str) -> None:
    add_session(store, "hello")
    with running_command() as server, server.connect() as connection:
        server.log_in()
        request = f"GET /api/{path} HTTP/1.1\r\nHost: {server.host}\r\n"
        connection.sendall(f"{request}Cookie: {server.cookie}\r\n\r\n".encode())
        assert b"200 OK" in connection.recv(1000)
        started = time.monotonic()
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(timeout=10) == 0
        # Less than the second that responses have to finish.
        assert time.monotonic() - started < 0.9
        assert server.process.stderr
        assert server.process.stderr.read() == "Press Ctrl-C to stop.\n"


def test_a_session_is_opened_by_any_of_its_names(store: Store) -> None:
    add_session(store, "fix the checkout")
    with running_command("checkout") as server:
        assert server.ask(server.landing).headers["location"] == f"/sessions/{SESSION}"


def test_an_unknown_session_is_one_line(store: Store) -> None:
    add_session(store, "hello")
    done = run("nosuch", "--no-open")
    assert done.returncode == 1
    assert done.stderr.startswith("turnlog: ")
    assert done.stderr.count("\n") == 1


def test_a_port_in_use_is_one_line_with_a_hint(store: Store) -> None:
    with running_command() as server:
        done = run("--no-open", "--port", str(server.port))
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (f"turnlog: port {server.port} is in use (try: turnlog web --port 0)\n")


def test_a_bad_origin_is_one_line_with_a_hint(store: Store) -> None:
    done = run("--no-open", "--origin", "devbox")
    assert done.returncode == 2
    assert "'devbox' is not an origin" in done.stderr
    assert "(try: turnlog web --origin http://devbox:8123" in done.stderr


def test_an_origin_is_answered(store: Store) -> None:
    add_session(store, "hello")
    with running_command("--origin", "http://devbox:9000") as server:
        server.log_in()
        headers = {"Host": "devbox:9000", "Origin": "http://devbox:9000"}
        assert server.get("/api/sessions", headers).status == 200
        assert server.get("/api/sessions", {"Host": "devbox:9001"}).status == 421


def test_several_stores_are_one_list(tmp_path: Path) -> None:
    first, second = Store(tmp_path / "a"), Store(tmp_path / "b")
    add_session(first, "in the first store")
    add_session(second, "in the second store")  # with the same id
    add_session(second, "only in the second", OTHER)
    with running_command("--store", str(first.root), "--store", str(second.root)) as server:
        server.log_in()
        rows = json.loads(server.get("/api/sessions").text)["rows"]
        titles = {row["title"]: row["key"] for row in rows}
        assert len(rows) == len(set(titles.values())) == 3
        for title, key in titles.items():
            head = json.loads(server.get(f"/api/sessions/{key}/head").text)
            assert head["session"]["title"] == title
        found = json.loads(server.get("/api/search?q=store").text)["rows"]
        assert {row["title"] for row in found} == {"in the first store", "in the second store"}


def test_the_samples_are_shown_on_request() -> None:
    with running_command("--samples") as server:
        answer = server.log_in().get("/api/sessions")
        assert json.loads(answer.text)["total"] > 3


def test_a_new_session_is_listed_without_a_restart(store: Store) -> None:
    add_session(store, "hello")
    with running_command() as server:
        server.log_in()
        assert json.loads(server.get("/api/sessions").text)["total"] == 1
        add_session(store, "another", OTHER)
        # A session is found by its id at once, and listed after the next refresh.
        assert server.get(f"/api/sessions/{OTHER}/head").status == 200
        deadline = time.monotonic() + 60
        while json.loads(server.get("/api/sessions").text)["total"] != 2:
            assert time.monotonic() < deadline
            time.sleep(0.3)


@pytest.mark.parametrize("is_archived", [True, False])
def test_a_session_that_is_gone_is_not_found(store: Store, is_archived: bool) -> None:
    path = add_session(store, "hello")
    if is_archived:
        subprocess.run([sys.executable, "-m", "turnlog", "archive"], check=True)
    with running_command() as server:
        server.log_in()
        assert server.get(f"/sessions/{SESSION}").status == 200
        path.unlink()
        # The same answer whether or not the index has noticed by now.
        for _ in range(2):
            answer = server.get(f"/api/sessions/{SESSION}/head")
            assert answer.status == 404
            hint = json.loads(answer.text)["hint"]
            assert hint == (f"turnlog restore {SESSION}" if is_archived else "turnlog ls")


def test_ctrl_c_stops_the_server_if_a_pipe_has_replaced_a_session(store: Store) -> None:
    path = add_session(store, "hello")
    with running_command("--store", str(store.root)) as server:
        server.log_in()
        with server.connect() as stream:
            head = f"GET /api/sessions/{path.stem}/events HTTP/1.1\r\nHost: {server.host}\r\n"
            stream.sendall(f"{head}Cookie: {server.cookie}\r\n\r\n".encode())
            assert b" 200 " in stream.recv(200)
            path.unlink()
            os.mkfifo(path)
            time.sleep(1)
            server.process.send_signal(signal.SIGINT)
            server.process.wait(timeout=10)
