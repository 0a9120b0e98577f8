"""WebFetch, over real HTTP on this machine."""

import asyncio
import gzip
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from support.tool_calls import Calls
from turnlog.agent.workspace import network_addresses, web_pages
from turnlog.agent.workspace.network_addresses import Address, is_public

HTML = """<html><head><title>T</title><style>b {}</style></head><body><h1>Prices</h1>
<script>alert(1)</script><p>A <b>bold</b> <a href="/x">link</a>.</p><ul><li>one</li></ul></body>"""

Answer = tuple[int, dict[str, str], bytes]


class Site:
    """A server with pages by path; it records requests."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, str]] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def page(self, path: str, body: str | bytes, kind: str = "text/html", code: int = 200) -> str:
        raw = body.encode() if isinstance(body, str) else body
        self.answers[path] = (code, {"Content-Type": kind}, raw)
        return self.url + path

    def moved(self, path: str, target: str) -> str:
        self.answers[path] = (302, {"Location": target}, b"")
        return self.url + path


@contextmanager
def serve(site: Site, context: ssl.SSLContext | None = None) -> Generator[None]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append((self.path, self.headers["Host"]))
            code, headers, body = site.answers[self.path]
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.port = server.server_address[1]
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def site(calls: Calls) -> Iterator[Site]:
    """A site on this machine, which may be fetched here."""
    calls.workspace.pages.allows_private = True
    site = Site()
    with serve(site):
        yield site


def fetch(calls: Calls, url: str) -> str:
    return calls.text("WebFetch", url=url, prompt="What is it?")


def refusal(calls: Calls, url: str) -> str:
    return calls.refusal("WebFetch", url=url, prompt="What is it?")


def test_a_page_comes_as_markdown(calls: Calls, site: Site) -> None:
    url = site.page("/", HTML)
    outcome = calls.run("WebFetch", url=url, prompt="What is it?")
    assert outcome.content == "# Prices\n\nA **bold** [link](/x).\n\n* one"
    assert outcome.data["code"] == 200
    assert outcome.data["codeText"] == "OK"
    assert outcome.data["bytes"] == len(HTML)
    assert outcome.data["url"] == url


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("application/json", b'{"a": 1}', '{"a": 1}'),
        ("text/plain; charset=latin-1", b"gr\xfcn", "grün"),
        ("text/plain; charset=nonsense", "grün".encode(), "grün"),
        ("text/html; charset=latin-1", b"<p>gr\xfcn</p>", "grün"),
        ("text/html", b'<meta charset="latin-1"><p>gr\xfcn</p>', "grün"),
    ],
)
def test_other_texts_come_as_they_are(
    calls: Calls, site: Site, kind: str, body: bytes, text: str
) -> None:
    assert fetch(calls, site.page("/", body, kind)) == text


def test_what_is_no_text_is_refused(calls: Calls, site: Site) -> None:
    assert "application/zip" in refusal(calls, site.page("/a.zip", b"PK", "application/zip"))


def test_a_page_that_is_missing_is_told(calls: Calls, site: Site) -> None:
    told = refusal(calls, site.page("/", "<p>gone away</p>", code=404))
    assert "404 Not Found" in told
    assert "gone away" in told


def test_a_model_is_asked_about_the_page(calls: Calls, site: Site) -> None:
    questions: list[str] = []

    async def ask(prompt: str, tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
        questions.append(prompt)
        return [{"type": "text", "text": "Prices."}]

    calls.workspace.ask = ask
    assert fetch(calls, site.page("/", HTML)) == "Prices."
    [question] = questions
    assert "What is it?" in question
    assert "# Prices" in question


def test_a_page_is_asked_for_once_in_a_while(
    calls: Calls, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = site.page("/", "<p>old</p>")
    assert fetch(calls, url) == "old"
    site.page("/", "<p>new</p>")
    assert fetch(calls, url) == "old"
    monkeypatch.setattr(web_pages, "KEPT_FOR", 0)
    assert fetch(calls, url) == "new"


def test_no_more_pages_are_kept_than_have_room(
    calls: Calls, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_pages, "KEPT", 2)
    urls = [site.page(f"/{number}", "<p>x</p>") for number in range(3)]
    for url in [*urls, urls[2], urls[0]]:
        fetch(calls, url)
    assert [path for path, _ in site.asked] == ["/0", "/1", "/2", "/0"]


def test_a_redirect_within_the_host_is_followed(calls: Calls, site: Site) -> None:
    site.page("/new", "<p>here</p>")
    assert fetch(calls, site.moved("/old", "/new")) == "here"


def test_a_redirect_to_another_host_is_told_and_not_followed(calls: Calls, site: Site) -> None:
    target = f"http://localhost:{site.port}/secret"
    text = fetch(calls, site.moved("/", target))
    assert target in text
    assert site.asked == [("/", f"127.0.0.1:{site.port}")]


def test_redirects_without_end_are_given_up(calls: Calls, site: Site) -> None:
    assert "redirects too many times" in refusal(calls, site.moved("/", "/"))


def test_a_page_is_read_no_further_than_there_is_room(
    calls: Calls, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_pages, "LARGEST", 1_000)
    url = site.page("/", gzip.compress(b"x" * 5_000_000), "text/plain")
    code, headers, body = site.answers["/"]
    site.answers["/"] = (code, headers | {"Content-Encoding": "gzip"}, body)
    assert fetch(calls, url) == "x" * 1_000


def test_a_long_page_is_kept_beside_the_session(calls: Calls, site: Site) -> None:
    text = fetch(calls, site.page("/", "word " * 50_000, "text/plain"))
    assert text.startswith("<persisted-output>\n")


def test_a_page_nested_without_measure_still_gives_its_text(calls: Calls, site: Site) -> None:
    assert "deep" in fetch(calls, site.page("/", "<div>" * 20_000 + "deep"))


def test_a_server_that_never_answers_is_given_up(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.workspace.pages.allows_private = True
    monkeypatch.setattr(web_pages, "SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        assert "did not answer" in refusal(calls, url)


def test_a_server_that_is_not_there_is_told(calls: Calls) -> None:
    calls.workspace.pages.allows_private = True
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert "cannot be fetched" in refusal(calls, f"http://127.0.0.1:{port}/")


@pytest.mark.parametrize(
    "url", ["ftp://example.org/", "file:///etc/passwd", "example.org", "http://", "http://u:p@h/"]
)
def test_what_is_no_address_of_the_web_is_refused(calls: Calls, url: str) -> None:
    assert " address: " in refusal(calls, url)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "2130706433", "0x7f.1", "169.254.169.254",
     "10.0.0.1", "192.168.1.1", "[::ffff:10.0.0.1]", "[fe80::1]", "[fd00::1]"],
)  # fmt: skip
def test_private_addresses_are_refused(calls: Calls, host: str) -> None:
    assert "private network" in refusal(calls, f"http://{host}/")


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True), ("2606:4700::1111", True), ("100.64.0.1", False),
        ("224.0.0.1", False), ("::", False), ("64:ff9b::7f00:1", False), ("64:ff9b::808:808", True),
        ("2002:7f00:1::", False), ("2002:808:808::", True), ("255.255.255.255", False),
    ],
)  # fmt: skip
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert is_public(ip_address(address)) is public


Lookup = Callable[..., list[tuple[Any, ...]]]


def test_the_connection_goes_to_the_address_that_was_checked(
    calls: Calls, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that first leads to the site and then elsewhere is looked up no second time."""
    lookups: list[str] = []
    real: Lookup = socket.getaddrinfo

    def lookup(host: str, *rest: Any, **named: Any) -> list[tuple[Any, ...]]:
        if host != "rebinding.example":
            return real(host, *rest, **named)
        lookups.append(host)
        port = site.port if len(lookups) == 1 else 1
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    site.page("/", "<p>mine</p>")
    assert fetch(calls, f"http://rebinding.example:{site.port}/") == "mine"
    assert lookups == ["rebinding.example"]
    assert site.asked == [("/", f"rebinding.example:{site.port}")]


def test_a_redirect_into_a_private_network_is_refused(
    calls: Calls, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host is checked again at each step: its name may lead elsewhere by then."""
    answers = iter([True, False])

    def changing(address: Address) -> bool:
        return next(answers)

    monkeypatch.setattr(network_addresses, "is_public", changing)
    calls.workspace.pages.allows_private = False
    site.page("/inner", "secret")
    assert "private network" in refusal(calls, site.moved("/", "/inner"))
    assert [path for path, _ in site.asked] == ["/"]


def test_a_fetch_that_is_cancelled_ends_at_once(calls: Calls) -> None:
    calls.workspace.pages.allows_private = True

    async def run(url: str, silent: socket.socket) -> None:
        task = asyncio.create_task(calls.start("WebFetch", url=url, prompt="?"))
        connection, _ = await asyncio.to_thread(silent.accept)
        task.cancel()
        with connection, pytest.raises(asyncio.CancelledError):
            await task

    with socket.create_server(("127.0.0.1", 0)) as silent:
        asyncio.run(run(f"http://127.0.0.1:{silent.getsockname()[1]}/", silent))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for shop.example, and its key."""
    folder = tmp_path_factory.mktemp("certificate")
    argv = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=shop.example".split()
    argv += ["-addext", "subjectAltName=DNS:shop.example"]
    argv += ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed")
    subprocess.run(argv, check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("host", ["shop.example", "other.example"])
def test_a_certificate_must_be_of_the_host_that_was_named(
    calls: Calls, host: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection goes to an address, but the name decides whether it is trusted."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]
    real: Lookup = socket.getaddrinfo

    def lookup(name: str, *rest: Any, **named: Any) -> list[tuple[Any, ...]]:
        return list(found) if name == host else real(name, *rest, **named)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))
    calls.workspace.pages.allows_private = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    site = Site()
    site.page("/", "<p>open</p>")
    with serve(site, context):
        url = f"https://{host}:{site.port}/"
        if host == "shop.example":
            assert fetch(calls, url) == "open"
        else:
            assert "certificate" in refusal(calls, url).lower()
