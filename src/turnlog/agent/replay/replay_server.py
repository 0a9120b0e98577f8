"""Serve a recorded session as a local Messages API, to test agents without a model."""

import hmac
import json
from collections.abc import Callable
from threading import Lock

from turnlog.agent.replay.answer_events import encode_event, stream_events
from turnlog.agent.replay.local_http import ClientLimits, LocalHandler, LocalServer, RequestError
from turnlog.agent.replay.recorded_answers import (
    RecordedAnswer,
    Track,
    choose_track,
    difference,
    new_messages,
    over,
    tracks_of,
)
from turnlog.conversation.session import Session
from turnlog.format.json_values import Fields

USUAL = ClientLimits()
MESSAGES, COUNT = "/v1/messages", "/v1/messages/count_tokens"
WRONG_KEY = "export ANTHROPIC_API_KEY=KEY, as turnlog replay printed it"

Report = Callable[[str], None]


class ReplayServer(LocalServer):
    """The API server; `report` receives differences between requests and the recording."""

    def __init__(
        self,
        session: Session,
        report: Report,
        port: int = 0,
        strict: bool = False,
        limits: ClientLimits = USUAL,
        key: str | None = None,
    ) -> None:
        """Require `key` as the API key of requests, if given."""
        super().__init__(port, _Handler, limits)
        self._key = key
        self.tracks = tracks_of(session)
        self._report = report
        self._strict = strict
        self._lock = Lock()

    def is_admitted(self, key: str) -> bool:
        """Return whether a request with this key is answered."""
        # Compared in constant time, as other users of this machine could measure response times.
        return self._key is None or hmac.compare_digest(self._key.encode(), key.encode())

    def answer(self, request: Fields) -> RecordedAnswer:
        """Return the message for a request; raise `RequestError` if strict and it differs."""
        messages = request.get("messages")
        with self._lock:
            # Connections have threads of their own, and sub-agents send requests in parallel.
            track = choose_track(self.tracks, messages)
            was = (track.played, track.last)
            rank = track.next_rank(json.dumps(messages, sort_keys=True))
            found = track.answer(rank)
            differs = difference(track.expected(rank), new_messages(messages)) if found else []
            why = self._trouble(track, rank, found, differs)
            if why and self._strict:
                # A refused request does not advance the track: once corrected, it gets this answer.
                track.played, track.last = was
                raise RequestError(400, "invalid_request_error", why)
        if why:
            self._report(why)
        return found or over(str(request.get("model")))

    def count(self, request: Fields) -> int:
        """Return the tokens of a request: as recorded, else estimated by length."""
        with self._lock:
            track = choose_track(self.tracks, request.get("messages"))
            answer = track.answer(track.played)
        return answer.input_tokens if answer else len(json.dumps(request)) // 4

    def _trouble(
        self, track: Track, rank: int, found: RecordedAnswer | None, differs: list[str]
    ) -> str | None:
        where = f"request {rank + 1} of {track.name}"
        if found is None:
            return f"{where}: only {len(track.messages)} are recorded"
        return "\n".join([f"{where} differs from the recorded one:", *differs]) if differs else None


class _Handler(LocalHandler):
    server: ReplayServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:  # noqa: N802
        try:
            self._require_key()
            request = self.read_object()
            path = self.path.partition("?")[0]
            if path == COUNT:
                self.send_object(200, {"input_tokens": self.server.count(request)})
                return
            if path != MESSAGES:
                raise RequestError(404, "not_found_error", f"no such path: {self.path}")
            answer = self.server.answer(request)
        except RequestError as refusal:
            self.refuse(refusal)
            return
        if request.get("stream"):
            self._stream(answer)
        else:
            self.send_object(200, answer.body, answer.request_id)

    def do_GET(self) -> None:  # noqa: N802
        self.refuse(RequestError(404, "not_found_error", f"no such path: {self.path}"))

    def do_HEAD(self) -> None:  # noqa: N802
        """Answer the availability check of some clients."""
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _require_key(self) -> None:
        """Refuse requests without the key.

        Every user of the machine can connect to a port of 127.0.0.1, and the answers contain a
        session. Only HEAD needs no key, as its response reveals nothing.
        """
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        bearer = token.strip() if scheme.lower() == "bearer" else ""
        if not any(map(self.server.is_admitted, (self.headers.get("x-api-key", ""), bearer))):
            raise RequestError(401, "authentication_error", WRONG_KEY)

    def _stream(self, answer: RecordedAnswer) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        # The length is not known in advance: the end of the connection ends the response.
        self.send_header("Connection", "close")
        if answer.request_id:
            self.send_header("request-id", answer.request_id)
        self.end_headers()
        self.close_connection = True
        try:
            for event in stream_events(answer.body):
                self.wfile.write(encode_event(event))
        except OSError:  # the client disconnected
            return
