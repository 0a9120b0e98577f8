"""Run an HTTP server of a test in a thread for as long as a block runs."""

from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import TypeVar


class ClosableServer(ThreadingHTTPServer):
    """A server whose handlers may wait until it is closed."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.closing = Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


Server = TypeVar("Server", bound=ClosableServer)


@contextmanager
def served(server: Server) -> Generator[Server]:
    """Serve requests inside the block."""
    with server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.closing.set()
            server.shutdown()
            thread.join()
