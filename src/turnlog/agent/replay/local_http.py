"""An HTTP server for programs on this machine that refuses requests of web pages.

Every connection, request and response is bounded in time and size. Refusing a request closes its
connection, so that an unread body is never mistaken for the next request.
"""

import io
import json
import re
import socket
import sys
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import BoundedSemaphore
from typing import Any, NamedTuple

from turnlog.format.json_values import Fields, is_array, is_object, parse_json

HOST = "127.0.0.1"
NAMES = ("127.0.0.1", "localhost", "[::1]")
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
LENGTH = re.compile(r"[0-9]{1,12}", re.ASCII)
SAME_SITE = ("none", "same-origin")
"""Values of `Sec-Fetch-Site` that a page of another site cannot send."""
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class ClientLimits(NamedTuple):
    """Limits per client."""

    connections: int = 32
    idle_seconds: float = 60
    """Seconds a connection may be idle before a request."""
    request_seconds: float = 30
    """Seconds for a whole request to arrive and for a response to be read."""
    body: int = 64 << 20
    """Maximum bytes of a request; the API accepts 32 MB."""
    depth: int = 100
    """Maximum nesting of JSON: deeper values would exhaust Python's stack later on."""


class RequestError(Exception):
    """A request that gets an error response."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"type": "error", "error": {"type": kind, "message": message}}


class LocalServer(ThreadingHTTPServer):
    """Serves this machine; connections beyond the limit are closed at once."""

    daemon_threads = True

    def __init__(self, port: int, handler: type["LocalHandler"], limits: ClientLimits) -> None:
        self.limits = limits
        self._room = BoundedSemaphore(limits.connections)
        super().__init__((HOST, port), handler)

    @property
    def port(self) -> int:
        return self.server_address[1]

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def hosts(self) -> set[str]:
        """Accepted values of the `Host` header."""
        # Clients leave out the default port.
        bare = NAMES if self.port == 80 else ()
        return {*bare, *(f"{name}:{self.port}" for name in NAMES)}

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            # Without waiting: a client that does not read must not hold up the others.
            request.settimeout(0)
            with suppress(OSError):
                request.send(BUSY)
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnected; show everything else, which is a bug."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _TimedReader(io.RawIOBase):
    """Reads from a socket until a fixed deadline, which a slow trickle of bytes cannot extend."""

    def __init__(self, connection: socket.socket, limits: ClientLimits) -> None:
        self._connection = connection
        self._limits = limits
        self.wait()

    def wait(self) -> None:
        """Start the idle time before a request; the request's own time starts at its first byte."""
        self._is_waiting = True
        self._deadline = time.monotonic() + self._limits.idle_seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        count = self._connection.recv_into(buffer)
        if self._is_waiting:
            self._is_waiting = False
            self._deadline = time.monotonic() + self._limits.request_seconds
        return count


class LocalHandler(BaseHTTPRequestHandler):
    """Validates each request before handling it."""

    protocol_version = "HTTP/1.1"
    server: LocalServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def setup(self) -> None:
        super().setup()
        self._reader = _TimedReader(self.connection, self.server.limits)
        self.rfile = io.BufferedReader(self._reader)

    def handle_one_request(self) -> None:
        self._reader.wait()
        super().handle_one_request()

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        self.connection.settimeout(self.server.limits.request_seconds)
        try:
            self._require_local()
            self._require_plain()
        except RequestError as refusal:
            self.refuse(refusal)
            return False
        if self.command != "POST" and self.headers.get("Content-Length", "0") != "0":
            self.close_connection = True  # its body is not read
        return True

    def read_object(self) -> Fields:
        """Read the body of a request: a JSON object of bounded size and depth."""
        length = self.headers.get("Content-Length") or ""
        if not LENGTH.fullmatch(length) or int(length) > self.server.limits.body:
            raise RequestError(413, "request_too_large", "Content-Length is missing or too large")
        body = self.rfile.read(int(length))
        # The reader has set the timeout to the rest of the request's time; restore it in full.
        self.connection.settimeout(self.server.limits.request_seconds)
        try:
            value = parse_json(body)
        except ValueError as error:
            raise RequestError(400, "invalid_request_error", f"not JSON: {error}") from error
        if not is_object(value):
            raise RequestError(400, "invalid_request_error", "not an object")
        if _is_deeper(value, self.server.limits.depth):
            raise RequestError(400, "invalid_request_error", "not JSON: nested too deeply")
        return value

    def refuse(self, refusal: RequestError) -> None:
        """Send an error and close the connection."""
        self.close_connection = True
        self.send_object(refusal.status, refusal.body)

    def send_object(self, status: int, body: Fields, request_id: str | None = None) -> None:
        """Send a JSON response."""
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if request_id:
            self.send_header("request-id", request_id)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing."""

    def _require_local(self) -> None:
        """Refuse requests that a web page can send.

        A page can reach this server by DNS rebinding, a domain name that resolves to 127.0.0.1,
        which the `Host` header reveals, or by a cross-origin request, which browsers mark.
        """
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or hosts[0] not in self.server.hosts:
            raise RequestError(403, "permission_error", "this Host is not served")
        origins = self.headers.get_all("Origin") or []
        sites = self.headers.get_all("Sec-Fetch-Site") or []
        is_foreign = any(origin != f"http://{hosts[0]}" for origin in origins)
        if is_foreign or any(site not in SAME_SITE for site in sites):
            raise RequestError(403, "permission_error", "cross-origin requests are not served")

    def _require_plain(self) -> None:
        """Refuse requests with an ambiguous length, as used for request smuggling."""
        names = [name.lower() for name in self.headers.keys()]  # noqa: SIM118 (repeats count)
        is_odd = self.headers.defects or not all(map(TOKEN.fullmatch, names))
        if is_odd or any("\n" in value or "\r" in value for value in self.headers.values()):
            raise RequestError(400, "invalid_request_error", "malformed headers")
        if "transfer-encoding" in names or names.count("content-length") > 1:
            raise RequestError(
                400, "invalid_request_error", "send one Content-Length and nothing else"
            )


def _is_deeper(value: object, depth: int) -> bool:
    """Return whether JSON is nested deeper than `depth`, without recursion."""
    level: list[object] = [value]
    for _ in range(depth):
        if not level:
            return False
        inner: list[object] = []
        for each in level:
            inner += each.values() if is_object(each) else each if is_array(each) else ()
        level = inner
    return bool(level)
