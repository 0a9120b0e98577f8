"""The loop against a scripted model over real HTTP: requests, calls, records and events."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from support.chatting import (
    ECHO,
    chat,
    ended,
    make_parts,
    make_tool,
    recorded,
    rules_of,
    sound_session,
)
from support.scripted_api import ScriptedApi, answered, called, refused, said
from turnlog.agent.loop.conversation import Parts
from turnlog.agent.loop.events import CallStarted, Event, Printed, Recorded, Retrying, Streamed
from turnlog.agent.loop.loop import Loop
from turnlog.agent.permissions.policy import PermissionReply, Question, VerdictKind
from turnlog.agent.session.entry_builders import REJECTED_TEXT, STOPPED, STOPPED_AT_CALL
from turnlog.agent.workspace.tool import ToolOutcome
from turnlog.format.json_values import Fields
from turnlog.format.survey import survey_file
from turnlog.store.paths import Store

NO_RESPONSE = ("assistant", "No response requested.")
"""What every client adds when it resumes where nothing was answered."""


def texts(messages: list[Fields]) -> list[tuple[str, str]]:
    """Return roles and texts; a block that is not text is named by its type."""
    return [
        (message["role"], block.get("text") or block["type"])
        for message in messages
        for block in message["content"]
    ]


def test_a_prompt_is_sent_and_its_answer_recorded(parts: Parts, api: ScriptedApi) -> None:
    events = chat(parts, "hello")
    assert (ended(events).reason, ended(events).text) == ("done", "Done.")
    (request,) = api.requests
    assert texts(request.body["messages"]) == [("user", "hello")]
    kinds = [entry["type"] for entry in recorded(events)]
    assert kinds == ["user", "assistant", "assistant", "system"]
    session = sound_session(parts)
    assert texts(session.context()) == [
        ("user", "hello"),
        ("assistant", "thinking"),
        ("assistant", "Done."),
    ]


def test_what_is_recorded_is_known_to_the_format(parts: Parts, api: ScriptedApi) -> None:
    api.replies[:] = [refused(529, "busy"), called(("t1", "Echo", {"text": "hi"})), said("Done.")]
    chat(parts, "hello")
    survey = survey_file(parts.recorder.path)
    assert [name for name, is_known in survey.count_fields() if not is_known] == []


def test_each_line_follows_on_the_one_before_and_is_later(parts: Parts, api: ScriptedApi) -> None:
    api.replies[:] = [
        called(("t1", "Echo", {"text": "a"}), ("t2", "Echo", {"text": "b"})),
        said("Done."),
    ]
    chat(parts, "one", "two")
    session = sound_session(parts)
    chain = session.tree.chain
    assert [node.parent for node in chain] == [None, *(node.uuid for node in chain[:-1])]
    times = [node.time or "" for node in chain]
    assert times == sorted(set(times))


def test_calls_are_run_and_their_results_sent(parts: Parts, api: ScriptedApi) -> None:
    api.replies[:] = [
        called(("t1", "Echo", {"text": "first"}), ("t2", "Fail", {"text": "no"}), text="Two."),
        said("Done."),
    ]
    events = chat(parts, "go")
    results = api.requests[1].body["messages"][-1]["content"]
    assert [(each["tool_use_id"], each["content"], each.get("is_error")) for each in results] == [
        ("t1", "first", None),
        ("t2", "no", True),
    ]
    assert [each.call_id for each in events if isinstance(each, CallStarted)] == ["t1", "t2"]
    assert Printed("t1", "first") in events
    assert ended(events).requests == 2


def test_each_call_has_its_own_result_whatever_its_id(parts: Parts, api: ScriptedApi) -> None:
    calls = [(name, "Echo", {"text": text}) for name, text in (("t", "a"), ("t", "b"), ("", "c"))]
    api.replies[:] = [called(*calls), said("Done.")]
    chat(parts, "go")
    *_, answer, results = api.requests[1].body["messages"]
    asked = [block["id"] for block in answer["content"] if block["type"] == "tool_use"]
    assert len({*asked, ""}) == 4
    told = {block["tool_use_id"]: block["content"] for block in results["content"]}
    assert [told[name] for name in asked] == ["a", "b", "c"]
    sound_session(parts)


def test_a_wrong_call_is_told_to_the_model(parts: Parts, api: ScriptedApi) -> None:
    api.replies[:] = [called(("t1", "Nope", {}), ("t2", "Echo", {"wrong": True})), said("Done.")]
    chat(parts, "go")
    results = api.requests[1].body["messages"][-1]["content"]
    assert [each["content"] for each in results] == [
        "<tool_use_error>Error: No such tool available: Nope</tool_use_error>",
        "<tool_use_error>that is wrong</tool_use_error>",
    ]
    sound_session(parts)


def test_safe_calls_run_side_by_side_and_are_recorded_in_their_order(
    parts: Parts, api: ScriptedApi
) -> None:
    second_is_done = asyncio.Event()

    async def wait(value: Fields, output: Callable[[str], None]) -> ToolOutcome:
        if value["n"] == 1:
            await second_is_done.wait()
        second_is_done.set()
        return ToolOutcome(str(value["n"]))

    parts.tools = {"Wait": make_tool("Wait", wait, is_parallel=True)}
    api.replies[:] = [called(("t1", "Wait", {"n": 1}), ("t2", "Wait", {"n": 2})), said("Done.")]
    events = chat(parts, "go")
    results = [each for each in recorded(events) if "sourceToolAssistantUUID" in each]
    assert [each["message"]["content"][0]["content"] for each in results] == ["1", "2"]


def test_other_calls_run_one_after_the_other(parts: Parts, api: ScriptedApi) -> None:
    running: list[str] = []

    async def step(value: Fields, output: Callable[[str], None]) -> ToolOutcome:
        running.append(f"start {value['n']}")
        await asyncio.sleep(0)
        running.append(f"end {value['n']}")
        return ToolOutcome("ok")

    parts.tools = {"Step": make_tool("Step", step)}
    api.replies[:] = [called(("t1", "Step", {"n": 1}), ("t2", "Step", {"n": 2})), said("Done.")]
    chat(parts, "go")
    assert running == ["start 1", "end 1", "start 2", "end 2"]


def test_the_cache_is_marked_and_thinking_sent_back(parts: Parts, api: ScriptedApi) -> None:
    chat(parts, "one", "two", "three")
    body = api.requests[2].body
    marked = [
        place
        for place, each in enumerate(body["messages"])
        if "cache_control" in each["content"][-1]
    ]
    assert marked == [2, 4]
    assert "cache_control" in body["system"][-1]
    assert "cache_control" in body["tools"][-1]
    assert body["messages"][1]["content"][0] == {
        "type": "thinking",
        "thinking": "hm",
        "signature": "c2ln",
    }


def test_the_last_block_has_the_stop_reason_and_the_final_counts(
    parts: Parts, api: ScriptedApi
) -> None:
    api.replies[:] = [
        answered({"type": "text", "text": "a"}, {"type": "text", "text": "b"}, output_tokens=9)
    ]
    events = chat(parts, "go")
    first, last = [each for each in recorded(events) if each["type"] == "assistant"]
    assert (first["message"]["stop_reason"], last["message"]["stop_reason"]) == (None, "end_turn")
    assert last["message"]["usage"]["output_tokens"] == 9
    assert first["message"]["id"] == last["message"]["id"]
    assert (first["requestId"], last["apiBlockIndex"]) == ("req_1", 1)


def test_a_block_is_recorded_before_it_is_told_as_finished(parts: Parts, api: ScriptedApi) -> None:
    events = chat(parts, "go")
    told = [
        event.entry["type"] if isinstance(event, Recorded) else event.event["type"]
        for event in events
        if isinstance(event, Recorded | Streamed)
    ]
    stop = told.index("content_block_stop")
    assert told[stop - 1] == "assistant"


@pytest.mark.parametrize("status", [429, 500, 529])
def test_what_may_pass_is_asked_again_and_each_failure_is_a_line(
    parts: Parts, api: ScriptedApi, status: int
) -> None:
    api.replies[:] = [refused(status, "busy"), refused(status, "busy"), said("At last.")]
    events = chat(parts, "go")
    assert ended(events).text == "At last."
    errors = [each for each in recorded(events) if each.get("subtype") == "api_error"]
    assert [(each["retryAttempt"], each["retryInMs"]) for each in errors] == [(1, 1), (2, 1)]
    assert {each["error"]["status"] for each in errors} == {status}
    assert len([each for each in events if isinstance(each, Retrying)]) == 2
    sound_session(parts)


@pytest.mark.parametrize("fault", ["cut_after", "garbled_after"])
def test_an_answer_that_breaks_off_is_asked_for_again_and_left_out(
    parts: Parts, api: ScriptedApi, fault: str
) -> None:
    broken = called(("t1", "Echo", {"text": "never"}), text="Half of it.")
    whole = len("message_start ping start text text stop start".split())
    api.replies[:] = [broken._replace(**{fault: whole}), said("Whole.")]
    events = chat(parts, "go")
    assert ended(events).text == "Whole."
    session = sound_session(parts)
    assert texts(session.context()) == [
        ("user", "go"),
        ("assistant", "thinking"),
        ("assistant", "Whole."),
    ]
    assert "Half of it." in parts.recorder.path.read_text("utf-8")


def test_what_does_not_pass_is_told_once(parts: Parts, api: ScriptedApi) -> None:
    api.replies[:] = [refused(401, "invalid x-api-key")]
    events = chat(parts, "go")
    assert ended(events).reason == "failed"
    assert "invalid x-api-key (status 401, request req_1)" in ended(events).text
    assert len(api.requests) == 1
    session = sound_session(parts)
    assert texts(session.context()) == [("user", "go"), NO_RESPONSE]
    assert "isApiErrorMessage" in parts.recorder.path.read_text("utf-8")


def test_after_the_last_try_the_error_is_told(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    parts = make_parts(store, project, retries=2)
    api.replies[:] = [refused(529, "Overloaded")]
    events = chat(parts, "go")
    assert (ended(events).reason, len(api.requests)) == ("failed", 3)
    last = [each for each in recorded(events) if each["type"] == "assistant"][-1]
    assert (last["isApiErrorMessage"], last["error"]) == (True, "server_error")


def test_a_wait_that_is_too_long_is_told_instead(parts: Parts, api: ScriptedApi) -> None:
    api.replies[:] = [refused(429, "later")._replace(headers=(("retry-after", "4000"),))]
    assert ended(chat(parts, "go")).reason == "failed"
    assert len(api.requests) == 1


def test_it_stops_after_as_many_answers_as_it_may_give(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    parts = make_parts(store, project, max_turns=2)
    api.replies[:] = [called((f"t{n}", "Echo", {"text": "on"})) for n in (1, 2, 3)]
    events = chat(parts, "go")
    assert (ended(events).reason, ended(events).requests) == ("max_turns", 2)
    sound_session(parts)


def test_it_stops_when_the_money_is_spent(store: Store, project: Path, api: ScriptedApi) -> None:
    parts = make_parts(store, project, max_budget=0.01)
    call: Fields = {"type": "tool_use", "id": "t1", "name": "Echo", "input": {"text": "on"}}
    api.replies[:] = [answered(call, stop_reason="tool_use", output_tokens=1_000)]
    events = chat(parts, "go")
    assert ended(events).reason == "max_budget"
    assert ended(events).cost >= 0.01


def test_nothing_is_sent_when_the_money_is_spent_already(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    parts = make_parts(store, project, max_budget=0.0)
    assert ended(chat(parts, "go")).reason == "max_budget"
    assert api.requests == []


def interrupted(parts: Parts, is_time: Callable[[Event], bool]) -> list[Event]:
    """A turn that is interrupted at some event."""

    async def run() -> list[Event]:
        loop = Loop(parts)
        events: list[Event] = []
        async for event in loop.run("go"):
            events.append(event)
            if is_time(event):
                loop.interrupt()
        await parts.model.close()
        return events

    return asyncio.run(run())


def test_an_interrupted_answer_keeps_what_was_said(parts: Parts, api: ScriptedApi) -> None:
    whole = said("This is a long story.")
    api.replies[:] = [whole._replace(hold_after=9), said("Done.")]

    def has_begun(event: Event) -> bool:
        return isinstance(event, Streamed) and event.event.get("delta", {}).get("text") == "This is"

    events = interrupted(parts, has_begun)
    assert ended(events).reason == "interrupted"
    session = sound_session(parts)
    assert texts(session.context())[-2:] == [("user", STOPPED), NO_RESPONSE]
    assert any(each.get("isAbortedMidStream") for each in recorded(events))
    chat(parts, "again")
    roles = [role for role, _ in texts(api.requests[-1].body["messages"])]
    assert roles == ["user", "assistant", "assistant", "user", "user"]


def test_an_interrupted_call_has_a_result_and_one_that_ended_keeps_its_own(
    parts: Parts, api: ScriptedApi
) -> None:
    async def hang(value: Fields, output: Callable[[str], None]) -> ToolOutcome:
        await asyncio.Event().wait()
        return ToolOutcome("never")

    parts.tools = {"Hang": make_tool("Hang", hang, is_parallel=True), "Echo": ECHO}
    api.replies[:] = [called(("t1", "Hang", {}), ("t2", "Echo", {"text": "quick"}))]
    interrupted(parts, lambda event: isinstance(event, Printed))
    session = sound_session(parts)
    results = session.context()[-2]["content"]
    assert [each.get("content") or each["text"] for each in results] == [
        REJECTED_TEXT,
        "quick",
        STOPPED_AT_CALL,
    ]


def test_whoever_stops_listening_stops_the_work(parts: Parts, api: ScriptedApi) -> None:
    api.replies[:] = [said("Long.")._replace(hold_after=4)]

    async def run() -> None:
        events = Loop(parts).run("go")
        async for event in events:
            if isinstance(event, Streamed):
                break
        await events.aclose()
        await parts.model.close()

    asyncio.run(run())
    assert texts(sound_session(parts).context())[-2:] == [("user", STOPPED), NO_RESPONSE]


def test_what_rules_deny_is_not_run(parts: Parts, api: ScriptedApi) -> None:
    rules_of(parts).kinds["Echo"] = VerdictKind.DENY
    api.replies[:] = [called(("t1", "Echo", {"text": "no"})), said("Done.")]
    events = chat(parts, "go")
    (result,) = api.requests[1].body["messages"][-1]["content"]
    assert result["content"] == "Echo is not allowed: a rule about Echo"
    (denial,) = ended(events).denials
    assert denial == {"tool_name": "Echo", "tool_use_id": "t1", "tool_input": {"text": "no"}}


def test_where_nobody_can_be_asked_the_model_is_told(parts: Parts, api: ScriptedApi) -> None:
    rules_of(parts).kinds["Echo"] = VerdictKind.ASK
    api.replies[:] = [called(("t1", "Echo", {"text": "no"})), said("Done.")]
    assert ended(chat(parts, "go")).reason == "done"
    (result,) = api.requests[1].body["messages"][-1]["content"]
    assert "nobody can be asked" in result["content"]


def test_the_user_is_asked_and_what_is_allowed_for_good_is_remembered(
    parts: Parts, api: ScriptedApi
) -> None:
    async def allow(question: Question) -> PermissionReply:
        return PermissionReply("allow", ("Echo",))

    rules_of(parts).kinds["Echo"] = VerdictKind.ASK
    parts.ask = allow
    api.replies[:] = [called(("t1", "Echo", {"text": "yes"})), said("Done.")]
    chat(parts, "go")
    (result,) = api.requests[1].body["messages"][-1]["content"]
    assert result["content"] == "yes"
    assert rules_of(parts).remembered == ["Echo"]


def test_a_refusal_without_a_word_ends_the_turn(parts: Parts, api: ScriptedApi) -> None:
    async def deny(question: Question) -> PermissionReply:
        return PermissionReply("deny")

    rules_of(parts).kinds["Echo"] = VerdictKind.ASK
    parts.ask = deny
    api.replies[:] = [called(("t1", "Echo", {"text": "a"}), ("t2", "Fail", {"text": "b"}))]
    events = chat(parts, "go")
    assert (ended(events).reason, len(api.requests)) == ("interrupted", 1)
    told = sound_session(parts).context()[-2]["content"]
    assert [each.get("content") or each["text"] for each in told] == [
        REJECTED_TEXT,
        REJECTED_TEXT,
        STOPPED_AT_CALL,
    ]


def test_a_refusal_with_a_word_goes_on(parts: Parts, api: ScriptedApi) -> None:
    async def deny(question: Question) -> PermissionReply:
        return PermissionReply("deny", feedback="use tabs")

    rules_of(parts).kinds["Echo"] = VerdictKind.ASK
    parts.ask = deny
    api.replies[:] = [called(("t1", "Echo", {"text": "a"})), said("Done.")]
    assert ended(chat(parts, "go")).reason == "done"
    (result,) = api.requests[1].body["messages"][-1]["content"]
    assert result["content"].endswith("the user said:\nuse tabs")


def test_an_answer_that_was_cut_off_goes_on(parts: Parts, api: ScriptedApi) -> None:
    api.replies[:] = [said("Half", "max_tokens"), said("the rest.")]
    assert ended(chat(parts, "go")).text == "the rest."
    assert "cut off" in api.requests[1].body["messages"][-1]["content"][-1]["text"]


def test_a_session_that_cannot_be_written_is_told(parts: Parts, api: ScriptedApi) -> None:
    parts.recorder.path.parent.parent.mkdir(parents=True, exist_ok=True)
    parts.recorder.path.parent.write_text("a file where the folder should be")
    end = ended(chat(parts, "go"))
    assert (end.reason, api.requests) == ("failed", [])
    assert end.text.endswith("Not a directory")
