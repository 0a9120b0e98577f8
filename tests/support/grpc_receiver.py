"""A backend for tests that takes OTLP over real gRPC."""

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from threading import Event
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

grpc: Any = import_module("grpc")
SERVICE = "opentelemetry.proto.collector"


@dataclass
class GrpcReceiver:
    """Requests received over gRPC, and the answers to give."""

    url: str = ""
    requests: list[ExportTraceServiceRequest] = field(default_factory=list[Any])
    metrics: list[ExportMetricsServiceRequest] = field(default_factory=list[Any])
    metadata: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    codes: list[Any] = field(default_factory=list[Any])
    """Codes to fail the next calls with."""
    delay: float = 0.0
    released: Event = field(default_factory=Event)

    @property
    def spans(self) -> list[Span]:
        scopes = [
            scope
            for request in self.requests
            for each in request.resource_spans
            for scope in each.scope_spans
        ]
        return [span for scope in scopes for span in scope.spans]

    def take(self, request: ExportTraceServiceRequest, context: Any) -> ExportTraceServiceResponse:
        self.metadata.append(dict(context.invocation_metadata()))
        if self.codes:
            context.abort(self.codes.pop(0), "as the test wants it")
        self.requests.append(request)
        self.released.wait(self.delay)
        return ExportTraceServiceResponse()

    def take_metrics(
        self, request: ExportMetricsServiceRequest, _: Any
    ) -> ExportMetricsServiceResponse:
        self.metrics.append(request)
        return ExportMetricsServiceResponse()


@contextmanager
def receiving_grpc() -> Generator[GrpcReceiver]:
    """A backend on a free port."""
    receiver = GrpcReceiver()
    traces = grpc.unary_unary_rpc_method_handler(
        receiver.take,
        ExportTraceServiceRequest.FromString,
        ExportTraceServiceResponse.SerializeToString,
    )
    metrics = grpc.unary_unary_rpc_method_handler(
        receiver.take_metrics,
        ExportMetricsServiceRequest.FromString,
        ExportMetricsServiceResponse.SerializeToString,
    )
    server = grpc.server(ThreadPoolExecutor(4))
    names = {"trace.v1.TraceService": traces, "metrics.v1.MetricsService": metrics}
    server.add_generic_rpc_handlers(
        tuple(
            grpc.method_handlers_generic_handler(f"{SERVICE}.{name}", {"Export": handler})
            for name, handler in names.items()
        )
    )
    receiver.url = f"grpc://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield receiver
    finally:
        receiver.released.set()
        server.stop(None).wait()
