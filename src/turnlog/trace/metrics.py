"""Count and export metrics: tokens, cost, calls, errors and active time, as OTLP sums.

Only spans that a target has accepted count, and each span is accepted once: no message is counted
twice, whichever hooks announced it. Totals are stored per target. Import this module lazily: it
loads OpenTelemetry.
"""

import json
import os
import time
from collections.abc import Generator, Iterable, Iterator, Set
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, field
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from turnlog import __version__
from turnlog.conversation.cost import cache_writes
from turnlog.format.fields import given
from turnlog.format.locks import lock
from turnlog.format.private_files import secure_folder
from turnlog.format.regular_files import read_object
from turnlog.trace.otlp import Exporter, ExportOutcome
from turnlog.trace.request_outcome import BatchOutcome
from turnlog.trace.sent_state import write_json
from turnlog.trace.span import Span, WorkKind
from turnlog.trace.targets import Target
from turnlog.trace.trace_settings import Temporality

TOKENS, COST, CALLS = "turnlog.token.usage", "turnlog.cost.usage", "turnlog.calls"
ERRORS, ACTIVE = "turnlog.errors", "turnlog.active_time"
UNITS = {TOKENS: "{token}", COST: "USD", CALLS: "{call}", ERRORS: "{error}", ACTIVE: "s"}
OPERATIONS = {WorkKind.GENERATION: "chat", WorkKind.TOOL: "execute_tool"}
Totals = dict[str, dict[str, float]]
"""Values by metric name and by attributes, encoded as JSON."""


class MetricPoint(NamedTuple):
    """The amount that one span adds to a metric."""

    metric: str
    attributes: dict[str, str]
    value: float


class MeterState(Struct):
    """The totals for a target, and those that the target has received."""

    instance: str = ""
    """A random id that separates this machine's totals from others at the same target."""
    started: int = 0
    """Start of the totals, in nanoseconds since 1970."""
    exported: int = 0
    """Time of the last successful export, in nanoseconds since 1970."""
    totals: Totals = {}
    acknowledged: Totals = field(default_factory=dict[str, dict[str, float]], name="told")
    """The totals at the last successful export."""
    unconfirmed: list[str] = []
    """Ids of spans that were counted but may not yet be recorded as sent."""


def points_of(span: Span) -> Iterator[MetricPoint]:
    """Yield the amounts that a span adds to the metrics."""
    named = {WorkKind.GENERATION: ("gen_ai.request.model", span.model)}
    name, value = named.get(span.kind, ("gen_ai.tool.name", span.tool))
    operation = {"gen_ai.operation.name": OPERATIONS.get(span.kind, "invoke_agent")}
    about = operation | ({name: value} if value else {})
    if span.kind in OPERATIONS:
        yield MetricPoint(CALLS, about, 1)
    if span.error is not None and (span.kind in OPERATIONS or span.parent_id is None):
        yield MetricPoint(ERRORS, about, 1)
    if span.kind is WorkKind.GENERATION:
        model = {"gen_ai.request.model": span.model or "unknown"}
        for kind, count in _tokens(span).items():
            yield MetricPoint(TOKENS, model | {"gen_ai.token.type": kind}, count)
        if span.cost_usd:
            yield MetricPoint(COST, model, span.cost_usd)
    if span.parent_id is None and not span.trace.is_helper:
        lasted = span.ends - span.begins if span.active is None else span.active
        yield MetricPoint(ACTIVE, {}, lasted / 1e9)


def _tokens(span: Span) -> dict[str, int]:
    if span.usage is None:
        return {}
    short, long = cache_writes(span.usage)
    counts = {
        "input": given(span.usage.input_tokens),
        "output": given(span.usage.output_tokens),
        "cache_read": given(span.usage.cache_read_input_tokens),
        "cache_write_5m": short,
        "cache_write_1h": long,
    }
    return {kind: count for kind, count in counts.items() if count}


class MetricStore:
    """The metrics of one target, in a file shared by several processes under a lock."""

    def __init__(
        self, folder: Path, target: Target, temporality: Temporality, project: str = ""
    ) -> None:
        # Two tenants of a backend may differ only in their key: neither may see the other's sums.
        owner = json.dumps(
            [project, sorted(target.headers.items()), sorted(target.resource.items())]
        )
        name = sha256(owner.encode()).hexdigest()[:16]
        self.path = folder / target.name / "metrics" / f"{name}.json"
        self.temporality = temporality
        self.reason: str | None = None
        """Error of the last failed export."""

    def count(self, spans: Iterable[Span]) -> None:
        """Count spans that a target accepted, before they are recorded as sent.

        If the process dies in between, the spans are sent again but not counted again.
        """
        with self._change() as state:
            known = set(state.unconfirmed)
            for span in spans:
                if span.id not in known:
                    _add(state.totals, points_of(span))
                    state.unconfirmed.append(span.id)

    def confirm(self, ids: Iterable[str]) -> None:
        """Drop the ids of spans that are now recorded as sent."""
        confirmed = set(ids)
        with self._change() as state:
            state.unconfirmed = [name for name in state.unconfirmed if name not in confirmed]

    def export(self, exporter: Exporter) -> None:
        """Send the totals if they changed since the last successful export.

        Cumulative totals may arrive twice without harm. A delta whose request timed out is not sent
        again, because the target may have added it.
        """
        secure_folder(self.path.parent, must_own=True)
        # The export has a lock of its own, so that counting continues while the target is slow.
        with _locked(self.path.with_suffix(".export.lock"), wait=False) as is_ours:
            if not is_ours:
                return
            with self._change() as state:
                totals = _copy(state.totals)
            if totals == state.acknowledged:
                return
            now = time.time_ns()
            outcome = exporter.send_metrics(self._request(state, totals, now, exporter))
            self.reason = outcome.reason
            is_delta = self.temporality is Temporality.DELTA
            # After a timeout, a delta may or may not have been added. Losing one is better than
            # counting it twice; a cumulative total is simply sent again.
            if outcome.verdict is BatchOutcome.SENT or (is_delta and exporter.has_timed_out):
                with self._change() as state:
                    state.acknowledged, state.exported = totals, now

    def _request(
        self, state: MeterState, totals: Totals, now: int, exporter: Exporter
    ) -> ExportMetricsServiceRequest:
        is_delta = self.temporality is Temporality.DELTA
        values = _difference(totals, state.acknowledged) if is_delta else totals
        start = state.exported or state.started if is_delta else state.started
        kind = (
            AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
            if is_delta
            else AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
        )
        metrics = [
            Metric(
                name=name,
                unit=UNITS[name],
                sum=Sum(
                    data_points=[
                        _data_point(name, key, value, (start, now)) for key, value in points
                    ],
                    aggregation_temporality=kind,
                    is_monotonic=True,
                ),
            )
            for name, points in ((name, list(amounts.items())) for name, amounts in values.items())
            if points
        ]
        shared = dict(exporter.resource.attributes) | {"service.instance.id": state.instance}
        scope = InstrumentationScope(name="turnlog", version=__version__)
        inner = ScopeMetrics(scope=scope, metrics=metrics)
        resource = Resource(attributes=_attributes(shared))
        wrapped = ResourceMetrics(resource=resource, scope_metrics=[inner])
        return ExportMetricsServiceRequest(resource_metrics=[wrapped])

    @contextmanager
    def _change(self) -> Generator[MeterState]:
        secure_folder(self.path.parent, must_own=True)
        with _locked(self.path.with_suffix(".lock")):
            state = _load(self.path)
            before = msgspec.to_builtins(state)
            yield state
            if (after := msgspec.to_builtins(state)) != before:
                write_json(self.path, after)


class Metered:
    """An exporter that counts the spans its target accepts."""

    def __init__(self, exporter: Exporter, meter: MetricStore) -> None:
        self.exporter, self.meter = exporter, meter
        self.known: Set[str] = frozenset()
        """Ids of spans sent before, which are not counted again."""

    def send(self, spans: Iterable[Span]) -> Generator[ExportOutcome]:
        """Send spans, and count those that are accepted for the first time."""
        pending: dict[str, Span] = {}
        for outcome in self.exporter.send(self._tee(spans, pending)):
            accepted = [pending.pop(name) for name in outcome.accepted]
            self.meter.count(span for span in accepted if span.id not in self.known)
            yield outcome  # the caller now records the spans as sent
            self.meter.confirm(outcome.accepted)

    def _tee(self, spans: Iterable[Span], pending: dict[str, Span]) -> Iterator[Span]:
        for span in spans:
            pending[span.id] = span
            yield span


def _load(path: Path) -> MeterState:
    try:
        state = msgspec.convert(read_object(path), MeterState)
    except msgspec.ValidationError:
        state = MeterState()
    if not state.instance:
        state.instance, state.started = os.urandom(8).hex(), time.time_ns()
    return state


def _add(totals: Totals, points: Iterable[MetricPoint]) -> None:
    for point in points:
        key = json.dumps(point.attributes, sort_keys=True)
        values = totals.setdefault(point.metric, {})
        values[key] = values.get(key, 0) + point.value


def _copy(totals: Totals) -> Totals:
    return {name: dict(values) for name, values in totals.items()}


def _difference(totals: Totals, before: Totals) -> Totals:
    return {
        name: {
            key: value - before.get(name, {}).get(key, 0)
            for key, value in values.items()
            if value != before.get(name, {}).get(key, 0)
        }
        for name, values in totals.items()
    }


def _data_point(name: str, key: str, value: float, times: tuple[int, int]) -> NumberDataPoint:
    start, now = times
    is_whole = name not in (COST, ACTIVE)
    number: dict[str, Any] = {"as_int": int(value)} if is_whole else {"as_double": value}
    attributes = _attributes(json.loads(key))
    return NumberDataPoint(
        attributes=attributes, start_time_unix_nano=start, time_unix_nano=now, **number
    )


def _attributes(attributes: dict[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=n, value=AnyValue(string_value=str(v))) for n, v in attributes.items()]


@contextmanager
def _locked(path: Path, wait: bool = True) -> Generator[bool]:
    """Hold a lock file; yield False if another process has it and `wait` is not set."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield _is_locked(descriptor, wait)
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int, wait: bool) -> bool:
    try:
        lock(descriptor, wait=wait)
    except BlockingIOError:
        return False
    return True
