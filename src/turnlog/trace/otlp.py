"""Send spans to a backend in batches, over HTTP with OpenTelemetry's exporter, or over gRPC.

Sending never raises: the outcome says if a backend is down, is slow or refuses spans. All settings
come from the target, none from the environment. Import this module lazily: it loads OpenTelemetry.
"""

import gzip
import logging
from collections.abc import Iterable, Iterator
from socket import gaierror
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import requests
from msgspec import Struct
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event as SdkEvent
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags
from requests.utils import should_bypass_proxies

from turnlog import __version__
from turnlog.store.batches import bounded
from turnlog.trace.attributes import attributes_of
from turnlog.trace.grpc_wire import GrpcWire
from turnlog.trace.request_outcome import TOO_LARGE, BatchOutcome, Response
from turnlog.trace.span import Event, Span, WorkKind
from turnlog.trace.targets import GRPC, METRICS, TRACES, Target

MAX_SPANS = 512
MAX_BYTES = 2_000_000
CONNECTING = 5.0
"""Seconds to wait for a connection; after that the backend counts as unreachable, not as slow."""
RETRYING = 10.0
"""Seconds for which a batch is retried while the backend is busy."""
KEPT_HEADERS = frozenset({"content-type", "content-encoding", "content-length", "connection"})
PROTOBUF = "application/x-protobuf"
SCOPE = InstrumentationScope("turnlog", __version__)

# The exporter also logs failures, which would end up on the terminal.
logging.getLogger("opentelemetry").addHandler(logging.NullHandler())


class NothingThere(Exception):
    """No backend answers at the address; unlike other failures, this one is not retried at once."""


class ExportOutcome(Struct, frozen=True):
    """The result of sending a batch of spans."""

    verdict: BatchOutcome
    accepted: list[str]
    """Ids of the spans that the backend accepted."""
    failed: int = 0
    """Number of spans that the backend did not accept."""
    reason: str | None = None
    """The reason why spans were rejected."""
    refused: list[str] = []
    """Ids of the spans that the backend would refuse again, even with other settings."""


class Exporter:
    """A connection to a target."""

    has_given_up = False
    """True if the target accepts no more spans, for now or permanently."""

    def __init__(self, target: Target, timeout: float = 60.0) -> None:
        self._address = target.address
        self._resource = resource_of(target)
        if target.url.startswith(GRPC):
            self._wire = self._exporter = GrpcWire(target, timeout, RETRYING)
            return
        self._wire = _Wire(target, timeout)
        self._exporter = OTLPSpanExporter(
            target.url,
            timeout=min(timeout, RETRYING),
            compression=Compression.Gzip,
            session=self._wire,
        )

    def __enter__(self) -> "Exporter":
        return self

    def __exit__(self, *_: object) -> None:
        self._exporter.shutdown()

    @property
    def resource(self) -> Resource:
        """The OpenTelemetry resource of all spans and metrics."""
        return self._resource

    def send_metrics(self, request: ExportMetricsServiceRequest) -> ExportOutcome:
        """Send metrics to the metrics path that corresponds to the target's traces path."""
        self._wire.forget()
        try:
            self._wire.export_metrics(request)
        except Exception as error:  # the spans have arrived: failed metrics must not undo that
            self._wire.reason = str(error)
        verdict = self._wire.verdict
        reason = f"{self._address}: metrics: {self._wire.reason or 'no response'}"
        return ExportOutcome(verdict, [], reason=None if verdict is BatchOutcome.SENT else reason)

    @property
    def has_timed_out(self) -> bool:
        """True if the target received the last request but did not answer in time."""
        return self._wire.has_timed_out

    @property
    def status(self) -> int | None:
        """The HTTP status of the last response, if there was one."""
        return self._wire.status

    def send(self, spans: Iterable[Span]) -> Iterator[ExportOutcome]:
        """Send spans in batches and yield each outcome; stop when further batches would fail."""
        made = (sdk_span(span, self._resource) for span in spans)
        for batch in bounded(made, _text_size, MAX_BYTES, MAX_SPANS):
            outcome = self._send(batch)
            self.has_given_up = self._is_useless(outcome)
            yield outcome
            if self.has_given_up:
                return

    def _is_useless(self, outcome: ExportOutcome) -> bool:
        """Return whether the next batch would fail too; an oversized span affects only itself."""
        if outcome.verdict is BatchOutcome.REFUSED:
            return not outcome.accepted and self._wire.status != TOO_LARGE
        return outcome.verdict is BatchOutcome.LATER

    def _send(self, spans: list[ReadableSpan]) -> ExportOutcome:
        """Send one batch; split it in halves if the backend finds it too large."""
        self._wire.forget()
        try:
            self._exporter.export(spans)
        except Exception as error:  # any error: the caller may have other targets to send to
            self._wire.reason = str(error)
        if self._wire.status == TOO_LARGE and len(spans) > 1:
            half = len(spans) // 2
            return _joined(self._send(spans[:half]), self._send(spans[half:]))
        verdict = self._wire.verdict
        names = [_id_of(span) for span in spans]
        if verdict is BatchOutcome.SENT:
            return ExportOutcome(verdict, names)
        reason = f"{self._address}: {self._wire.reason or 'the spans were not accepted'}"
        return ExportOutcome(
            verdict, [], len(spans), reason, names if self._wire.is_for_good else []
        )


class _Wire(Response, requests.Session):
    """Sends requests exactly as the target specifies, and keeps the response.

    By default, requests and the exporter would read proxies, certificates, client keys, headers and
    ~/.netrc from this process, which may have been started by another project.
    """

    def __init__(self, target: Target, timeout: float) -> None:
        super().__init__()
        self.trust_env = False
        self.own = {"user-agent": f"turnlog/{__version__}", **target.headers}
        self.fixed: dict[str, Any] = {
            "verify": target.ca_file or True,
            "cert": None,
            "proxies": _proxies_of(target),
            # A redirect could carry headers and spans to an address that no setting names.
            "allow_redirects": False,
            # The exporter's timeout limits its retries; a single response may take longer.
            "timeout": (min(timeout, CONNECTING), timeout),
        }
        self.auth = lambda request: request  # keeps user:password@host out of the headers
        self._metrics_url = _metrics_url(target.url)
        self.forget()

    def export_metrics(self, request: ExportMetricsServiceRequest) -> None:
        """Send metrics to the target's metrics path."""
        body = gzip.compress(request.SerializeToString())
        headers = {"content-type": PROTOBUF, "content-encoding": "gzip"}
        self.post(self._metrics_url, data=body, headers=headers)

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        """Send a request with the target's headers and connection settings."""
        for name in list(request.headers):
            if name.lower() not in KEPT_HEADERS:
                del request.headers[name]
        request.headers.update(self.own)
        try:
            response = super().send(request, **(kwargs | self.fixed))
        except requests.RequestException as error:
            cause = _cause_of(error)
            self.reason = cause.strerror or str(error)
            self.has_timed_out = isinstance(error, requests.ReadTimeout)
            # A request that timed out may have been stored: retrying at once would duplicate it.
            is_away = self.has_timed_out or isinstance(error, requests.ConnectTimeout)
            if is_away or isinstance(cause, ConnectionRefusedError | gaierror):
                raise NothingThere(self.reason) from error
            raise
        self.status = response.status_code
        self.reason = f"{response.status_code} {response.reason} {response.text[:200]}".strip()
        if response.ok and PROTOBUF in response.headers.get("content-type", ""):
            # A response to metrics has the same fields under the same numbers.
            answer = ExportTraceServiceResponse.FromString(response.content).partial_success
            self.rejected = answer.rejected_spans
            self.reason = answer.error_message
        return response


def _metrics_url(url: str) -> str:
    """Return the URL for metrics that corresponds to a URL for traces.

    >>> _metrics_url("http://c:4318/v1/traces?x=1")
    'http://c:4318/v1/metrics?x=1'
    """
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=parts.path.removesuffix(TRACES) + METRICS))


def _proxies_of(target: Target) -> dict[str, str]:
    if not target.proxy or should_bypass_proxies(target.url, no_proxy=target.no_proxy):
        return {}
    return {"http": target.proxy, "https": target.proxy}


def resource_of(target: Target | None = None) -> Resource:
    """Return the OpenTelemetry resource of all spans for a target."""
    return Resource({"service.name": "claude-code", **(target.resource if target else {})})


def sdk_span(span: Span, resource: Resource) -> ReadableSpan:
    """Convert a span to OpenTelemetry's type."""
    trace_id = int(span.trace.id, 16)
    return ReadableSpan(
        name=span.name,
        context=_context(trace_id, span.id),
        parent=_parent(span),
        resource=resource,
        attributes=attributes_of(span),
        events=[_sdk_event(event) for event in span.events],
        kind=SpanKind.CLIENT if span.kind is WorkKind.GENERATION else SpanKind.INTERNAL,
        status=_status(span),
        start_time=span.begins,
        end_time=span.ends,
        instrumentation_scope=SCOPE,
    )


def _status(span: Span) -> Status:
    if span.error is not None:
        return Status(StatusCode.ERROR, span.error or None)
    return Status(StatusCode.UNSET if span.is_interrupted else StatusCode.OK)


def _parent(span: Span) -> SpanContext | None:
    if span.sent_parent is None:
        return None
    return _context(int(span.trace.id, 16), span.sent_parent, is_remote=span.parent_id is None)


def _context(trace_id: int, span_id: str, is_remote: bool = False) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED)
    return SpanContext(trace_id, int(span_id, 16), is_remote=is_remote, trace_flags=flags)


def _sdk_event(event: Event) -> SdkEvent:
    return SdkEvent(event.name, event.facts | event.texts, event.time)


def _id_of(span: ReadableSpan) -> str:
    assert span.context, "made by sdk_span"
    return f"{span.context.span_id:016x}"


def _text_size(span: ReadableSpan) -> int:
    """Return the size of a span's texts: close to the encoded size, without encoding the span."""
    return sum(len(value) for value in (span.attributes or {}).values() if isinstance(value, str))


def _cause_of(error: OSError) -> OSError:
    """Return the operating system's error behind a library's error."""
    inner: BaseException | None = error
    while inner is not None:
        error = inner if isinstance(inner, OSError) and inner.strerror else error
        inner = inner.__cause__ or inner.__context__
    return error


def _joined(first: ExportOutcome, second: ExportOutcome) -> ExportOutcome:
    worst = max(first, second, key=lambda outcome: list(BatchOutcome).index(outcome.verdict))
    return ExportOutcome(
        worst.verdict,
        first.accepted + second.accepted,
        first.failed + second.failed,
        worst.reason,
        first.refused + second.refused,
    )
