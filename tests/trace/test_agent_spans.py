"""Sub-agents in traces: below the call that started them, with all that they did."""

from pathlib import Path
from typing import Any

from conversation.conftest import Opened
from support.build import SESSION, assistant, call, line, moment, nth, result, session, text, user
from support.traces import of_kind, spans, times_of, tree_of, write_agent, write_agent_as_is
from turnlog.trace.span import ToolPlacement, WorkKind
from turnlog.trace.spans import SpanOptions, spans_of

MODEL = "claude-opus-5-5"
LAUNCHED = {"agentId": "a1", "status": "async_launched", "isAsync": True}
DONE = "<task-notification><task-id>a1</task-id><status>completed</status></task-notification>"


def task(call_id: str = "T", **fields: Any) -> bytes:
    given = {"description": "Look", "prompt": "look around", "subagent_type": "Explore"}
    return assistant(call("Agent", given, call_id), **fields)


def inner(*names: str) -> tuple[bytes, ...]:
    """Return a sub-agent's lines: it reads, calls tools and answers."""
    calls = [assistant(call("Read", {}, name), message_id=f"inner-{name}") for name in names]
    answer = assistant(text("seen"), message_id=f"answer-{''.join(names)}")
    return (user("look around"), *calls, *(result(name) for name in names), answer)


def test_a_sub_agent_hangs_below_the_call_that_started_it(opened: Opened, tmp_path: Path) -> None:
    folder = tmp_path / SESSION / "subagents"
    write_agent(folder, "a1", *inner("r1"), toolUseId="T", agentType="Explore", description="Look")
    found = spans(opened(user("q"), task(), result("T"), assistant(text("a"))))
    assert tree_of(found) == [
        "Turn 1",
        f"  {MODEL}",
        "  Agent",
        "    Explore",
        f"      {MODEL}",
        "      Read",
        f"      {MODEL}",
        f"  {MODEL}",
    ]
    agent = found[3]
    assert (agent.kind, agent.agent_id, agent.description) == (WorkKind.AGENT, "a1", "Look")
    assert agent.input == {"role": "user", "content": "look around"}
    assert agent.output == {"role": "assistant", "content": "seen"}
    assert {span.trace.id for span in found} == {agent.trace.id}


def test_in_the_nested_layout_too(opened: Opened, tmp_path: Path) -> None:
    write_agent(tmp_path / SESSION / "subagents", "a1", *inner("r1"), toolUseId="T")
    found = spans(opened(user("q"), task(), result("T")), layout=ToolPlacement.NESTED)
    assert tree_of(found)[3:6] == ["      Agent", "        Explore", f"          {MODEL}"]


def test_sub_agents_of_sub_agents_hang_below_theirs(opened: Opened, tmp_path: Path) -> None:
    folder = tmp_path / SESSION / "subagents"
    started = (user("look around"), task("inner", message_id="m-inner"), result("inner"))
    write_agent(folder, "a1", *started, toolUseId="T", agentType="outer")
    write_agent(folder, "a2", *inner("r2"), toolUseId="inner", agentType="inmost")
    found = spans(opened(user("q"), task(), result("T")))
    assert tree_of(of_kind(found, WorkKind.AGENT)[:1]) == ["Turn 1"]
    names = [row.strip() for row in tree_of(found)]
    assert names == ["Turn 1", MODEL, "Agent", "outer", MODEL, "Agent", "inmost", *names[7:]]
    depths = {span.id: span for span in found}
    inmost = next(span for span in found if span.name == "inmost")
    assert depths[inmost.parent_id or ""].call_id == "inner"


def test_a_sub_agent_of_an_old_client_is_linked_by_the_result(
    opened: Opened, tmp_path: Path
) -> None:
    write_agent(tmp_path, "b1", *inner("r1"))
    found = spans(opened(user("q"), task(), result("T", tool_use_result={"agentId": "b1"})))
    assert tree_of(found)[2:4] == ["  Agent", "    Explore"]


def test_a_sub_agent_in_the_session_itself_is_one_as_well(opened: Opened) -> None:
    side: dict[str, Any] = {"is_sidechain": True}
    whole = opened(
        user("q"),
        task(),
        user("look around", parent=None, **side),
        assistant(text("seen"), **side),
        result("T", parent=nth(2)),
    )
    assert tree_of(spans(whole)) == [
        "Turn 1",
        f"  {MODEL}",
        "  Agent",
        "    Explore",
        f"      {MODEL}",
    ]


def test_a_sub_agent_that_no_call_started_hangs_below_the_turn_of_its_time(
    opened: Opened, tmp_path: Path
) -> None:
    warm = (user("Warmup", timestamp="2026-11-15T06:00:03.500Z"), assistant(text("ready")))
    write_agent(tmp_path / SESSION / "subagents", "w", *warm)
    whole = opened(user("q1"), assistant(text("a1")), user("q2"), assistant(text("a2")))
    assert tree_of(spans(whole)) == [
        "Turn 1",
        f"  {MODEL}",
        "Turn 2",
        f"  {MODEL}",
        "  agent",
        f"    {MODEL}",
    ]


def test_a_sub_agent_of_a_turn_that_was_never_answered_hangs_below_the_one_before(
    opened: Opened, tmp_path: Path
) -> None:
    warm = (user("Warmup", timestamp="2026-11-15T06:00:03.500Z"), assistant(text("ready")))
    write_agent(tmp_path / SESSION / "subagents", "w", *warm)
    whole = opened(user("q1"), assistant(text("a1")), user("q2"))
    assert tree_of(spans(whole)) == ["Turn 1", f"  {MODEL}", "  agent", f"    {MODEL}"]
    assert tree_of(list(spans_of(whole))) == ["Turn 1", f"  {MODEL}"]


def test_a_sub_agent_in_the_background_is_final_when_the_client_says_so(
    opened: Opened, tmp_path: Path
) -> None:
    write_agent(tmp_path / SESSION / "subagents", "a1", *inner("r1"), toolUseId="T")
    lines = (user("q"), task(), result("T", tool_use_result=LAUNCHED), assistant(text("a")))

    def is_final(*more: bytes, **options: Any) -> bool:
        found = spans_of(opened(*lines, *more), SpanOptions(**options))
        return next(span for span in found if span.name == "Explore").is_final

    assert not is_final(user("q2"))
    assert is_final(user(DONE))
    assert is_final(line("queue-operation", operation="enqueue", content=DONE))
    assert is_final(ended=True)
    assert not is_final(ended=True, running=frozenset({"a1"}))


def test_a_sub_agent_that_its_own_note_calls_finished_is_final(
    opened: Opened, tmp_path: Path
) -> None:
    folder = tmp_path / SESSION / "subagents"
    write_agent(folder, "a1", *inner("r1"), toolUseId="T", agentType="x", finished=True)
    whole = opened(user("q"), task(), result("T", tool_use_result=LAUNCHED))
    assert [span.is_final for span in spans_of(whole) if span.name == "x"] == [True]


def test_a_sub_agent_that_the_turn_waited_for_is_final_with_its_result(
    opened: Opened, tmp_path: Path
) -> None:
    write_agent(tmp_path / SESSION / "subagents", "a1", *inner("r1"), toolUseId="T")
    waiting = spans_of(opened(user("q"), task()))
    assert [span.is_final for span in waiting if span.name == "Explore"] == [False]
    answered = spans_of(opened(user("q"), task(), result("T")))
    assert [span.is_final for span in answered if span.name == "Explore"] == [True]


def test_what_a_sub_agent_copied_from_its_session_is_told_once(
    opened: Opened, tmp_path: Path
) -> None:
    own = (user("go on", uuid="own-1"), assistant(text("seen"), uuid="own-2", message_id="own"))
    written = session(user("q"), task(), *own, agent_id="f")
    write_agent_as_is(tmp_path / SESSION / "subagents", "f", written, toolUseId="T")
    found = spans(opened(user("q"), task(), result("T")))
    assert tree_of(found) == ["Turn 1", f"  {MODEL}", "  Agent", "    Explore", f"      {MODEL}"]
    assert found[3].input == {"role": "user", "content": "go on"}


def test_a_copy_without_its_sub_agents_has_the_same_ids(opened: Opened, tmp_path: Path) -> None:
    lines = (user("q"), task(), result("T"))
    alone = {span.id for span in spans(opened(*lines))}
    write_agent(tmp_path / SESSION / "subagents", "a1", *inner("r1"), toolUseId="T")
    assert alone < {span.id for span in spans(opened(*lines))}


def late(*lines: bytes) -> tuple[bytes, ...]:
    """Return lines of a sub-agent that is active long after the session's own lines."""
    return (*lines, assistant(text("at last"), message_id="late", timestamp=moment(500)))


def test_a_turn_and_a_call_end_with_the_sub_agent_in_the_background(
    opened: Opened, tmp_path: Path
) -> None:
    folder = tmp_path / SESSION / "subagents"
    write_agent(folder, "a1", *late(*inner("r1")), toolUseId="T", agentType="Explore")
    launched = result("T", "launched", tool_use_result=LAUNCHED)
    found = spans(opened(user("q"), task(), launched, assistant(text("a"))))
    ends = {name: end for name, _, end in times_of(found) if name != MODEL}
    assert ends == {"Turn 1": 500, "Agent": 500, "Explore": 500, "Read": 3}


def test_a_turn_is_final_when_its_sub_agents_are(opened: Opened, tmp_path: Path) -> None:
    folder = tmp_path / SESSION / "subagents"
    write_agent(folder, "a1", *inner("r1"), toolUseId="T", agentType="Explore")
    launched = result("T", "launched", tool_use_result=LAUNCHED)
    lines = (user("q"), task(), launched, assistant(text("a")))

    def open_names(*lines: bytes) -> list[str]:
        found = spans(opened(*lines), ended=False, settled=True)
        return [span.name for span in found if not span.is_final]

    assert open_names(*lines) == ["Turn 1", "Agent", "Explore", MODEL]
    told = user(DONE, origin={"kind": "task-notification"})
    assert open_names(*lines, told, assistant(text("b"))) == []


def test_a_helper_that_outlasts_its_turn_is_a_trace_of_its_own(
    opened: Opened, tmp_path: Path
) -> None:
    folder = tmp_path / SESSION / "subagents"
    write_agent(folder, "helper", *late(user("suggest a prompt")))
    found = spans(opened(user("q"), assistant(text("a"))))
    assert tree_of(found) == ["Turn 1", f"  {MODEL}", "agent", f"  {MODEL}"]
    turn, helper = [span for span in found if span.parent_id is None]
    assert (turn.trace.name, helper.trace.name) == ("Turn 1", "Turn 1 helper")
    assert turn.trace.id != helper.trace.id


def write_other(folder: Path, name: str, *lines: bytes) -> None:
    """The file of a sub-agent that shares no ids with the others of a test."""
    written = session(*lines, agent_id=name).replace(
        b"00000000-", name.ljust(8, "0").encode() + b"-"
    )
    write_agent_as_is(folder, name, written)


def test_a_sub_agent_is_linked_by_its_id_in_the_text_of_the_result(
    opened: Opened, tmp_path: Path
) -> None:
    folder = tmp_path / SESSION / "subagents"
    for name in ("b1", "b2"):
        write_other(folder, name, *inner(f"read-{name}"))
    whole = opened(
        user("q"),
        task("T1"),
        result("T1", "seen\nagentId: b2 (for resuming)"),
        task("T2"),
        result("T2", "<task-id>b1</task-id> was started"),
    )
    found = {span.id: span for span in spans(whole)}
    calls = {a.agent_id: found[a.parent_id or ""].call_id for a in found.values() if a.agent_id}
    assert calls == {"b2": "T1", "b1": "T2"}
    assert {span.name for span in found.values() if span.agent_id} == {"Explore"}


def test_a_sub_agent_is_linked_by_a_notification(opened: Opened, tmp_path: Path) -> None:
    write_agent(tmp_path / SESSION / "subagents", "b1", user("other words"), *inner("r1")[1:])
    told = "<task-notification>\n<task-id>b1</task-id>\n<tool-use-id>T</tool-use-id>"
    told = user(f"{told}\n</task-notification>", origin={"kind": "task-notification"})
    found = spans(opened(user("q"), task(), result("T"), told, assistant(text("a"))))
    assert tree_of(found)[2:4] == ["  Agent", "    Explore"]


def test_sub_agents_without_ids_are_linked_by_equal_prompts(opened: Opened, tmp_path: Path) -> None:
    folder = tmp_path / SESSION / "subagents"
    write_other(folder, "b1", *inner("r1"))
    write_other(folder, "b2", *inner("r2"))
    write_other(folder, "b3", user("something else"), assistant(text("done"), message_id="else"))
    whole = opened(user("q"), task("T1"), result("T1"), task("T2"), result("T2"))
    found = {span.id: span for span in spans(whole)}
    above = {a.agent_id: found[a.parent_id or ""].name for a in found.values() if a.agent_id}
    assert above == {"b1": "Agent", "b2": "Agent", "b3": "Turn 1"}


def test_a_helper_is_named_by_the_type_in_its_id(opened: Opened, tmp_path: Path) -> None:
    folder = tmp_path / SESSION / "subagents"
    write_agent(folder, "aprompt_suggestion-d8e8c8", user("suggest"), assistant(text("this")))
    found = spans(opened(user("q"), assistant(text("a"))))
    assert [span.name for span in found if span.agent_id] == ["prompt_suggestion"]
