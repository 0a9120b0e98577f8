"""OTLP over gRPC, to a real server."""

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conversation.conftest import Opened
from support.build import assistant, text, user
from support.traces import spans
from turnlog.trace.metrics import Metered, MetricStore
from turnlog.trace.otlp import Exporter, ExportOutcome
from turnlog.trace.request_outcome import BatchOutcome
from turnlog.trace.span import Span
from turnlog.trace.targets import Target, target_of
from turnlog.trace.trace_settings import Temporality, TraceSettings

grpc = pytest.importorskip("grpc")

if TYPE_CHECKING:
    from support.grpc_receiver import GrpcReceiver


@pytest.fixture
def receiver() -> "Generator[GrpcReceiver]":
    from support.grpc_receiver import receiving_grpc

    with receiving_grpc() as started:
        yield started


@pytest.fixture
def turn(opened: Opened) -> list[Span]:
    return spans(opened(user("hi"), assistant(text("hello"), message_id="m1")))


def send(url: str, turn: list[Span], timeout: float = 5, **settings: Any) -> list[ExportOutcome]:
    target = target_of(TraceSettings(to=url, headers={"X-Key": "secret"}, **settings))
    assert isinstance(target, Target)
    with Exporter(target, timeout) as exporter:
        return list(exporter.send(turn))


def test_spans_arrive_with_their_headers_and_resource(
    receiver: "GrpcReceiver", turn: list[Span]
) -> None:
    (outcome,) = send(receiver.url, turn, service_name="assistant")
    assert outcome.verdict is BatchOutcome.SENT
    assert [span.span_id.hex() for span in receiver.spans] == [span.id for span in turn]
    assert receiver.metadata[0]["x-key"] == "secret"
    (resource,) = [each.resource for each in receiver.requests[0].resource_spans]
    assert {each.key: each.value.string_value for each in resource.attributes} == {
        "service.name": "assistant"
    }


@pytest.mark.parametrize(
    ("code", "verdict", "is_for_good"),
    [
        ("INVALID_ARGUMENT", BatchOutcome.REFUSED, True),
        ("UNAUTHENTICATED", BatchOutcome.REFUSED, False),
        ("INTERNAL", BatchOutcome.LATER, False),
    ],
)
def test_a_code_of_grpc_is_judged_like_the_status_of_http_that_means_the_same(
    receiver: "GrpcReceiver", turn: list[Span], code: str, verdict: BatchOutcome, is_for_good: bool
) -> None:
    receiver.codes = [getattr(grpc.StatusCode, code)]
    (outcome,) = send(receiver.url, turn)
    assert (outcome.verdict, bool(outcome.refused)) == (verdict, is_for_good)
    assert "as the test wants it" in (outcome.reason or "")


def test_a_busy_backend_is_asked_again(receiver: "GrpcReceiver", turn: list[Span]) -> None:
    receiver.codes = [grpc.StatusCode.UNAVAILABLE]
    (outcome,) = send(receiver.url, turn)
    assert outcome.verdict is BatchOutcome.SENT
    assert len(receiver.metadata) == 2


def test_what_was_not_answered_in_time_is_not_sent_again_at_once(
    receiver: "GrpcReceiver", turn: list[Span]
) -> None:
    receiver.delay = 20
    (outcome,) = send(receiver.url, turn, timeout=0.5)
    assert outcome.verdict is BatchOutcome.LATER
    assert len(receiver.requests) == 1


def test_a_backend_that_is_not_there_is_for_later(turn: list[Span]) -> None:
    (outcome,) = send("grpc://127.0.0.1:9", turn)
    assert outcome.verdict is BatchOutcome.LATER


def test_a_proxy_of_this_process_is_not_used(
    receiver: "GrpcReceiver", turn: list[Span], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    (outcome,) = send(receiver.url, turn)
    assert outcome.verdict is BatchOutcome.SENT


def test_metrics_go_the_same_way(
    receiver: "GrpcReceiver", turn: list[Span], tmp_path: Path
) -> None:
    target = target_of(TraceSettings(to=receiver.url))
    assert isinstance(target, Target)
    with Exporter(target) as exporter:
        metered = Metered(exporter, MetricStore(tmp_path, target, Temporality.CUMULATIVE))
        list(metered.send(turn))
        metered.meter.export(exporter)
    (request,) = receiver.metrics
    names = {metric.name for metric in request.resource_metrics[0].scope_metrics[0].metrics}
    assert {"turnlog.token.usage", "turnlog.calls"} <= names


def test_the_proxy_of_the_settings_is_used_unless_the_host_is_exempt(
    receiver: "GrpcReceiver", turn: list[Span]
) -> None:
    proxy = "http://127.0.0.1:9"
    (outcome,) = send(receiver.url, turn, timeout=2, proxy=proxy)
    assert outcome.verdict is BatchOutcome.LATER
    (outcome,) = send(receiver.url, turn, proxy=proxy, no_proxy="127.0.0.1,localhost")
    assert outcome.verdict is BatchOutcome.SENT
