"""Metrics of what was sent: tokens, cost, calls, errors and active time, as OTLP's sums.

They are counted from the spans that a target has taken, and a target takes each span once: so no
message counts twice, whichever hooks announced it. The totals are remembered for each target.
Loads OpenTelemetry's messages: import this module late.
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
from msgspec import Struct
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
"""By metric, and by its attributes as JSON."""


class MetricPoint(NamedTuple):
    """What one span adds to a metric."""

    metric: str
    attributes: dict[str, str]
    value: float


class MeterState(Struct):
    """What was counted for a target, and how much of it the target knows."""

    instance: str = ""
    """Tells the totals of this machine from those of others at the same target."""
    started: int = 0
    """Since when totals are counted, in nanoseconds since 1970."""
    exported: int = 0
    """When the target was last told."""
    totals: Totals = {}
    told: Totals = {}
    """The totals that the target knows."""
    unconfirmed: list[str] = []
    """Spans that were counted, and perhaps not yet remembered as sent."""


def points_of(span: Span) -> Iterator[MetricPoint]:
    """Yield what a span adds to the metrics."""
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
    """The metrics of one target, in a file that several processes may count into."""

    def __init__(
        self, folder: Path, target: Target, temporality: Temporality, project: str = ""
    ) -> None:
        # Two tenants of one backend differ in nothing but a key: neither may see the other's sums.
        owner = json.dumps(
            [project, sorted(target.headers.items()), sorted(target.resource.items())]
        )
        name = sha256(owner.encode()).hexdigest()[:16]
        self.path = folder / target.name / "metrics" / f"{name}.json"
        self.temporality = temporality
        self.reason: str | None = None
        """Why the target does not know the newest totals."""

    def count(self, spans: Iterable[Span]) -> None:
        """Count spans that a target has taken, before that is remembered.

        Should the process die in between, they are sent again, and not counted again.
        """
        with self._change() as state:
            known = set(state.unconfirmed)
            for span in spans:
                if span.id not in known:
                    _add(state.totals, points_of(span))
                    state.unconfirmed.append(span.id)

    def confirm(self, ids: Iterable[str]) -> None:
        """Forget the ids of spans that are now remembered as sent."""
        gone = set(ids)
        with self._change() as state:
            state.unconfirmed = [each for each in state.unconfirmed if each not in gone]

    def export(self, exporter: Exporter) -> None:
        """Tell the target what it does not know; what fails is part of the next export.

        Totals that are cumulative may arrive twice. An increment that was not answered in time may
        have been added: it is not sent again.
        """
        secure_folder(self.path.parent, must_own=True)
        with _locked(self.path.with_suffix(".export.lock"), wait=False) as is_ours:
            if not is_ours:
                return
            with self._change() as state:
                totals = _copy(state.totals)
            if totals == state.told:
                return
            now = time.time_ns()
            outcome = exporter.send_metrics(self._request(state, totals, now, exporter))
            self.reason = outcome.reason
            is_delta = self.temporality is Temporality.DELTA
            if outcome.verdict is BatchOutcome.SENT or (is_delta and exporter.has_timed_out):
                with self._change() as state:
                    state.told, state.exported = totals, now

    def _request(
        self, state: MeterState, totals: Totals, now: int, exporter: Exporter
    ) -> ExportMetricsServiceRequest:
        is_delta = self.temporality is Temporality.DELTA
        values = _difference(totals, state.told) if is_delta else totals
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
                        _data_point(name, key, value, (start, now)) for key, value in held
                    ],
                    aggregation_temporality=kind,
                    is_monotonic=True,
                ),
            )
            for name, held in ((name, list(each.items())) for name, each in values.items())
            if held
        ]
        shared = dict(exporter.resource.attributes) | {"service.instance.id": state.instance}
        scope = InstrumentationScope(name="turnlog", version=__version__)
        inner = ScopeMetrics(scope=scope, metrics=metrics)
        resource = Resource(attributes=_attributes(shared))
        held = ResourceMetrics(resource=resource, scope_metrics=[inner])
        return ExportMetricsServiceRequest(resource_metrics=[held])

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
    """An exporter that counts what its target takes."""

    def __init__(self, exporter: Exporter, meter: MetricStore) -> None:
        self.exporter, self.meter = exporter, meter
        self.known: Set[str] = frozenset()
        """Spans that were sent before: sent again, they do not count again."""

    def send(self, spans: Iterable[Span]) -> Generator[ExportOutcome]:
        """Send spans, and count those that are taken for the first time."""
        passed: dict[str, Span] = {}
        for outcome in self.exporter.send(self._noting(spans, passed)):
            taken = [passed.pop(name) for name in outcome.accepted]
            self.meter.count(span for span in taken if span.id not in self.known)
            yield outcome  # now the caller remembers what was sent
            self.meter.confirm(outcome.accepted)

    def _noting(self, spans: Iterable[Span], passed: dict[str, Span]) -> Iterator[Span]:
        for span in spans:
            passed[span.id] = span
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
        held = totals.setdefault(point.metric, {})
        held[key] = held.get(key, 0) + point.value


def _copy(totals: Totals) -> Totals:
    return {name: dict(held) for name, held in totals.items()}


def _difference(totals: Totals, told: Totals) -> Totals:
    return {
        name: {
            key: value - told.get(name, {}).get(key, 0)
            for key, value in held.items()
            if value != told.get(name, {}).get(key, 0)
        }
        for name, held in totals.items()
    }


def _data_point(name: str, key: str, value: float, times: tuple[int, int]) -> NumberDataPoint:
    start, now = times
    is_whole = name not in (COST, ACTIVE)
    number: dict[str, Any] = {"as_int": int(value)} if is_whole else {"as_double": value}
    held = _attributes(json.loads(key))
    return NumberDataPoint(
        attributes=held, start_time_unix_nano=start, time_unix_nano=now, **number
    )


def _attributes(held: dict[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=n, value=AnyValue(string_value=str(v))) for n, v in held.items()]


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
