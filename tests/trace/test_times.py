"""When spans begin and end: by the lines, and nothing made up."""

from pathlib import Path

from conversation.conftest import Opened
from support.build import assistant, call, moment, nth, result, system, text, user
from support.traces import SECOND, ZERO, flat, of_kind, spans, times_of
from turnlog.trace.attributes import attributes_of
from turnlog.trace.span import WorkKind

MODEL = "claude-opus-5-5"


def test_a_generation_runs_from_the_event_before_it_to_its_own_last_line(opened: Opened) -> None:
    whole = opened(
        user("q"),
        assistant(text("let me see"), message_id="m1"),
        assistant(call("Bash"), message_id="m1"),
        result("toolu_1", timestamp=moment(9)),
        assistant(text("a"), message_id="m2", timestamp=moment(12)),
        assistant(text("b"), message_id="m3", timestamp=moment(14)),
    )
    assert times_of(spans(whole)) == [
        ("Turn 1", 1, 14),
        (MODEL, 1, 3),
        ("Bash", 3, 9),
        (MODEL, 9, 12),
        (MODEL, 12, 14),
    ]


def test_parallel_tools_overlap_as_they_did(opened: Opened) -> None:
    whole = opened(
        user("q"),
        assistant(call("Bash", {}, "A"), message_id="m"),
        assistant(call("Bash", {}, "B"), message_id="m"),
        result("B", parent=nth(3), timestamp=moment(5)),
        result("A", parent=nth(2), timestamp=moment(8)),
        assistant(text("a"), parent=nth(5), timestamp=moment(9)),
    )
    tools = of_kind(spans(whole), WorkKind.TOOL)
    assert times_of(tools) == [("Bash", 2, 8), ("Bash", 3, 5)]
    assert times_of(spans(whole))[-1] == (MODEL, 8, 9)


def test_a_message_whose_first_call_ran_while_it_was_written_begins_once(opened: Opened) -> None:
    whole = opened(
        user("q"),
        assistant(call("Bash", {}, "A"), message_id="m"),
        result("A"),
        assistant(call("Bash", {}, "B"), message_id="m"),
        result("B"),
    )
    assert times_of(of_kind(spans(whole), WorkKind.GENERATION)) == [(MODEL, 1, 4)]


def test_a_turn_lasts_as_long_as_the_client_measured(opened: Opened) -> None:
    measured = system("turn_duration", duration_ms=7500)
    whole = opened(user("q"), assistant(text("a")), measured)
    assert times_of(spans(whole))[0] == ("Turn 1", 1, 8.5)


def test_a_turn_whose_measure_leaves_out_waiting_ends_with_its_last_child(opened: Opened) -> None:
    whole = opened(
        user("q"),
        assistant(call("Bash")),
        result("toolu_1", timestamp=moment(90)),
        assistant(text("a"), timestamp=moment(93)),
        system("turn_duration", duration_ms=5000, timestamp=moment(93)),
    )
    assert times_of(spans(whole))[0] == ("Turn 1", 1, 93)


def test_a_turn_that_went_on_after_it_was_measured_lasts_longer(opened: Opened) -> None:
    measured = system("turn_duration", duration_ms=1500)
    whole = opened(user("q"), assistant(text("a")), measured, assistant(text("b")))
    assert times_of(spans(whole))[0] == ("Turn 1", 1, 4)


def test_notes_after_the_last_answer_do_not_make_a_turn_longer(opened: Opened) -> None:
    late = system("informational", timestamp=moment(500))
    assert times_of(spans(opened(user("q"), assistant(text("a")), late)))[0] == ("Turn 1", 1, 2)


def test_times_that_run_backwards_make_no_span_end_before_it_begins(opened: Opened) -> None:
    early = assistant(call("Bash"), timestamp=moment(0))
    whole = opened(user("q"), early, result("toolu_1", timestamp=moment(-2)))
    for span in spans(whole):
        assert span.begins <= span.ends


def test_without_timestamps_no_time_is_made_up(tmp_path: Path) -> None:
    answer = {"message": {"id": "m", "role": "assistant", "content": "hi"}}
    found = spans(flat(tmp_path, {"type": "user", "content": "q"}, answer))
    assert [(span.start, span.end, span.begins, span.ends) for span in found] == [
        (None, None, 0, 0),
        (None, None, 0, 0),
    ]
    told = [attributes_of(span)["langfuse.observation.metadata.missing_times"] for span in found]
    assert told == ["start+end", "start+end"]


def test_a_span_without_a_time_lies_at_the_nearest_time_known(opened: Opened) -> None:
    whole = opened(
        user("q1", timestamp="soon"),
        assistant(call("Bash"), timestamp=moment(4)),
        result("toolu_1", timestamp=None),
        user("q2", timestamp=None),
        assistant(text("a"), timestamp=None),
    )
    turn, generation, tool, later, last = spans(whole)
    assert (turn.start, turn.begins) == (None, ZERO + 4 * SECOND)
    assert (generation.start, generation.end) == (ZERO + 4 * SECOND, ZERO + 4 * SECOND)
    assert (tool.start, tool.end, tool.ends) == (ZERO + 4 * SECOND, None, ZERO + 4 * SECOND)
    assert (later.start, later.begins, last.begins) == (None, turn.begins, turn.begins)


def test_a_time_that_no_backend_could_hold_is_none(opened: Opened) -> None:
    whole = opened(user("q", timestamp="9999-01-01T00:00:00Z"), assistant(text("a")))
    assert spans(whole)[0].start is None


def test_the_time_in_a_message_counts_where_the_line_has_none(tmp_path: Path) -> None:
    inner = {"id": "m", "role": "assistant", "content": "hi", "timestamp": moment(3)}
    prompt = {"type": "user", "content": "q", "timestamp": moment(1)}
    assert times_of(spans(flat(tmp_path, prompt, {"message": inner})))[1][1:] == (1, 3)
