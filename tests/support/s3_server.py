"""A real S3 server on loopback (moto), and a proxy that loses the connection half-way."""

import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from itertools import count

PATIENCE = 120.0
"""Seconds to wait for the server: importing moto takes several."""
BLOCK = 1 << 16

VARIABLES = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}

_buckets = count(1)


class S3Server:
    """A server in a process of its own."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int) -> None:
        self.process, self.port = process, port

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a client."""
        return VARIABLES | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}"}

    def new_bucket(self) -> str:
        """Create an empty bucket; return its name."""
        name = f"lake-{next(_buckets)}"
        url = f"http://127.0.0.1:{self.port}/{name}"
        urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=PATIENCE).close()
        return name


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as found:
        return found.getsockname()[1]


@contextmanager
def s3_server() -> Generator[S3Server]:
    """Start a server; it is stopped at the end."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **VARIABLES},
    )
    try:
        _wait(process, port)
        yield S3Server(process, port)
    finally:
        process.kill()
        process.wait()


def _wait(process: "subprocess.Popen[bytes]", port: int) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        with suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
            return
        time.sleep(0.1)
    raise AssertionError("the S3 server did not start")


class CuttingProxy:
    """Forwards connections to a server until a number of bytes was sent, then refuses all.

    With `of_responses`, the bytes are those that the server sends.
    """

    def __init__(self, target: int, limit: int, *, of_responses: bool = False) -> None:
        self._target, self._left = target, limit
        self._counts_requests = not of_responses
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.is_cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            self._open += [client, server]
            for source, sink, is_request in ((client, server, True), (server, client, False)):
                arguments = (source, sink, is_request)
                threading.Thread(target=self._forward, args=arguments, daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, is_request: bool) -> None:
        with suppress(OSError):
            while data := source.recv(BLOCK):
                if is_request == self._counts_requests and not self._spend(len(data)):
                    return
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def _spend(self, size: int) -> bool:
        with self._lock:
            self._left -= size
            if self._left < 0:
                self.close()
        return not self.is_cut

    def close(self) -> None:
        """Cut all connections and refuse new ones."""
        self.is_cut = True
        # A thread blocked in accept keeps the port open until it is woken.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
