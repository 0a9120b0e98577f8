"""Serve a client over stdin and stdout: a JSON message per line, until the input ends.

Only messages reach stdout: its descriptor is moved, and anything else that is printed goes to
stderr. The process exits when the input ends, even if requests are still running.
"""

import json
import os
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

from turnlog.format.json_values import is_object, parse_json
from turnlog.index.sync_policy import stop_syncs
from turnlog.mcp_server.protocol import (
    INVALID_REQUEST,
    PARSE_ERROR,
    Dispatcher,
    Message,
    error_message,
    is_request_id,
    log_failure,
)
from turnlog.mcp_server.tool_runs import ToolRuns
from turnlog.store.paths import Store

THREADS = 4
LONGEST = 4 << 20
"""Maximum bytes of a message: arguments are short."""
MOST_WAITING = 200
"""Maximum number of unfinished requests; more are refused, to bound memory."""
GRACE = 5.0
"""Seconds for running requests to finish after the input has ended (`turnlog mcp < requests`)."""
CANCELLED = "notifications/cancelled"
SLOW = ("tools/call", "resources/read", "resources/list")
"""Methods that are answered in a thread."""


def serve_stdio(stores: Sequence[Store], project: Path) -> None:
    """Answer requests until the input ends, then exit."""
    source, sink = _take_over_streams()
    server = StdioServer(Dispatcher(ToolRuns(stores, project)), sink)
    # A client may send SIGTERM instead of closing the input: stop a running sync then, too.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        server.read_all(source)
    except KeyboardInterrupt:
        pass
    finally:
        stop_syncs()
        sys.stderr.flush()
        # Threads may be in the middle of a long query, and Python would wait for them. An orphan
        # that nobody can talk to is worse than an answer that nobody can read.
        os._exit(0)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _take_over_streams() -> tuple[BinaryIO, BinaryIO]:
    """Return duplicates of stdin and stdout; redirect the originals to /dev/null and stderr."""
    source, sink = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    os.dup2(2, 1)
    # Unbuffered: an answer is sent at once, and nothing is left to flush on exit.
    return os.fdopen(source, "rb"), os.fdopen(sink, "wb", buffering=0)


class StdioServer:
    """Reads messages, answers them in threads and writes whole lines."""

    def __init__(self, dispatcher: Dispatcher, sink: BinaryIO) -> None:
        self._dispatcher = dispatcher
        self._sink = sink
        self._writing = Lock()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="mcp")
        self._running: dict[Future[None], Any] = {}
        self._cancelled: set[str | int] = set()

    def read_all(self, source: BinaryIO) -> None:
        """Answer every line of the input; then give running requests a moment to finish."""
        while line := source.readline(LONGEST + 1):
            if len(line) > LONGEST:
                self._skip_rest(source, line)
                self._write(error_message(None, INVALID_REQUEST, "the message is too long"))
            elif line.strip():
                self._accept(line)
        wait(list(self._running), GRACE)

    def _skip_rest(self, source: BinaryIO, line: bytes) -> None:
        while line and not line.endswith(b"\n"):
            line = source.readline(LONGEST)

    def _accept(self, line: bytes) -> None:
        try:
            message = parse_json(line)
        except ValueError:
            self._write(error_message(None, PARSE_ERROR, "not JSON"))
            return
        if is_object(message) and message.get("method") == CANCELLED:
            self._cancel(message)
            return
        if is_object(message) and message.get("method") in SLOW:
            self._start(message)
            return
        # Handshakes and lists take no time, and keep their order.
        self._respond(message)

    def _start(self, message: Message) -> None:
        # Clean up here, in the reading thread, because no other thread changes the table.
        for done in [each for each in self._running if each.done()]:
            del self._running[done]
        if len(self._running) >= MOST_WAITING:
            id_ = message.get("id")
            id_ = id_ if is_request_id(id_) else None
            self._write(error_message(id_, INVALID_REQUEST, "too many requests"))
            return
        self._running[self._pool.submit(self._respond, message)] = message.get("id")

    def _cancel(self, message: Message) -> None:
        """Drop a waiting request, or suppress the answer to a running one."""
        params = message.get("params")
        id_ = params.get("requestId") if is_object(params) else None
        # A request with an invalid id got an error; the id may not even be hashable.
        if not is_request_id(id_):
            return
        for future, running in self._running.items():
            # A request that has not started never answers, so its id may be used again.
            if running == id_ and not future.cancel() and not future.done():
                self._cancelled.add(id_)

    def _respond(self, message: Any) -> None:
        answer = self._dispatcher.answer(message)
        if answer is None:
            return
        if answer["id"] in self._cancelled:
            self._cancelled.discard(answer["id"])
            return
        self._write(answer)

    def _write(self, answer: Message) -> None:
        line = json.dumps(answer, separators=(",", ":")).encode() + b"\n"
        try:
            with self._writing:
                view = memoryview(line)
                while view:
                    # An unbuffered write to a pipe may write only a part of the line.
                    view = view[self._sink.write(view) :]
        except OSError as error:
            # The client is gone. Do not rely on it to close the input.
            if not isinstance(error, BrokenPipeError):
                log_failure(error)
            stop_syncs()
            os._exit(0)
