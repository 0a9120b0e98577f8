"""An OTLP backend over real HTTP that can be made to fail, delay or hang."""

import gzip
import time
from collections import deque
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass(frozen=True)
class Received:
    """One request."""

    path: str
    headers: Mapping[str, str]
    """With names in lower case."""
    body: ExportTraceServiceRequest

    @property
    def resource(self) -> dict[str, Any]:
        return attributes(self.body.resource_spans[0].resource)

    @property
    def spans(self) -> list[Span]:
        scopes = [scope for each in self.body.resource_spans for scope in each.scope_spans]
        return [span for scope in scopes for span in scope.spans]


@dataclass
class Receiver:
    """Requests received, and the answers to give; 200 by default."""

    url: str = ""
    requests: list[Received] = field(default_factory=list[Received])
    statuses: deque[int] = field(default_factory=deque[int])
    """Answers to the next requests."""
    always: int = 200
    """The answer when there is no other."""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    metrics: list[ExportMetricsServiceRequest] = field(default_factory=list[Any])
    metrics_status: int = 200
    limit: int | None = None
    """Spans that it takes at once; with more it answers 413."""
    rejected: int = 0
    """Spans that it claims to have rejected while it answers 200."""
    delay: float = 0.0
    """Seconds before it responds to a request."""
    asked_at: list[float] = field(default_factory=list[float])
    """When requests arrived, whatever became of them."""
    hangs: bool = False
    """Never answers."""
    released: Event = field(default_factory=Event)

    @property
    def asked(self) -> int:
        """The number of requests that arrived."""
        return len(self.asked_at)

    @property
    def spans(self) -> dict[str, Span]:
        """Every span that was taken, by its id in hex."""
        return {span.span_id.hex(): span for each in self.requests for span in each.spans}

    def take(self, received: Received) -> int:
        """Take a request, or not; returns the status of the answer."""
        too_many = self.limit is not None and len(received.spans) > self.limit
        status = 413 if too_many else self.statuses.popleft() if self.statuses else self.always
        if status == 200:
            self.requests.append(received)
        return status


def attributes(holder: Any) -> dict[str, Any]:
    """The attributes of a span, an event or a resource."""
    return {each.key: value_of(each.value) for each in holder.attributes}


def value_of(value: AnyValue) -> Any:
    name = value.WhichOneof("value")
    if name == "array_value":
        return [value_of(each) for each in value.array_value.values]
    return getattr(value, name) if name else None


@contextmanager
def receiving(port: int = 0) -> Generator[Receiver]:
    """A backend, on a free port unless one is named."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            receiver.asked_at.append(time.time())
            if receiver.hangs:
                receiver.released.wait(30)
                return
            named = {name.lower(): value for name, value in self.headers.items()}
            if self.path.endswith("/v1/metrics"):
                receiver.metrics.append(ExportMetricsServiceRequest.FromString(body))
                self._answer(receiver.metrics_status)
                return
            request = ExportTraceServiceRequest.FromString(body)
            status = receiver.take(Received(self.path, named, request))
            receiver.released.wait(receiver.delay)
            with suppress(OSError):  # nobody waits for the answer any more
                self._answer(status)

        def _answer(self, status: int) -> None:
            partial = ExportTracePartialSuccess(
                rejected_spans=receiver.rejected, error_message="too old" * bool(receiver.rejected)
            )
            answer = ExportTraceServiceResponse(partial_success=partial).SerializeToString()
            self.send_response(status)
            for name, value in receiver.headers.items():
                self.send_header(name, value)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield receiver
    finally:
        receiver.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
