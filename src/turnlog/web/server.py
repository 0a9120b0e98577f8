"""Run the app with uvicorn on a loopback port, with limits on connections and time.

Any local program can connect. The limits make sure that the user's browser is served, no matter how
many other connections are open or how slowly they write and read.
"""

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Any, NamedTuple

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from turnlog.errors import Unavailable
from turnlog.web.login import Peer

HOST = "127.0.0.1"
PART = 1 << 10
"""Maximum bytes that are parsed at once; a head may be that much longer than its limit."""


class ServerLimits(NamedTuple):
    """Limits on the number of connections, and on each of them."""

    connections: int = 200
    """Maximum open connections; a further one closes the one that has been idle longest."""
    request_seconds: float = 10
    """Maximum seconds from the first byte of a request to the end of its head."""
    idle_seconds: int = 30
    """Maximum seconds between two requests on a connection."""
    read_seconds: float = 20
    """Maximum seconds for a client to read the data buffered for it."""
    head: int = 16 << 10
    """Maximum bytes of the head of a request."""
    stop_seconds: int = 1
    """Maximum seconds for running responses to finish after Ctrl-C."""


def bind(port: int) -> socket.socket:
    """Return a socket bound to a loopback port, or to a free one if `port` is 0."""
    # asyncio turns off Nagle's algorithm only if the protocol is named; otherwise each response
    # waits 40 ms for the client to acknowledge its head.
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # Without this, a port stays taken for a minute after the server has stopped.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((HOST, port))
    except OSError as error:
        bound.close()
        raise _unbound(port, error) from error
    return bound


def _unbound(port: int, error: OSError) -> Unavailable:
    if error.errno == errno.EADDRINUSE:
        return Unavailable(f"port {port} is in use", "turnlog web --port 0")
    return Unavailable(f"cannot use port {port}: {error.strerror}", "turnlog web --port 0")


def serve(
    app: ASGIApp,
    bound: socket.socket,
    on_start: Callable[[], None] = lambda: None,
    limits: ServerLimits = ServerLimits(),  # noqa: B008
) -> None:
    """Answer requests until Ctrl-C."""
    config = uvicorn.Config(
        app,
        http=_protocol(limits),
        ws="none",
        lifespan="off",
        log_level="critical",
        access_log=False,
        # Trusting X-Forwarded-For would let a request claim any address.
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=limits.idle_seconds,
        timeout_graceful_shutdown=limits.stop_seconds,
        limit_concurrency=2 * limits.connections,
        h11_max_incomplete_event_size=limits.head,
    )
    _Server(config, on_start).run(sockets=[bound])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # A stream of events never ends by itself, so Ctrl-C does not wait for it.
        connections: list[Any] = list(self.server_state.connections)
        for connection in connections:
            if connection.is_stream:
                connection.transport.abort()
        await super().shutdown(sockets)


def _protocol(limits: ServerLimits) -> type[asyncio.Protocol]:
    """Return a protocol class with the given limits; uvicorn creates the instances."""

    class _Limited(LimitedProtocol):
        pass

    _Limited.limits = limits
    return _Limited


class LimitedProtocol(H11Protocol):
    """A connection with deadlines: uvicorn itself waits forever for a request or a reader."""

    limits = ServerLimits()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.idle_since: float | None = None
        """Time at which the connection started to wait for a request; None during a request."""
        self.is_stream = False
        """True while the response is a stream that ends only with the connection."""
        self._deadlines: dict[str, asyncio.TimerHandle] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        # Every request of this connection gets a copy of this state.
        state: dict[str, Any] = self.app_state  # pyright: ignore[reportUnknownMemberType]
        host, port = self.server or ("", None)
        own = None if port is None else (host, port)
        peer = Peer(self.client, own)
        self.app_state = {**state, "peer": peer, "mark_stream": self.mark_stream}
        self._wait_for_request()
        if len(self.connections) > self.limits.connections:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        # h11 checks the size of a head only while its end is missing, and one read may contain all
        # of it.
        for start in range(0, len(data), PART):
            if not self.transport.is_closing():
                super().data_received(data[start : start + PART])
        # The deadline counts from the first byte: a byte every few seconds does not extend it.
        if self.is_idle and "request" not in self._deadlines:
            self._wait_for_request()
        elif not self.is_idle:
            self.idle_since = None
            self._cancel("request")

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for name in list(self._deadlines):
            self._cancel(name)

    def mark_stream(self) -> None:
        """Note that the response to the current request ends only with the connection."""
        self.is_stream = True

    def on_response_complete(self) -> None:
        self.is_stream = False
        self.idle_since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._set("read", self.limits.read_seconds)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel("read")

    @property
    def is_idle(self) -> bool:
        """True if the connection waits for a request."""
        cycle: Any = self.cycle
        return cycle is None or cycle.response_complete

    def _wait_for_request(self) -> None:
        self.idle_since = self.loop.time()
        self._set("request", self.limits.request_seconds)

    def _make_room(self) -> None:
        """Close the connection that has been idle longest.

        If new connections were refused instead, a program that opens 1,000 connections and sends
        nothing would lock out the browser.
        """
        others: list[Any] = list(self.connections)
        idle = [each for each in others if each.idle_since is not None]
        oldest = min(idle, key=lambda each: each.idle_since, default=self)
        oldest.transport.abort()
        self.connections.discard(oldest)

    def _set(self, name: str, seconds: float) -> None:
        self._cancel(name)
        self._deadlines[name] = self.loop.call_later(seconds, self.transport.abort)

    def _cancel(self, name: str) -> None:
        if timer := self._deadlines.pop(name, None):
            timer.cancel()
