"""The status line and the current activity, as text."""

from msgspec.structs import replace

from turnlog.agent.loop.events import CallStarted, Inside, Printed, Recorded, Streamed, TurnEnded
from turnlog.agent.permissions import ApprovalMode
from turnlog.agent.terminal.live_region import SLOW, Live
from turnlog.agent.terminal.status_line import (
    GAP,
    StatusFacts,
    UsageMeter,
    fit_line,
    spinner,
    status_parts,
    status_row,
)
from turnlog.agent.terminal.styled_text import make_style

PLAIN = make_style(is_coloured=False)


def row(columns: int, mode: ApprovalMode = ApprovalMode.DEFAULT) -> str:
    facts = StatusFacts("claude-opus-5-5", mode, 24_000, 200_000, 0.1234)
    return status_row(facts, PLAIN, columns).replace("\x1b[2m", "").replace("\x1b[0m", "")


def start(tokens: int) -> Streamed:
    usage = {"input_tokens": tokens, "output_tokens": 1}
    message = {"id": "m1", "model": "claude-opus-5-5", "usage": usage}
    return Streamed({"type": "message_start", "message": message})


def test_the_status_line_tells_mode_context_cost_and_model() -> None:
    assert row(80) == "  asks before changes · 12% of 200k · $0.12 · claude-opus-5-5"
    assert row(80, ApprovalMode.PLAN).startswith("  plans only · ")


def test_the_status_line_tells_what_runs_in_the_background_and_the_mode_of_vi() -> None:
    mode = ApprovalMode.DEFAULT
    facts = StatusFacts("opus", mode, 0, 200_000, 0.0, running=2, keys="NORMAL", hint="? for keys")
    whole = "asks before changes · NORMAL · 2 in the background · 0% of 200k · $0.00 · opus"
    assert GAP.join(status_parts(facts)) == f"{whole} · ? for keys"
    own = replace(facts, line="mine")
    assert status_parts(own) == ["asks before changes", "NORMAL", "2 in the background", "mine"]


def test_a_narrow_status_line_tells_what_matters_most() -> None:
    assert row(40) == "  asks before changes · 12% of 200k"
    assert row(24) == "  asks before changes"
    assert row(14) == "  asks befor…"


def test_the_first_part_is_always_told() -> None:
    assert fit_line(["abcdef", "x"], 4) == "abc…"


def test_the_meter_counts_tokens_and_money_while_they_are_spent() -> None:
    meter = UsageMeter()
    meter.take(start(1_000))
    meter.take(Streamed({"type": "content_block_delta", "delta": {"text": "x" * 400}}))
    assert (meter.sent, meter.written, meter.cost) == (1_000, 100, 0.0)
    meter.take(Streamed({"type": "message_delta", "usage": {"output_tokens": 90}}))
    assert (meter.sent, meter.written) == (1_000, 90)
    spent = meter.cost
    assert spent > 0
    meter.take(TurnEnded("done", "", 1.0, 1, {}, 2.0))
    meter.settle()
    assert meter.cost == 2.0


def test_what_a_stopped_turn_took_is_counted() -> None:
    meter = UsageMeter()
    meter.take(start(1_000))
    meter.take(Streamed({"type": "message_delta", "usage": {"output_tokens": 90}}))
    spent = meter.cost
    meter.settle()
    assert meter.cost == spent > 0


def test_what_a_sub_agent_takes_is_counted_once() -> None:
    meter = UsageMeter()
    meter.take(Inside("a1", "t1", start(50)))
    assert meter.sent == 50
    meter.take(Inside("a1", "t1", TurnEnded("done", "", 1.0, 1, {}, 1.0)))
    assert meter.cost == 0.0


def test_the_spinner_tells_what_it_has_room_for() -> None:
    meter = UsageMeter()
    hints = ["esc to interrupt", "ctrl-b to background"]
    whole = "Working · 0s · esc to interrupt · ctrl-b to background"
    assert spinner("Working", meter, hints, 80)[2:] == whole
    assert spinner("Working", meter, hints, 40)[2:] == "Working · 0s · esc to interrupt"
    assert spinner("Working", meter, hints, 12)[2:] == "Working"


def test_a_command_that_lasts_can_go_on_in_the_background() -> None:
    live = Live("/work")
    live.take(CallStarted("t1", "Bash", {"command": "make"}))
    live.take(CallStarted("t2", "Read", {"file_path": "a"}))
    assert not live.is_lasting
    live.jobs["t2"].started -= SLOW
    assert not live.is_lasting
    live.jobs["t1"].started -= SLOW
    assert live.is_lasting


def test_running_calls_show_the_end_of_what_they_print() -> None:
    live = Live("/work")
    live.take(CallStarted("t1", "Bash", {"command": "make"}))
    live.take(Printed("t1", "one\ntwo\nthree\nfo"))
    live.take(Printed("t1", "ur\x1b[2J"))
    rows = [
        each.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "")
        for each in live.rows(PLAIN, 40)
    ]
    assert rows == ["○ Bash make", "    two", "    three", "    four"]
    assert live.ended("t1") is None
    assert live.rows(PLAIN, 40) == []


def test_a_sub_agent_is_followed_by_its_calls() -> None:
    live = Live("/work")
    live.take(CallStarted("t1", "Task", {"description": "look", "subagent_type": "Explore"}))
    for name in ("a", "b"):
        use = {"type": "tool_use", "name": "Read", "input": {"file_path": f"/work/{name}.py"}}
        entry = {"type": "assistant", "message": {"content": [use]}}
        live.take(Inside("a1", "t1", Recorded(entry)))
    head, *rest = [
        each.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "")
        for each in live.rows(PLAIN, 60)
    ]
    assert head == "○ Task look (Explore)  2 calls"
    assert rest == ["    Read a.py", "    Read b.py"]
