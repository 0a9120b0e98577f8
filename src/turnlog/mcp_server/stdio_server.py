"""Serve a client over stdin and stdout: a JSON message per line, until the input ends.

Nothing but messages reaches stdout: the descriptor is moved away, and whatever else prints ends up
on stderr. The end of the input ends the process, whatever is still running.
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

from turnlog.format.json_values import is_object
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
"""Bytes of a message: arguments are short."""
MOST_WAITING = 200
"""Requests that wait for a thread; more are refused, so that memory is bounded."""
GRACE = 5.0
"""Seconds for running requests after the input has ended, as for `turnlog mcp < requests`."""
CANCELLED = "notifications/cancelled"
SLOW = ("tools/call", "resources/read", "resources/list")
"""Methods that are answered in a thread."""


def serve_stdio(stores: Sequence[Store], project: Path) -> None:
    """Answer requests until the input ends, then exit."""
    source, sink = _take_over_streams()
    server = StdioServer(Dispatcher(ToolRuns(stores, project)), sink)
    # A client that is in a hurry sends SIGTERM: stop a running sync then, too.
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
    """Return private duplicates of stdin and stdout; the originals become null and stderr."""
    source, sink = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    os.dup2(2, 1)
    # Unbuffered: an answer leaves at once, and the exit has nothing to flush.
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
            message = json.loads(line)
        except (ValueError, RecursionError):
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
        # Cleaned up here, in the thread that reads: no other one changes the table.
        for done in [each for each in self._running if each.done()]:
            del self._running[done]
        if len(self._running) >= MOST_WAITING:
            id_ = message.get("id")
            id_ = id_ if is_request_id(id_) else None
            self._write(error_message(id_, INVALID_REQUEST, "too many requests"))
            return
        self._running[self._pool.submit(self._respond, message)] = message.get("id")

    def _cancel(self, message: Message) -> None:
        """Drop a request that waits; the answer to one that runs is not sent."""
        params = message.get("params")
        id_ = params.get("requestId") if is_object(params) else None
        # An id that is none was answered with an error; it may not even be hashable.
        if not is_request_id(id_):
            return
        for future, running in self._running.items():
            # One that has not started never answers, so its id may be used again.
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
                    # A pipe takes what fits, and an unbuffered write returns then.
                    view = view[self._sink.write(view) :]
        except OSError as error:
            # The client is gone. Its end of the input follows, or never does.
            if not isinstance(error, BrokenPipeError):
                log_failure(error)
            stop_syncs()
            os._exit(0)
