"""Every threat from other pages, programs and users: refused, and possible without its guard."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from support.build import SESSION, assistant, session, text, user
from support.web_server import WebServer, running_server
from turnlog.errors import UsageError
from turnlog.web.login import Access, Peer, is_own_peer, owner_of
from turnlog.web.request_guards import (
    GUARDS,
    POLICY,
    GuardedApp,
    origins_of,
    require_own_user,
    require_reading,
)

DATA = "/api/sessions"
"""An address whose answer names the session of the store."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("home")
    folder = root / "projects" / "-home-ada-shop"
    folder.mkdir(parents=True)
    lines = session(user("hello"), assistant(text("hi")))
    (folder / f"{SESSION}.jsonl").write_bytes(lines)
    return root


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[WebServer]:
    with running_server(home) as running:
        yield running.log_in()


def reaches_data(server: WebServer, headers: dict[str, str]) -> bool:
    answer = server.get(DATA, headers)
    assert (SESSION in answer.text) == (answer.status == 200)
    return answer.status == 200


def test_the_page_itself_is_served(server: WebServer) -> None:
    assert reaches_data(server, {})
    assert reaches_data(server, {"Host": f"localhost:{server.port}"})
    assert reaches_data(server, {"Origin": server.origin, "Sec-Fetch-Site": "same-origin"})
    assert reaches_data(server, {"Sec-Fetch-Site": "none"})


FOREIGN_HOSTS = [
    *("evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", "localhost.:{port}"),
    *("127.0.0.1:{port}@evil.example", "127.0.0.1:{port}.evil.example", "[::1]:{port}"),
]


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_dns_rebinding_is_refused_by_the_host(server: WebServer, host: str) -> None:
    answer = server.get(DATA, {"Host": host.format(port=server.port)})
    assert answer.status == 421
    assert SESSION not in answer.text


def test_the_refusal_of_a_host_names_it_and_the_option(server: WebServer) -> None:
    answer = server.get(DATA, {"Host": "devbox:9000"})
    assert answer.text == (
        "turnlog: this server does not answer to devbox:9000"
        " (try: turnlog web --origin http://devbox:9000)\n"
    )


def test_two_hosts_are_refused(server: WebServer) -> None:
    with server.connect() as connection:
        request = f"GET {DATA} HTTP/1.1\r\nHost: {server.host}\r\nHost: {server.host}\r\n"
        connection.sendall(f"{request}Cookie: {server.cookie}\r\n\r\n".encode())
        assert SESSION.encode() not in connection.recv(65536)


def test_without_the_guard_a_foreign_host_reaches_the_data(home: Path) -> None:
    with running_server(home, without="require_known_host") as server:
        assert reaches_data(server.log_in(), {"Host": f"evil.example:{server.port}"})


FOREIGN_ORIGINS = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://localhost:3000"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
]


@pytest.mark.parametrize("headers", FOREIGN_ORIGINS)
def test_requests_of_other_origins_are_refused(server: WebServer, headers: dict[str, str]) -> None:
    assert server.get(DATA, headers).status == 403


def test_without_the_guard_other_origins_reach_the_data(home: Path) -> None:
    with running_server(home, without="require_own_origin") as server:
        server.log_in()
        assert all(reaches_data(server, headers) for headers in FOREIGN_ORIGINS)


@pytest.mark.parametrize("path", ["/", DATA, "/sessions", "/static/app.js", "/nothing"])
def test_other_programs_without_the_cookie_are_refused(server: WebServer, path: str) -> None:
    assert server.ask(path).status == 401
    wrong = f"turnlog-{server.port}=guessed"
    assert server.ask(path, {"Cookie": wrong}).status == 401
    assert server.ask(path, {"Cookie": f"turnlog-{server.port}=é"}).status == 401


def test_without_the_guard_every_program_reaches_the_data(home: Path) -> None:
    with running_server(home, without="require_cookie") as server:
        assert SESSION in server.ask(DATA).text


def test_the_url_works_once(home: Path) -> None:
    with running_server(home) as server:
        assert server.ask("/open/guessed").status == 401
        assert server.ask(server.landing, method="HEAD").status == 401  # of a link preview
        answer = server.ask(server.landing)
        assert answer.status == 303
        assert answer.headers["location"] == "/"
        cookie = answer.headers["set-cookie"].lower()
        assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/"))
        again = server.ask(server.landing)
        assert again.status == 401
        assert "set-cookie" not in again.headers


def test_the_url_works_from_a_page_of_another_site(home: Path) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    with running_server(home) as server:
        assert server.ask(server.landing, headers).status == 403  # an image, not a document
        answer = server.ask(server.landing, headers | {"Sec-Fetch-Dest": "document"})
        assert answer.status == 200
        assert "refresh" in answer.text
        assert "set-cookie" in answer.headers


OTHER_USER = """
import os, socket, sys
port, path, source, cookie = int(sys.argv[1]), *sys.argv[2:]
os.setuid(65534)
connection = socket.socket()
connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
if source:
    connection.bind((source, port))
connection.connect(("127.0.0.1", port))
head = f"GET {path} HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\nCookie: {cookie}\\r\\n\\r\\n"
connection.sendall(head.encode())
print(connection.recv(100).split()[1].decode())
"""


def status_for_other_user(server: WebServer, path: str, source: str = "", cookie: str = "") -> str:
    command = [sys.executable, "-c", OTHER_USER, str(server.port), path, source, cookie]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_another_user_who_reads_the_url_from_a_process_list_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_server(home) as server:
        if os.getuid() == 0:
            assert status_for_other_user(server, server.landing) == "401"
            # With the server's own port on the other side, the ports of both ends are equal.
            for n in range(2, 10):
                assert status_for_other_user(server, server.landing, f"127.0.0.{n}") == "401"
        else:  # only root can become another user; the others pretend to be one
            with server.connect() as connection:
                monkeypatch.setattr(os, "getuid", lambda: 12345)
                assert not is_own_peer(connection.getsockname(), connection.getpeername())
        assert server.ask(server.landing).status == 303  # and the URL still works for its owner


@pytest.mark.parametrize(("without", "status"), [("", "401"), ("require_own_user", "200")])
def test_another_user_who_received_the_cookie_is_refused(
    home: Path, without: str, status: str
) -> None:
    with running_server(home, without=without) as server:
        cookie = server.log_in().cookie or ""
        if os.getuid() == 0:
            assert status_for_other_user(server, DATA, cookie=cookie) == status
        assert server.get(DATA).status == 200


CLIENT, SERVER = ("127.0.0.1", 0xA000), ("127.0.0.1", 0x1F90)


def test_the_owner_of_a_connection_is_found_by_both_addresses() -> None:
    table = (
        " 0: 0100007F:A000 0100007F:1F91 01 00:00 00:00 0 7 0 1\n"
        " 1: 0100007F:A000 0100007F:1F90 05 00:00 00:00 0 0 0 1\n"
        " 2: 0100007F:A000 0200007F:1F90 01 00:00 00:00 0 8 0 1\n"
        " 3: 0100007F:A000 0100007F:1F90 01 00:00 00:00 0 1000 0 1\n"
    )
    assert owner_of(CLIENT, SERVER, table) == 1000
    assert owner_of(CLIENT, ("127.0.0.1", 0x1F92), table) is None
    mapped = "0000000000000000FFFF00000100007F"
    table = f" 0: {mapped}:A000 {mapped}:1F90 01 00:00 00:00 0 1001 0 1"
    assert owner_of(CLIENT, SERVER, table) == 1001
    if Path("/proc/net/tcp").exists():
        assert not is_own_peer(("127.0.0.1", 1), ("127.0.0.1", 2))


def test_methods_that_could_change_something_are_refused(server: WebServer) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"):
        answer = server.ask("/sessions", {"Cookie": server.cookie or ""}, method)
        assert answer.status == 405, method
        assert "access-control-allow-origin" not in answer.headers
    assert server.ask("/sessions", {"Cookie": server.cookie or ""}, "HEAD").status == 200


@pytest.mark.parametrize("is_guarded", [True, False])
def test_a_form_of_another_site_reaches_no_route_that_takes_posts(is_guarded: bool) -> None:
    access = Access(80)
    # The client of this test has no connection that could belong to anyone.
    others = tuple(guard for guard in GUARDS if guard is not require_own_user)
    guards = tuple(guard for guard in others if is_guarded or guard is not require_reading)
    app = GuardedApp(PlainTextResponse("changed"), origins_of(80), access, guards)
    secret = access.redeem(access.path.removeprefix("/open/"), Peer(None, None))
    client = TestClient(app, "http://127.0.0.1", cookies={access.cookie: secret or ""})
    assert (client.post("/rename").text == "changed") == (not is_guarded)


def test_no_request_changes_the_store(home: Path, server: WebServer) -> None:
    def state() -> dict[str, tuple[int, bytes]]:
        files = (path for path in home.rglob("*") if path.is_file())
        return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    before = state()
    for path in (DATA, "/sessions", f"/sessions/{SESSION}", f"/api/sessions/{SESSION}/head"):
        assert server.get(path).status == 200
    assert state() == before


def test_every_response_has_the_security_headers(server: WebServer) -> None:
    paths = ["/sessions", DATA, "/static/app.js", "/nothing", "/api/nothing"]
    answers = [server.get(path) for path in paths] + [server.ask(DATA)]
    for answer in answers:
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["x-frame-options"] == "DENY"
        assert "server" not in answer.headers
    assert server.get(DATA).headers["cache-control"] == "no-store"
    assert "default-src 'none'" in POLICY
    assert "unsafe" not in POLICY


TRAVERSALS = [
    "/static/../app.py",
    "/static/%2e%2e/app.py",
    "/static/..%2f..%2f..%2f..%2f..%2fetc%2fpasswd",
    "/static//etc/passwd",
    "/viewer/..%5c..%5cpages.py",
    "/sessions/..%2f..%2f..%2fetc%2fpasswd",
    "/api/sessions/..%2f{outside}/head",
    "/api/sessions/{outside}/head",
    "/api/sessions/%2fetc%2fpasswd/raw/1",
    "/api/sessions/~00000000/head",
    "/api/sessions/%25/head",
    "/api/sessions/{SESSION}/agents/..%2f..%2f{SESSION}",
    "/api/sessions/{SESSION}%00/head",
]


@pytest.mark.parametrize("path", TRAVERSALS)
def test_no_part_of_a_request_becomes_part_of_a_path(
    server: WebServer, home: Path, path: str
) -> None:
    outside = home / "outside.jsonl"
    outside.write_bytes(session(user("stolen"), assistant(text("hi"))))
    answer = server.get(path.format(outside="outside", SESSION=SESSION))
    assert answer.status == 404
    assert b"stolen" not in answer.body
    assert b"root:" not in answer.body


@pytest.mark.parametrize("query", ["offset=-1", "limit=x", "min_cost=nan", "health=?", "since=?"])
def test_bad_parameters_get_one_line(server: WebServer, query: str) -> None:
    answer = server.get(f"{DATA}?{query}")
    assert answer.status == 400
    assert '"error":' in answer.text


@pytest.mark.parametrize("text", ["devbox", "ftp://devbox", "http://devbox/path", "http://a@b"])
def test_an_origin_has_a_scheme_and_a_host_only(text: str) -> None:
    with pytest.raises(UsageError):
        origins_of(80, (text,))


def test_a_forwarded_port_is_served_on_request() -> None:
    origins = origins_of(8123, ("http://devbox:9000",))
    assert "devbox:9000" in origins.hosts
    assert "http://devbox:9000" in origins.origins
