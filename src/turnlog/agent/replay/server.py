"""Serves a recorded session as a Messages API on this machine, to test agents without a model."""

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

from turnlog.agent.replay.events import encode_event, stream_events
from turnlog.agent.replay.tracks import (
    Answer,
    Track,
    choose_track,
    difference,
    new_messages,
    over,
    tracks_of,
)
from turnlog.conversation.session import Session
from turnlog.format.values import Fields, is_object

HOST = "127.0.0.1"
LOCAL = ("127.0.0.1", "localhost", "[::1]")
LARGEST = 1 << 28
MESSAGES, COUNT = "/v1/messages", "/v1/messages/count_tokens"

Tell = Callable[[str], None]


class Refusal(Exception):
    """A request that gets no message."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"type": "error", "error": {"type": kind, "message": message}}


class ReplayServer(ThreadingHTTPServer):
    """The API; told are requests that differ from what was recorded."""

    daemon_threads = True

    def __init__(self, session: Session, tell: Tell, port: int = 0, strict: bool = False) -> None:
        super().__init__((HOST, port), _Handler)
        self.tracks = tracks_of(session)
        self._tell = tell
        self._strict = strict
        self._lock = Lock()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_address[1]}"

    def answer(self, request: Fields) -> Answer:
        """The message that a request gets; a `Refusal` if it differs and must not."""
        messages = request.get("messages")
        with self._lock:
            track = choose_track(self.tracks, messages)
            was = (track.played, track.last)
            rank = track.next_rank(json.dumps(messages, sort_keys=True))
            found = track.answer(rank)
            differs = difference(track.expected(rank), new_messages(messages)) if found else []
            why = self._trouble(track, rank, found, differs)
            if why and self._strict:
                track.played, track.last = was
                raise Refusal(400, "invalid_request_error", why)
        if why:
            self._tell(why)
        return found or over(str(request.get("model")))

    def count(self, request: Fields) -> int:
        """How many tokens a request has: as many as were recorded, else by its length."""
        with self._lock:
            track = choose_track(self.tracks, request.get("messages"))
            answer = track.answer(track.played)
        return answer.input_tokens if answer else len(json.dumps(request)) // 4

    def _trouble(
        self, track: Track, rank: int, found: Answer | None, differs: list[str]
    ) -> str | None:
        where = f"request {rank + 1} of {track.name}"
        if found is None:
            return f"{where}: only {len(track.messages)} are recorded"
        return "\n".join([f"{where} differs from the recorded one:", *differs]) if differs else None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ReplayServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        try:
            request = self._read()
            if self.path.partition("?")[0] == COUNT:
                self._send(200, {"input_tokens": self.server.count(request)})
                return
            if self.path.partition("?")[0] != MESSAGES:
                raise Refusal(404, "not_found_error", f"no such path: {self.path}")
            answer = self.server.answer(request)
            if request.get("stream"):
                self._stream(answer)
            else:
                self._send(200, answer.body, answer.request_id)
        except Refusal as refusal:
            self._send(refusal.status, refusal.body)

    def do_GET(self) -> None:
        self._send(404, Refusal(404, "not_found_error", f"no such path: {self.path}").body)

    def do_HEAD(self) -> None:
        """Some clients ask first whether anyone is there."""
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _read(self) -> Fields:
        host = (self.headers.get("Host") or "").rpartition(":")[0] or self.headers.get("Host")
        if host not in LOCAL:  # a page in a browser, led here by a name of its own
            raise Refusal(403, "permission_error", f"not for {host}")
        length = self.headers.get("Content-Length") or ""
        if not length.isdecimal() or int(length) > LARGEST:
            raise Refusal(413, "request_too_large", "no length, or too much of it")
        try:
            value = json.loads(self.rfile.read(int(length)))
        except ValueError as error:
            raise Refusal(400, "invalid_request_error", f"not JSON: {error}") from error
        if not is_object(value):
            raise Refusal(400, "invalid_request_error", "not an object")
        return value

    def _send(self, status: int, body: Fields, request_id: str | None = None) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if request_id:
            self.send_header("request-id", request_id)
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, answer: Answer) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Connection", "close")
        if answer.request_id:
            self.send_header("request-id", answer.request_id)
        self.end_headers()
        self.close_connection = True
        try:
            for event in stream_events(answer.body):
                self.wfile.write(encode_event(event))
        except OSError:  # whoever asked has gone
            return

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Keep quiet."""
