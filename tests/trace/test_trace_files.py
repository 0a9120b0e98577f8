"""Traces in files: OTLP's JSON, and the events that Perfetto draws."""

import json
import os
import tracemalloc
from base64 import b64decode
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, Parse
from msgspec.structs import replace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from conversation.conftest import Opened
from support.build import assistant, call, moment, nth, result, session, system, text, user
from support.traces import spans
from turnlog.conversation.session import open_session
from turnlog.format.regular_files import collect_skipped
from turnlog.trace.content import ContentPolicy
from turnlog.trace.otlp import resource_of, sdk_span
from turnlog.trace.session_files import LARGE, PART, WORTH_SHARING, write_sessions
from turnlog.trace.span import Span
from turnlog.trace.span_files import write_otlp, write_perfetto

PARALLEL = (
    user("q"),
    assistant(call("Bash", {}, "A"), message_id="m"),
    assistant(call("Read", {}, "B"), message_id="m"),
    result("B", parent=nth(3), timestamp=moment(6)),
    result("A", parent=nth(2), timestamp=moment(5)),
    assistant(text("日本"), parent=nth(5), timestamp=moment(9)),
)


def test_direct_json_equals_protobuf_s_json(session_file: Path, tmp_path: Path) -> None:
    found = [ContentPolicy().of(span) for span in spans(open_session(session_file))]
    write_otlp(tmp_path / "t.json", found)
    (held,) = json.loads((tmp_path / "t.json").read_bytes())["resourceSpans"]
    resource = resource_of()
    request = encode_spans([sdk_span(span, resource) for span in found])
    wanted = MessageToDict(request, use_integers_for_enums=True).get("resourceSpans", [{}])[0]
    assert not found or held["resource"] == wanted["resource"]
    for span, own in zip(
        wanted.get("scopeSpans", [{"spans": []}])[0]["spans"],
        held["scopeSpans"][0]["spans"],
        strict=True,
    ):
        for name in ("traceId", "spanId", "parentSpanId"):
            if name in span:
                span[name] = b64decode(span[name]).hex()
        assert own == span


def test_otlp_json_has_ids_in_hex_and_numbers_for_kinds(opened: Opened, tmp_path: Path) -> None:
    found = spans(opened(*PARALLEL))
    write_otlp(tmp_path / "t.json", found)
    written = json.loads((tmp_path / "t.json").read_text("utf-8"))
    (scope,) = written["resourceSpans"][0]["scopeSpans"]
    assert scope["scope"]["name"] == "turnlog"
    assert [each["spanId"] for each in scope["spans"]] == [span.id for span in found]
    assert {each["traceId"] for each in scope["spans"]} == {found[0].trace.id}
    assert scope["spans"][1]["parentSpanId"] == found[0].id
    assert scope["spans"][0]["startTimeUnixNano"] == str(found[0].start)
    assert {each["kind"] for each in scope["spans"]} == {1, 3}


def test_otlp_json_is_what_the_protocol_says(opened: Opened, tmp_path: Path) -> None:
    write_otlp(tmp_path / "t.json", spans(opened(*PARALLEL)))
    request = Parse((tmp_path / "t.json").read_text("utf-8"), ExportTraceServiceRequest())
    assert len(request.resource_spans[0].scope_spans[0].spans) == 5


def perfetto(opened: Opened, tmp_path: Path) -> list[dict[str, Any]]:
    write_perfetto(tmp_path / "p.json", spans(opened(*PARALLEL)))
    return json.loads((tmp_path / "p.json").read_text("utf-8"))["traceEvents"]


def test_perfetto_s_events_are_in_microseconds(opened: Opened, tmp_path: Path) -> None:
    about, turn, *_ = perfetto(opened, tmp_path)
    assert (about["ph"], about["name"]) == ("M", "process_name")
    assert (turn["ph"], turn["name"], turn["cat"], turn["dur"]) == ("X", "Turn 1", "agent", 8e6)


def test_on_a_lane_of_perfetto_events_nest(opened: Opened, tmp_path: Path) -> None:
    events = [each for each in perfetto(opened, tmp_path) if each["ph"] == "X"]
    lanes = {each["tid"] for each in events}
    assert len(lanes) > 1
    for lane in lanes:
        held = [(each["ts"], each["ts"] + each["dur"]) for each in events if each["tid"] == lane]
        for start, end in held:
            for other_start, other_end in held:
                crosses = start < other_start < end < other_end
                assert not crosses


def test_events_that_do_not_overlap_share_a_lane_of_perfetto(
    opened: Opened, tmp_path: Path
) -> None:
    turns = [each for n in (1, 2) for each in (user(f"q{n}"), assistant(text("a")))]
    write_perfetto(tmp_path / "t.json", spans(opened(*turns)))
    events = json.loads((tmp_path / "t.json").read_bytes())["traceEvents"]
    assert len({each["tid"] for each in events if each["ph"] == "X"}) == 1


def test_an_event_without_a_time_has_none_in_a_file(opened: Opened, tmp_path: Path) -> None:
    lines = (user("q"), system("api_error", error={"status": 529}), assistant(text("a")))
    (turn, *_) = spans(opened(*lines))
    write_otlp(tmp_path / "t.json", [replace(turn, events=(replace(turn.events[0], time=0),))])
    (held,) = json.loads((tmp_path / "t.json").read_bytes())["resourceSpans"]
    (event,) = held["scopeSpans"][0]["spans"][0]["events"]
    assert "timeUnixNano" not in event


def test_spans_are_written_as_they_come(opened: Opened, tmp_path: Path) -> None:
    turn = spans(opened(*PARALLEL))[0]

    def many() -> Iterator[Span]:
        for number in range(500):
            yield replace(turn, output={"role": "assistant", "content": str(number) * 20_000})

    tracemalloc.start()
    write_otlp(tmp_path / "t.json", many())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (tmp_path / "t.json").stat().st_size / 10


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "spans.json"
    with pytest.raises(FileNotFoundError) as error:
        write_otlp(path, [])
    assert error.value.filename == str(path)


def test_processes_write_the_file_that_one_would_write(tmp_path: Path) -> None:
    large = "x" * (1 << 20)
    names = [f"0000000{n}-0000-4000-8000-000000000000" for n in range(6)]
    paths = [tmp_path / "p" / f"{name}.jsonl" for name in names]
    paths[0].parent.mkdir()
    for path in paths:
        prompt = user(large, uuid=path.stem)
        path.write_bytes(session(prompt, assistant(text(path.stem)), session_id=path.stem))
    os.mkfifo(tmp_path / "p" / "agent-1.jsonl")
    assert sum(path.stat().st_size for path in paths) > WORTH_SHARING
    found = [span for path in paths for span in spans_in(path)]
    write_otlp(tmp_path / "one.json", found)
    done: list[int] = []
    with collect_skipped() as skipped:
        tally = write_sessions(tmp_path / "all.json", paths, spans_in, done.append, {})
    assert (tmp_path / "all.json").read_bytes() == (tmp_path / "one.json").read_bytes()
    assert (tally.turns, tally.spans) == ({span.trace.id for span in found}, len(found))
    assert len(done) > 1
    assert list(skipped) == [str(tmp_path / "p" / "agent-1.jsonl")]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.json", "one.json", "p"]


@pytest.mark.parametrize("size", [1, 2 * PART])
def test_spans_that_a_fork_copied_are_written_once(tmp_path: Path, size: int) -> None:
    folder = tmp_path / "p"
    folder.mkdir()
    names = [f"0000000{n}-0000-4000-8000-000000000000" for n in range(3)]
    common = [user("a" * size), assistant(text("x"), message_id="m1")]
    for name in names:
        own = [user(f"then {name}", uuid=name), assistant(text("y"), message_id=name)]
        content = session(*common, *own, session_id=name)
        (folder / f"{name}.jsonl").write_bytes(content)
    paths = sorted(folder.iterdir())
    tally = write_sessions(tmp_path / "all.json", paths, spans_in, lambda _: None, {})
    request = json.loads((tmp_path / "all.json").read_bytes())
    found = request["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert len({(span["traceId"], span["spanId"]) for span in found}) == len(found) == 8
    assert (len(tally.turns), tally.spans) == (4, 8)


def test_a_large_session_is_begun_first_and_written_in_its_place(tmp_path: Path) -> None:
    names = [f"0000000{n}-0000-4000-8000-000000000000" for n in range(5)]
    paths = [tmp_path / "p" / f"{name}.jsonl" for name in names]
    paths[0].parent.mkdir()
    for path in paths:
        prompt = user("a" * (LARGE if path is paths[-1] else PART), uuid=path.stem)
        path.write_bytes(session(prompt, assistant(text(path.stem)), session_id=path.stem))
    write_otlp(tmp_path / "one.json", [span for path in paths for span in spans_in(path)])
    begun, done = tmp_path / "begun", list[int]()
    noted = partial(noted_spans_in, begun)
    write_sessions(tmp_path / "all.json", paths, noted, done.append, {})
    assert names[-1] in begun.read_text().split()[:2]
    assert (tmp_path / "all.json").read_bytes() == (tmp_path / "one.json").read_bytes()
    assert sum(done) == sum(path.stat().st_size for path in paths)


def noted_spans_in(begun: Path, path: Path) -> Iterator[Span]:
    with begun.open("a") as file:
        file.write(f"{path.stem}\n")
    return spans_in(path)


def spans_in(path: Path) -> Iterator[Span]:
    return map(ContentPolicy().of, spans(open_session(path)))
