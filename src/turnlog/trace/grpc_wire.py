"""Send OTLP over gRPC, using only grpcio: the messages are the same as over HTTP.

Nothing is read from the environment: proxy, certificates and headers come from the target.
"""

import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from google.protobuf.message import Message
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import ReadableSpan
from requests.utils import should_bypass_proxies

from turnlog.errors import UsageError
from turnlog.trace.request_outcome import FOR_NOW, TOO_LARGE, Response
from turnlog.trace.targets import Target

PORT = 4317
SERVICE = "/opentelemetry.proto.collector"
STATUSES = {
    "OK": 200,
    "INVALID_ARGUMENT": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "UNIMPLEMENTED": 404,
    "RESOURCE_EXHAUSTED": 429,
    "UNAVAILABLE": 503,
}
"""HTTP statuses for gRPC codes; any other code counts as a server error."""


class GrpcWire(Response):
    """A gRPC channel to a backend."""

    def __init__(self, target: Target, timeout: float, retrying: float) -> None:
        self._grpc = _load_grpc()
        self._timeout, self._retrying = timeout, min(timeout, retrying)
        self._metadata = [(name.lower(), value) for name, value in target.headers.items()]
        self._channel = self._open(target)

    def _open(self, target: Target) -> Any:
        parts = urlsplit(target.url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        address = f"{host}:{parts.port or PORT}"
        options: list[tuple[str, Any]] = [("grpc.max_send_message_length", -1)]
        if target.proxy and not should_bypass_proxies(target.url, no_proxy=target.no_proxy):
            options.append(("grpc.http_proxy", target.proxy))
        else:
            # grpcio would read https_proxy from this process, which another project may have
            # started. Not set above, because it also turns off `grpc.http_proxy`.
            options.append(("grpc.enable_http_proxy", 0))
        if parts.scheme == "grpc":
            return self._grpc.insecure_channel(address, options)
        roots = Path(target.ca_file).read_bytes() if target.ca_file else None
        keys = self._grpc.ssl_channel_credentials(roots)
        return self._grpc.secure_channel(address, keys, options)

    def export(self, spans: Sequence[ReadableSpan]) -> None:
        """Send one batch."""
        answer = self._call(
            f"{SERVICE}.trace.v1.TraceService/Export",
            encode_spans(spans),
            ExportTraceServiceResponse.FromString,
        )
        if answer is not None:
            self.rejected = answer.partial_success.rejected_spans
            self.reason = answer.partial_success.error_message

    def export_metrics(self, request: ExportMetricsServiceRequest) -> None:
        """Send metrics."""
        name = f"{SERVICE}.metrics.v1.MetricsService/Export"
        answer = self._call(name, request, ExportMetricsServiceResponse.FromString)
        if answer is not None:
            self.rejected = answer.partial_success.rejected_data_points
            self.reason = answer.partial_success.error_message

    def shutdown(self) -> None:
        """Close the channel."""
        self._channel.close()

    def _call(self, method: str, request: Any, parse: Any) -> Any:
        """Call a method; retry with backoff while the backend is busy."""
        until = time.monotonic() + self._retrying
        call = self._channel.unary_unary(method, _serialize, parse)
        pause = 1.0
        while True:
            try:
                answer = call(request, self._timeout, self._metadata)
            except self._grpc.RpcError as error:
                self._fail(error)
            else:
                self.status = 200
                return answer
            is_busy = self.status in FOR_NOW or self.status == 503
            if not is_busy or time.monotonic() + pause > until:
                return None
            time.sleep(pause)
            pause *= 2

    def _fail(self, error: Any) -> None:
        code, self.reason = error.code().name, error.details()
        self.status = STATUSES.get(code, 500)
        if code == "DEADLINE_EXCEEDED":
            self.status, self.has_timed_out = None, True
        elif code == "UNAVAILABLE" and "connect" in (self.reason or "").lower():
            self.status = None  # nothing listens at the address
        elif code == "RESOURCE_EXHAUSTED" and "larger than" in (self.reason or ""):
            self.status = TOO_LARGE


def _serialize(request: Message) -> bytes:
    return request.SerializeToString()


def _load_grpc() -> Any:
    try:
        return import_module("grpc")
    except ImportError as error:
        message = "OTLP over gRPC is not installed"
        raise UsageError(message, "pip install 'turnlog[grpc]'") from error
