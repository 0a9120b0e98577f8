"""Several live targets, a caller's trace, and other data in a hook's note."""

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from cli.conftest import Run
from support.build import SESSION, assistant, session, text, user
from support.hook_projects import Project, make_spool, send_from
from support.hooked_client import Clock, Names
from support.otlp_receiver import Receiver, attributes, receiving
from turnlog.trace.spool import Spool

CALLER = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")
TRACEPARENT = f"00-{CALLER[0]}-{CALLER[1]}-01"


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spool:
    for name in ("TRACEPARENT", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    return make_spool(tmp_path / "turnlog")


@pytest.fixture
def first() -> Generator[Receiver]:
    with receiving() as started:
        yield started


@pytest.fixture
def second() -> Generator[Receiver]:
    with receiving() as started:
        yield started


def project(spool: Spool, tmp_path: Path, receiver: Receiver, **more: str) -> Project:
    folder = tmp_path / "shop"
    folder.mkdir(parents=True)
    no_key = {"TURNLOG_TRACE_HEADERS": "", "TURNLOG_HOME": str(tmp_path / "turnlog")}
    world = (Clock(), Names())
    return Project(folder, tmp_path / "claude", receiver, "full", world, no_key | more)


def test_a_hook_sends_each_turn_to_both_targets_once(
    spool: Spool, tmp_path: Path, first: Receiver, second: Receiver
) -> None:
    both = f"{first.url},{second.url}"
    shop = project(spool, tmp_path, first, TURNLOG_TRACE_TO=both)
    going = shop.session()
    for _ in range(3):
        going.turn()
        going.hook()
        assert send_from(shop.environment).returncode == 0
    assert [len(each.requests) for each in (first, second)] == [3, 3]
    assert first.spans.keys() == second.spans.keys()
    assert len(first.spans) == sum(len(each.spans) for each in second.requests) == 6


def test_a_target_that_is_down_keeps_its_own_notes_only(
    spool: Spool, tmp_path: Path, first: Receiver, turnlog: Run
) -> None:
    both = f"{first.url},http://127.0.0.1:9"
    shop = project(spool, tmp_path, first, TURNLOG_TRACE_TO=both)
    going = shop.session()
    going.turn()
    going.hook()
    send_from(shop.environment)
    assert len(first.spans) == 2
    assert [note.route.settings.to for note in spool.notes()] == ["http://127.0.0.1:9"]
    status = turnlog("hook", "status").out
    assert f"{first.url}/v1/traces" in status
    assert "http://127.0.0.1:9" in status
    spool.drop(spool.notes())  # else the sender stays for minutes to try again


def test_each_of_several_targets_gets_its_own_key(
    spool: Spool, tmp_path: Path, first: Receiver, second: Receiver, turnlog: Run
) -> None:
    shop = project(
        spool,
        tmp_path,
        first,
        TURNLOG_TRACE_TO="phoenix,logfire",
        PHOENIX_COLLECTOR_ENDPOINT=first.url,
        PHOENIX_API_KEY="key-of-phoenix",
        LOGFIRE_BASE_URL=second.url,
        LOGFIRE_TOKEN="key-of-logfire",
    )
    going = shop.session()
    going.turn()
    going.hook()
    assert send_from(shop.environment).returncode == 0
    assert first.requests[0].headers["authorization"] == "Bearer key-of-phoenix"
    assert second.requests[0].headers["authorization"] == "key-of-logfire"
    (trace,) = {span.trace_id.hex() for span in first.spans.values()}
    assert f"         {first.url}/redirects/traces/{trace}\n" in turnlog("hook", "status").out
    assert "logfire" not in str(first.requests)
    assert "phoenix" not in str(second.requests)


def test_a_key_for_no_one_of_several_targets_reaches_none(
    spool: Spool, tmp_path: Path, first: Receiver, second: Receiver, turnlog: Run
) -> None:
    both = f"{first.url},{second.url}"
    key = "authorization=Bearer%20shared"
    shop = project(spool, tmp_path, first, TURNLOG_TRACE_TO=both, TURNLOG_TRACE_HEADERS=key)
    going = shop.session()
    going.turn()
    going.hook()
    send_from(shop.environment)
    assert first.asked == second.asked == 0
    assert "TURNLOG_TRACE_HEADERS" in turnlog("hook", "status").out


def test_the_configuration_names_several_targets_with_a_table_each(
    spool: Spool, tmp_path: Path, first: Receiver, second: Receiver
) -> None:
    shop = project(spool, tmp_path, first, TURNLOG_TRACE_TO="")
    text = f'[trace]\nto = ["{first.url}", "{second.url}"]\ntags = ["a", "b, c"]\n'
    text += f'[trace."{second.url}"]\nheaders = {{ x-key = "second" }}\n'
    text += '[trace.resource_attributes]\nteam = "core"\n'
    (tmp_path / "turnlog" / "config.toml").write_text(text, "utf-8")
    going = shop.session()
    going.turn()
    going.hook()
    assert send_from(shop.environment).returncode == 0
    assert second.requests[0].headers["x-key"] == "second"
    assert "x-key" not in first.requests[0].headers
    for receiver in (first, second):
        assert receiver.requests[0].resource["team"] == "core"
        for span in receiver.spans.values():
            assert attributes(span)["langfuse.trace.tags"] == ["a", "b, c"]


def test_turns_hang_below_the_span_of_whoever_called_the_client(
    spool: Spool, tmp_path: Path, first: Receiver
) -> None:
    shop = project(spool, tmp_path, first, TRACEPARENT=TRACEPARENT)
    going = shop.session()
    going.turn()
    going.hook()
    # The sender has the environment of another client: the note's own trace counts.
    assert send_from(shop.environment | {"TRACEPARENT": ""}).returncode == 0
    spans = list(first.spans.values())
    assert {span.trace_id.hex() for span in spans} == {CALLER[0]}
    (turn,) = [span for span in spans if span.parent_span_id.hex() == CALLER[1]]
    assert {span.parent_span_id for span in spans if span is not turn} == {turn.span_id}
    assert "langfuse.trace.name" not in attributes(turn)
    assert "langfuse.trace.input" not in attributes(turn)


def test_several_turns_below_one_caller_s_span_keep_ids_of_their_own(
    spool: Spool, project: Path, first: Receiver, turnlog: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (user("q1"), assistant(text("a1"), message_id="m1"))
    more = (user("q2"), assistant(text("a2"), message_id="m2"))
    (project / f"{SESSION}.jsonl").write_bytes(session(*lines, *more))
    plain = json.loads(turnlog("trace", "last", "--dry-run", "--json").out)
    monkeypatch.setenv("TRACEPARENT", TRACEPARENT)
    turnlog("trace", "last", "--to", first.url)
    assert first.spans.keys() == {each["id"] for each in plain}
    assert {span.trace_id.hex() for span in first.spans.values()} == {CALLER[0]}


@pytest.mark.parametrize(
    "text", ["", "nonsense", f"00-{'0' * 32}-{CALLER[1]}-01", "ff" + TRACEPARENT[2:]]
)
def test_a_caller_s_span_that_is_not_valid_is_ignored(
    spool: Spool, tmp_path: Path, first: Receiver, text: str
) -> None:
    shop = project(spool, tmp_path, first, TRACEPARENT=text)
    going = shop.session()
    going.turn()
    going.hook()
    assert send_from(shop.environment).returncode == 0
    assert CALLER[0] not in {span.trace_id.hex() for span in first.spans.values()}
    assert len([span for span in first.spans.values() if not span.parent_span_id]) == 1


def test_the_resource_is_the_one_that_opentelemetry_s_variables_name(
    spool: Spool, tmp_path: Path, first: Receiver
) -> None:
    shop = project(
        spool,
        tmp_path,
        first,
        OTEL_SERVICE_NAME="assistant",
        OTEL_RESOURCE_ATTRIBUTES="team=core%2Cweb,service.name=lost",
        TURNLOG_TRACE_ENVIRONMENT="ci",
    )
    going = shop.session()
    going.turn()
    going.hook()
    others = {"OTEL_RESOURCE_ATTRIBUTES": "team=other", "OTEL_SERVICE_NAME": "other"}
    assert send_from(shop.environment | others).returncode == 0
    resource = first.requests[0].resource
    assert resource["service.name"] == "assistant"
    assert resource["team"] == "core,web"
    assert resource["deployment.environment.name"] == "ci"


def test_install_takes_several_targets_and_tags(
    spool: Spool, tmp_path: Path, first: Receiver, second: Receiver, turnlog: Run
) -> None:
    words = ["--to", first.url, "--to", second.url, "--tag", "a", "--tag", "b"]
    done = turnlog("hook", "install", *words)
    assert done.out.endswith(f"traces go to {first.url}/v1/traces and {second.url}/v1/traces\n")
    hooks = json.loads((tmp_path / "settings.json").read_bytes())["hooks"]
    assert hooks["Stop"][0]["hooks"][0]["command"].count(" ".join(words)) == 1
    doctor = turnlog("hook", "doctor").out
    assert f"{first.url}/v1/traces: 200" in doctor
    assert f"{second.url}/v1/traces: 200" in doctor


def test_trace_sends_to_several_targets_and_prints_a_link_to_each_trace(
    spool: Spool,
    project: Path,
    first: Receiver,
    second: Receiver,
    turnlog: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = session(user("q1"), assistant(text("a1"), message_id="m1"))
    (project / f"{SESSION}.jsonl").write_bytes(whole)
    monkeypatch.setenv("PHOENIX_COLLECTOR_ENDPOINT", first.url)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", second.url)
    done = turnlog("trace", "last", "--to", "phoenix", "--to", "mlflow")
    (trace,) = {span.trace_id.hex() for span in first.spans.values()}
    assert done.out == (
        f"{SESSION}  1 turn, 2 spans sent to {first.url}/v1/traces\n"
        f"  {first.url}/redirects/traces/{trace}\n"
        f"{SESSION}  1 turn, 2 spans sent to {second.url}/v1/traces\n"
        f"  {second.url}/#/experiments/0/traces"
        f"?startTimeLabel=ALL&selectedEvaluationId=tr-{trace}\n"
    )


def test_a_link_of_one_s_own_is_printed_for_any_backend(
    spool: Spool, project: Path, first: Receiver, turnlog: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = session(user("q1"), assistant(text("a1"), message_id="m1"))
    (project / f"{SESSION}.jsonl").write_bytes(whole)
    monkeypatch.setenv("TURNLOG_TRACE_LINK", "https://tempo.example/trace/{trace_id}")
    done = turnlog("trace", "last", "--to", first.url)
    (trace,) = {span.trace_id.hex() for span in first.spans.values()}
    assert f"  https://tempo.example/trace/{trace}\n" in done.out


def test_metrics_count_each_message_once_across_hooks(
    spool: Spool, tmp_path: Path, first: Receiver
) -> None:
    shop = project(spool, tmp_path, first, TURNLOG_TRACE_METRICS="delta")
    going = shop.session()
    for _ in range(3):
        going.turn()
        for event in ("SubagentStop", "Stop", "Stop"):
            going.hook(event)
            assert send_from(shop.environment).returncode == 0
    counts = [
        point.as_int
        for request in first.metrics
        for metric in request.resource_metrics[0].scope_metrics[0].metrics
        if metric.name == "turnlog.calls"
        for point in metric.sum.data_points
    ]
    assert sum(counts) == 3
    assert len(first.spans) == 6
