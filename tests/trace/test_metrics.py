"""Metrics: every message counts once, in totals or increments, for the target that took it."""

import json
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, NumberDataPoint

from conversation.conftest import Opened
from support.build import assistant, call, result, system, text, user
from support.otlp_receiver import Receiver
from support.traces import spans
from turnlog.conversation.session import Session
from turnlog.trace.content import ContentPolicy
from turnlog.trace.metrics import Metered, MetricStore
from turnlog.trace.otlp import Exporter
from turnlog.trace.send import send_session
from turnlog.trace.sent_state import open_state
from turnlog.trace.spans import SpanOptions, first_trace
from turnlog.trace.targets import Target, target_of
from turnlog.trace.trace_settings import Temporality, TraceSettings

USAGE = {"input_tokens": 10, "output_tokens": 20, "cache_read_input_tokens": 300}
LINES = (
    user("q1"),
    assistant(call("Bash", {}, "t1"), message_id="m1", message={"usage": USAGE}),
    result("t1", "no", is_error=True),
    assistant(text("a1"), message_id="m2", message={"usage": USAGE}),
    system("turn_duration", duration_ms=1500),
)
MORE = (user("q2"), assistant(text("a2"), message_id="m3", message={"usage": USAGE}))
MODEL = "claude-opus-5-5"


def target(url: str, **headers: str) -> Target:
    found = target_of(TraceSettings(to=url, headers=headers))
    assert isinstance(found, Target)
    return found


def deliver(
    folder: Path, to: Target, whole: Session, kind: Temporality, again: bool = False
) -> MetricStore:
    meter = MetricStore(folder, to, kind)
    name = first_trace(whole) or ""
    with Exporter(to) as exporter, open_state(folder, to.name, name) as state:
        metered = Metered(exporter, meter)
        metered.known = frozenset(state.sent)
        skip = set[str]() if again else state.sent
        send_session(whole, metered, state, SpanOptions(ended=True), ContentPolicy(), skip)
        meter.export(exporter)
    return meter


def values(request: ExportMetricsServiceRequest) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for metric in metrics_of(request):
        for point in metric.sum.data_points:
            label = "/".join(each.value.string_value for each in point.attributes)
            found.setdefault(metric.name, {})[label] = number_of(point)
    return found


def metrics_of(request: ExportMetricsServiceRequest) -> list[Any]:
    return [
        metric
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    ]


def number_of(point: NumberDataPoint) -> float:
    return getattr(point, point.WhichOneof("value") or "as_int")


def test_tokens_cost_calls_errors_and_active_time_are_counted(
    opened: Opened, tmp_path: Path, receiver: Receiver
) -> None:
    whole = opened(*LINES)
    deliver(tmp_path, target(receiver.url), whole, Temporality.CUMULATIVE)
    (request,) = receiver.metrics
    found = values(request)
    assert found["turnlog.token.usage"] == {
        f"{MODEL}/input": 20,
        f"{MODEL}/output": 40,
        f"{MODEL}/cache_read": 600,
    }
    assert found["turnlog.calls"] == {f"chat/{MODEL}": 2, "execute_tool/Bash": 1}
    assert found["turnlog.errors"] == {"execute_tool/Bash": 1}
    assert found["turnlog.active_time"] == {"": 1.5}
    costs = [span.cost_usd or 0 for span in spans(whole)]
    assert found["turnlog.cost.usage"][MODEL] == pytest.approx(sum(costs))


def test_totals_grow_and_increments_do_not_overlap(
    opened: Opened, tmp_path: Path, receiver: Receiver
) -> None:
    for kind in Temporality:
        receiver.metrics.clear()
        folder = tmp_path / kind
        deliver(folder, target(receiver.url), opened(*LINES), kind)
        deliver(folder, target(receiver.url), opened(*LINES, *MORE), kind)
        first, second = receiver.metrics
        expected = {"cumulative": (20, 30), "delta": (20, 10)}[kind]
        label = f"{MODEL}/input"
        found = [values(each)["turnlog.token.usage"][label] for each in (first, second)]
        assert tuple(found) == expected
        one, two = (metrics_of(each)[0].sum for each in (first, second))
        told = AggregationTemporality.Name(one.aggregation_temporality)
        assert told == f"AGGREGATION_TEMPORALITY_{kind.upper()}"
        assert one.is_monotonic
        begins = two.data_points[0].start_time_unix_nano
        before = one.data_points[0]
        is_delta = kind is Temporality.DELTA
        assert begins == (before.time_unix_nano if is_delta else before.start_time_unix_nano)


def test_what_is_sent_again_does_not_count_again(
    opened: Opened, tmp_path: Path, receiver: Receiver
) -> None:
    for again in (False, False, True):
        deliver(tmp_path, target(receiver.url), opened(*LINES), Temporality.CUMULATIVE, again)
    assert len(receiver.metrics) == 1
    assert len(receiver.requests) == 2


def test_what_was_counted_and_not_remembered_as_sent_does_not_count_again(
    opened: Opened, tmp_path: Path, receiver: Receiver
) -> None:
    to = target(receiver.url)
    whole = opened(*LINES)
    with Exporter(to) as exporter:
        sending = Metered(exporter, MetricStore(tmp_path, to, Temporality.CUMULATIVE)).send(
            spans(whole)
        )
        next(sending)
        sending.close()  # killed before the state is written
    deliver(tmp_path, to, whole, Temporality.CUMULATIVE)
    assert values(receiver.metrics[-1])["turnlog.token.usage"][f"{MODEL}/input"] == 20


def test_metrics_that_were_not_taken_go_with_the_next(
    opened: Opened, tmp_path: Path, receiver: Receiver
) -> None:
    receiver.metrics_status = 404
    meter = deliver(tmp_path, target(receiver.url), opened(*LINES), Temporality.DELTA)
    assert "404" in (meter.reason or "")
    assert len(receiver.spans) == 4
    receiver.metrics_status = 200
    deliver(tmp_path, target(receiver.url), opened(*LINES, *MORE), Temporality.DELTA)
    assert values(receiver.metrics[-1])["turnlog.token.usage"][f"{MODEL}/input"] == 30


def test_tenants_of_one_backend_have_sums_of_their_own(
    opened: Opened, tmp_path: Path, receiver: Receiver
) -> None:
    whole = opened(*LINES)
    for key in ("alpha", "beta"):
        to = target(receiver.url, **{"x-key": key})
        with Exporter(to) as exporter:
            metered = Metered(exporter, MetricStore(tmp_path, to, Temporality.CUMULATIVE))
            list(metered.send(spans(whole)))
            metered.meter.export(exporter)
    instances = [
        {
            each.key: each.value.string_value
            for each in request.resource_metrics[0].resource.attributes
        }
        for request in receiver.metrics
    ]
    assert instances[0]["service.instance.id"] != instances[1]["service.instance.id"]
    sums = [values(each)["turnlog.token.usage"][f"{MODEL}/input"] for each in receiver.metrics]
    assert sums == [20, 20]


def test_the_state_holds_no_content(opened: Opened, tmp_path: Path, receiver: Receiver) -> None:
    meter = deliver(tmp_path, target(receiver.url), opened(*LINES), Temporality.CUMULATIVE)
    held = json.loads(meter.path.read_text("utf-8"))
    assert held["unconfirmed"] == []
    assert "q1" not in meter.path.read_text("utf-8")
    assert meter.path.stat().st_mode & 0o077 == 0
