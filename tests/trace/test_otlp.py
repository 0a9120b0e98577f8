"""Sending spans over real HTTP, to backends willing and unwilling."""

import json
from pathlib import Path

import pytest

from conversation.conftest import Opened
from support.build import assistant, call, nth, result, text, user
from support.otlp_receiver import Receiver, attributes
from support.traces import spans
from turnlog.trace import otlp
from turnlog.trace.content import ContentPolicy
from turnlog.trace.otlp import Exporter, ExportOutcome
from turnlog.trace.request_outcome import BatchOutcome
from turnlog.trace.send import SendReport, send_session
from turnlog.trace.sent_state import open_state
from turnlog.trace.span import Span
from turnlog.trace.spans import SpanOptions
from turnlog.trace.targets import Target

CONVERSATION = (
    user("q1"),
    assistant(call("Bash"), message_id="m1"),
    result("toolu_1", "no", is_error=True),
    assistant(text("a1"), message_id="m2"),
)
STATUS_UNSET, STATUS_OK, STATUS_ERROR = 0, 1, 2


def send(receiver: Receiver, found: list[Span], timeout: float = 5) -> list[ExportOutcome]:
    with Exporter(Target(f"{receiver.url}/v1/traces"), timeout) as exporter:
        return list(exporter.send(found))


def verdicts(outcomes: list[ExportOutcome]) -> list[BatchOutcome]:
    return [outcome.verdict for outcome in outcomes]


def test_spans_arrive_as_they_are(opened: Opened, receiver: Receiver) -> None:
    found = spans(opened(*CONVERSATION))
    (outcome,) = send(receiver, found)
    assert outcome.accepted == [span.id for span in found]
    for span in found:
        got = receiver.spans[span.id]
        assert got.trace_id.hex() == span.trace.id
        assert got.parent_span_id.hex() == (span.parent_id or "")
        assert (got.name, got.start_time_unix_nano) == (span.name, span.start)
        assert got.end_time_unix_nano == span.end


def test_what_failed_has_an_error_status(opened: Opened, receiver: Receiver) -> None:
    found = spans(opened(*CONVERSATION))
    send(receiver, found)
    statuses = [receiver.spans[span.id].status for span in found]
    assert [status.code for status in statuses] == [STATUS_OK, STATUS_OK, STATUS_ERROR, STATUS_OK]
    assert statuses[2].message == "no"


def test_langfuse_finds_its_attributes_in_the_bytes(opened: Opened, receiver: Receiver) -> None:
    found = spans(opened(*CONVERSATION), user="ada")
    send(receiver, found)
    turn, generation, tool, _ = (attributes(receiver.spans[span.id]) for span in found)
    assert turn["langfuse.observation.type"] == "agent"
    assert json.loads(turn["langfuse.trace.output"]) == {"role": "assistant", "content": "a1"}
    assert generation["langfuse.observation.type"] == "generation"
    assert json.loads(generation["langfuse.observation.usage_details"]) == {
        "input": 10,
        "output": 20,
        "total": 30,
    }
    assert tool["langfuse.observation.type"] == "tool"
    assert tool["langfuse.observation.metadata.tool_name"] == "Bash"
    for each in (turn, generation, tool):
        assert each["user.id"] == "ada"
        assert each["langfuse.trace.metadata.turn_number"] == 1


def test_events_arrive_with_their_times(opened: Opened, receiver: Receiver) -> None:
    stop = user([text("[Request interrupted by user]")])
    turn, *_ = found = spans(opened(user("q"), assistant(text("a")), stop))
    send(receiver, found)
    assert receiver.spans[turn.id].status.code == STATUS_UNSET
    (event,) = receiver.spans[turn.id].events
    assert (event.name, event.time_unix_nano) == ("interrupted", turn.events[0].time)


def test_a_request_has_the_headers_and_the_resource_of_its_target_alone(
    opened: Opened, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login other password other\n", "utf-8")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-other-key=other")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "other=other")
    headers = {"authorization": "Basic mine"}
    target = Target(f"{receiver.url}/v1/traces", headers=headers, resource={"mine": "yes"})
    with Exporter(target) as exporter:
        list(exporter.send(spans(opened(*CONVERSATION))))
    (got,) = receiver.requests
    assert got.headers["authorization"] == "Basic mine"
    assert got.headers["content-type"] == "application/x-protobuf"
    assert got.headers["user-agent"].startswith("turnlog/")
    assert "other" not in repr((got.headers, got.resource))
    assert got.resource == {"service.name": "claude-code", "mine": "yes"}


def test_batches_are_bounded_in_number_and_in_size(
    opened: Opened, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = spans(opened(*CONVERSATION))
    monkeypatch.setattr(otlp, "MAX_SPANS", 3)
    send(receiver, found)
    assert [len(each.spans) for each in receiver.requests] == [3, 1]
    monkeypatch.setattr(otlp, "MAX_BYTES", 10)
    send(receiver, found)
    assert [len(each.spans) for each in receiver.requests] == [3, 1, 1, 1, 1, 1]


def test_what_is_too_large_goes_in_halves(opened: Opened, receiver: Receiver) -> None:
    receiver.limit = 1
    found = spans(opened(*CONVERSATION))
    assert verdicts(send(receiver, found)) == [BatchOutcome.SENT]
    assert set(receiver.spans) == {span.id for span in found}


def test_a_span_that_is_too_large_by_itself_is_refused_and_the_others_are_sent(
    opened: Opened, receiver: Receiver
) -> None:
    found = spans(opened(*CONVERSATION))
    receiver.statuses.extend([413, 413, 413])
    (outcome,) = send(receiver, found)
    assert (outcome.verdict, outcome.failed) == (BatchOutcome.REFUSED, 1)
    assert outcome.accepted == [span.id for span in found[1:]]


def test_a_span_that_is_too_large_does_not_hold_up_later_batches(
    opened: Opened, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp, "MAX_SPANS", 2)
    receiver.statuses.extend([413, 413, 200])
    outcomes = send(receiver, spans(opened(*CONVERSATION)))
    assert verdicts(outcomes) == [BatchOutcome.REFUSED, BatchOutcome.SENT]
    assert [len(outcome.accepted) for outcome in outcomes] == [1, 2]


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_refusal_is_for_good(opened: Opened, receiver: Receiver, status: int) -> None:
    receiver.always = status
    (outcome,) = send(receiver, spans(opened(*CONVERSATION)))
    assert (outcome.verdict, outcome.accepted, outcome.failed) == (BatchOutcome.REFUSED, [], 4)
    assert outcome.reason
    assert receiver.url in outcome.reason
    assert str(status) in outcome.reason


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_backend_in_trouble_is_to_be_asked_later(
    opened: Opened, receiver: Receiver, status: int
) -> None:
    receiver.always = status
    assert verdicts(send(receiver, spans(opened(*CONVERSATION)), 0.2)) == [BatchOutcome.LATER]


def test_a_backend_that_is_busy_for_a_moment_is_asked_again(
    opened: Opened, receiver: Receiver
) -> None:
    receiver.statuses.append(429)
    receiver.headers["retry-after"] = "0"
    assert verdicts(send(receiver, spans(opened(*CONVERSATION)))) == [BatchOutcome.SENT]


def test_a_redirection_is_a_refusal(opened: Opened, receiver: Receiver) -> None:
    receiver.always = 301
    receiver.headers["location"] = f"{receiver.url}/elsewhere"
    assert verdicts(send(receiver, spans(opened(*CONVERSATION)))) == [BatchOutcome.REFUSED]


def test_spans_that_the_backend_rejects_are_not_sent(opened: Opened, receiver: Receiver) -> None:
    receiver.rejected = 2
    (outcome,) = send(receiver, spans(opened(*CONVERSATION)))
    assert (outcome.verdict, outcome.accepted) == (BatchOutcome.REFUSED, [])
    assert outcome.reason
    assert "too old" in outcome.reason


def test_a_backend_that_hangs_is_given_up(opened: Opened, receiver: Receiver) -> None:
    receiver.hangs = True
    assert verdicts(send(receiver, spans(opened(*CONVERSATION)), 0.2)) == [BatchOutcome.LATER]


def test_where_nothing_listens_spans_are_to_be_sent_later(opened: Opened) -> None:
    with Exporter(Target("http://127.0.0.1:1/v1/traces")) as exporter:
        (outcome,) = exporter.send(spans(opened(*CONVERSATION)))
    assert outcome.verdict is BatchOutcome.LATER
    assert outcome.reason == "http://127.0.0.1:1/v1/traces: Connection refused"


def sent_of(receiver: Receiver, folder: Path, opened: Opened, *lines: bytes) -> SendReport:
    """Send what is new in a session that continues."""
    target = Target(f"{receiver.url}/v1/traces")
    with Exporter(target, 0.2) as exporter, open_state(folder, target.name, "s") as state:
        return send_session(
            opened(*lines), exporter, state, SpanOptions(), ContentPolicy(), state.sent
        )


MORE = (user("q2"), assistant(text("a2"), message_id="m3"))


def test_what_was_sent_is_not_sent_again_and_what_goes_on_not_yet(
    opened: Opened, receiver: Receiver, tmp_path: Path
) -> None:
    first = sent_of(receiver, tmp_path, opened, *CONVERSATION)
    assert (first.turns, first.sent, first.open) == (1, 2, 2)
    second = sent_of(receiver, tmp_path, opened, *CONVERSATION, *MORE)
    assert (second.turns, second.sent, second.skipped, second.open) == (1, 2, 2, 2)
    third = sent_of(receiver, tmp_path, opened, *CONVERSATION, *MORE)
    assert (third.turns, third.sent, third.skipped, third.open) == (0, 0, 4, 2)
    assert len(receiver.requests) == 2
    assert len(receiver.spans) == 4


def test_what_a_backend_did_not_take_is_sent_the_next_time(
    opened: Opened, receiver: Receiver, tmp_path: Path
) -> None:
    receiver.always = 500
    failed = sent_of(receiver, tmp_path, opened, *CONVERSATION, *MORE)
    assert (failed.sent, failed.failed, failed.is_later) == (0, 4, True)
    receiver.always = 200
    assert sent_of(receiver, tmp_path, opened, *CONVERSATION, *MORE).sent == 4


def test_of_batches_those_before_a_failure_are_remembered(
    opened: Opened, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp, "MAX_SPANS", 1)
    receiver.statuses.extend([200, 400])
    failed = sent_of(receiver, tmp_path, opened, *CONVERSATION, *MORE)
    assert (failed.sent, failed.failed, failed.is_later) == (1, 3, False)
    again = sent_of(receiver, tmp_path, opened, *CONVERSATION, *MORE)
    assert (again.sent, again.skipped) == (3, 1)


def test_times_once_sent_never_change(opened: Opened, receiver: Receiver, tmp_path: Path) -> None:
    early = sent_of(receiver, tmp_path, opened, *CONVERSATION)
    before = {name: span.start_time_unix_nano for name, span in receiver.spans.items()}
    sent_of(receiver, tmp_path / "lost", opened, *CONVERSATION, *MORE, user("q3", parent=nth(4)))
    after = {name: span.start_time_unix_nano for name, span in receiver.spans.items()}
    assert early.sent
    assert before.items() <= after.items()
