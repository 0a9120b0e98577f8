"""Hooks that ask a model, with and without tools, in conversations with a scripted one."""

import json
from pathlib import Path

import pytest

from support.chatting import chat, ended, make_parts, recorded, rules_of, sound_session
from support.scripted_api import Reply, ScriptedApi, answered, called, refused, said
from turnlog.agent.hooks.prompt_hooks import Judgement, question_of, read_judgement
from turnlog.agent.hooks.runs import Firing
from turnlog.agent.loop.conversation import Parts
from turnlog.agent.loop.events import Notice
from turnlog.agent.permissions.policy import VerdictKind
from turnlog.agent.subagents.hook_evaluation import ANSWER_TOOL, ConversationResources
from turnlog.format.json_values import Fields, is_object
from turnlog.format.survey import is_known_kind, survey_file
from turnlog.store.paths import Store

NO = '{"ok": false, "reason": "no tests"}'
ECHO = called(("t1", "Echo", {"text": "x"}))


def hooked(store: Store, project: Path, event: str, kind: str = "prompt", **more: object) -> Parts:
    handler = {"type": kind, "prompt": "All well?", **more}
    parts = make_parts(store, project, {event: [{"hooks": [handler]}]}, retries=0)
    parts.hooks.resources = ConversationResources(parts)
    return parts


def is_aside(body: Fields) -> bool:
    """Return whether a request comes from a hook and not from the conversation."""
    return "You decide for a coding agent" in json.dumps(body["system"])


def answer_hooks(api: ScriptedApi, *replies: Reply) -> None:
    """Let the API answer hooks with one reply after the other, the last again and again."""
    waiting = list(replies)

    def choose(body: Fields) -> Reply | None:
        if not is_aside(body):
            return None
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    api.choose = choose


def asked(api: ScriptedApi) -> list[Fields]:
    return [request.body for request in api.requests if is_aside(request.body)]


def decided(ok: bool, reason: str) -> Reply:
    return called(("h9", ANSWER_TOOL, {"ok": ok, "reason": reason}))


def last_text(body: Fields) -> str:
    return body["messages"][-1]["content"][-1]["text"]


def results(parts: Parts) -> list[str]:
    messages = [entry["message"]["content"] for entry in parts.recorder.chain if "message" in entry]
    blocks = [block for content in messages for block in content if is_object(block)]
    return [block["content"] for block in blocks if block["type"] == "tool_result"]


def test_what_may_go_ahead_leaves_no_word(store: Store, project: Path, api: ScriptedApi) -> None:
    parts = hooked(store, project, "PreToolUse")
    answer_hooks(api, said('{"ok": true, "reason": "fine"}'))
    api.replies[:] = [ECHO, said("Done.")]
    events = chat(parts, "go")
    assert results(parts) == ["x"]
    assert not [event for event in events if isinstance(event, Notice)]
    assert [each["type"] for each in recorded(events)].count("attachment") == 0


def test_a_model_is_asked_once_with_what_happened(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    parts = hooked(store, project, "PreToolUse", prompt="May it: $ARGUMENTS for \\$1?")
    answer_hooks(api, said('{"ok": true}'))
    api.replies[:] = [ECHO, said("Done.")]
    chat(parts, "go")
    (request,) = asked(api)
    assert len(request["messages"]) == 1
    assert "tools" not in request
    told = last_text(request).removeprefix("May it: ").removesuffix(" for $1?")
    assert json.loads(told)["tool_input"] == {"text": "x"}


def test_what_happened_comes_last_where_no_place_is_named() -> None:
    firing = Firing("Stop", "Stop", {"prompt": "Done? \\$ARGUMENTS"}, {"a": 1}, 30)
    assert question_of(firing) == 'Done? $ARGUMENTS\n\nARGUMENTS: {"a":1}'


def test_a_stop_is_judged_by_the_conversation(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    parts = hooked(store, project, "Stop")
    answer_hooks(api, said(NO), said('{"ok": true}'))
    api.replies[:] = [ECHO, said("Done."), said("Tests ran.")]
    events = chat(parts, "go")
    assert ended(events).text == "Tests ran."
    first, second = asked(api)
    assert "go" in json.dumps(first["messages"][0])
    assert last_text(first).startswith("The check, which is about the conversation above:\n\nAll")
    assert "Tests ran." in json.dumps(second["messages"])
    assert first["tool_choice"] == {"type": "none"}
    feedback = "Stop hook feedback:\n[All well?]: no tests"
    assert last_text(api.requests[-2].body) == feedback
    summary, _ = [each for each in recorded(events) if each.get("subtype") == "stop_hook_summary"]
    assert summary["hookInfos"][0]["promptText"] == "All well?"
    survey = survey_file(parts.recorder.path)
    assert [kind for kind in survey.kinds if not is_known_kind(kind)] == []
    assert [name for name, is_known in survey.count_fields() if not is_known] == []
    sound_session(parts)


def test_what_can_never_be_lets_the_model_stop(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    parts = hooked(store, project, "Stop")
    answer_hooks(api, said('{"ok": false, "impossible": true, "reason": "no network"}'))
    assert ended(chat(parts, "go")).requests == 1


def test_a_call_that_may_not_run_ends_the_turn(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    parts = hooked(store, project, "PreToolUse")
    answer_hooks(api, said(NO))
    api.replies[:] = [ECHO, said("Done.")]
    events = chat(parts, "go")
    assert (ended(events).reason, ended(events).requests) == ("done", 1)
    assert results(parts) == ["Echo was not allowed: [All well?]: no tests"]
    assert Notice("no tests") in events
    assert "PreToolUse:Echo hook stopped continuation: no tests" in json.dumps(recorded(events))
    assert "interrupted by user" not in parts.recorder.path.read_text("utf-8")
    sound_session(parts)


def test_the_turn_goes_on_where_the_hook_wants_it(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    parts = hooked(store, project, "PreToolUse", continueOnBlock=True)
    answer_hooks(api, said(NO))
    api.replies[:] = [ECHO, said("Done.")]
    assert ended(chat(parts, "go")).text == "Done."
    assert results(parts) == ["Echo was not allowed: [All well?]: no tests"]


@pytest.mark.parametrize(("goes_on", "requests"), [(False, 1), (True, 2)])
def test_an_objection_after_a_call_ends_the_turn_or_is_heard(
    store: Store, project: Path, api: ScriptedApi, goes_on: bool, requests: int
) -> None:
    parts = hooked(store, project, "PostToolUse", continueOnBlock=goes_on)
    answer_hooks(api, said(NO))
    api.replies[:] = [ECHO, said("Done.")]
    assert ended(chat(parts, "go")).requests == requests
    assert "[All well?]: no tests" in parts.recorder.path.read_text("utf-8")
    sound_session(parts)


def test_an_objection_to_a_failure_is_heard(store: Store, project: Path, api: ScriptedApi) -> None:
    parts = hooked(store, project, "PostToolUseFailure")
    answer_hooks(api, said(NO))
    api.replies[:] = [called(("t1", "Fail", {"text": "broken"})), said("Done.")]
    assert ended(chat(parts, "go")).text == "Done."


def test_an_objection_to_all_calls_ends_the_turn(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    parts = hooked(store, project, "PostToolBatch", continueOnBlock=True)
    answer_hooks(api, said(NO))
    api.replies[:] = [ECHO, said("Done.")]
    events = chat(parts, "go")
    assert ended(events).requests == 1
    assert Notice("[All well?]: no tests", is_error=True) in events
    sound_session(parts)


def test_a_prompt_may_be_refused_by_a_model(store: Store, project: Path, api: ScriptedApi) -> None:
    parts = hooked(store, project, "UserPromptSubmit")
    answer_hooks(api, said(NO))
    end = ended(chat(parts, "go"))
    assert (end.reason, end.text) == ("blocked", "[All well?]: no tests")


def test_a_permission_is_not_for_a_model_to_refuse(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    parts = hooked(store, project, "PermissionRequest")
    rules_of(parts).kinds["Echo"] = VerdictKind.ASK
    answer_hooks(api, said(NO))
    api.replies[:] = [ECHO, said("Done.")]
    chat(parts, "go")
    assert len(asked(api)) == 1
    assert "nobody can be asked" in results(parts)[0]


@pytest.mark.parametrize("reply", [said("Well, hm."), said('{"okay": 1}'), refused(400, "too odd")])
def test_no_decision_is_an_error_that_stops_nothing(
    store: Store, project: Path, api: ScriptedApi, reply: Reply
) -> None:
    parts = hooked(store, project, "Stop")
    answer_hooks(api, reply)
    events = chat(parts, "go")
    assert ended(events).text == "Done."
    (told,) = [event for event in events if isinstance(event, Notice)]
    assert told.is_error
    assert told.text.startswith("Stop hook error: ")


def test_a_model_that_takes_too_long_is_not_waited_for(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    parts = hooked(store, project, "PreToolUse", timeout=0.3)
    answer_hooks(api, said('{"ok": false}')._replace(hold_after=1))
    api.replies[:] = [ECHO, said("Done.")]
    events = chat(parts, "go")
    assert results(parts) == ["x"]
    assert any("timed out" in event.text for event in events if isinstance(event, Notice))


def test_what_hooks_ask_is_counted(store: Store, project: Path, api: ScriptedApi) -> None:
    parts = hooked(store, project, "Stop")
    answer_hooks(api, answered({"type": "text", "text": '{"ok": true}'}, input_tokens=1000))
    end = ended(chat(parts, "go"))
    assert end.requests == 1
    assert end.usage["input_tokens"] == 1001


@pytest.mark.parametrize(
    ("named", "variable", "expected"),
    [
        ("", "", "claude-opus-5-5"),
        ("", "small-one", "small-one"),
        ("sonnet", "small-one", "claude-sonnet-5-5"),
        ("some-model", "", "some-model"),
    ],
)
def test_a_small_model_is_asked_unless_the_hook_names_one(
    parts: Parts, monkeypatch: pytest.MonkeyPatch, named: str, variable: str, expected: str
) -> None:
    if variable:
        monkeypatch.setenv("ANTHROPIC_DEFAULT_HAIKU_MODEL", variable)
    assert ConversationResources(parts).model(named) == expected


def test_an_agent_finds_out_with_tools(store: Store, project: Path, api: ScriptedApi) -> None:
    parts = hooked(store, project, "Stop", "agent")
    look = called(("h1", "Echo", {"text": "looked"}))
    answer_hooks(api, look, decided(ok=False, reason="no tests"), decided(ok=True, reason=""))
    api.replies[:] = [said("Done."), said("Tests ran.")]
    events = chat(parts, "go")
    assert ended(events).text == "Tests ran."
    first, second, _ = asked(api)
    assert [tool["name"] for tool in first["tools"]] == ["Echo", "Fail", ANSWER_TOOL]
    assert str(parts.recorder.path) in json.dumps(first["system"])
    assert "looked" in json.dumps(second["messages"])
    feedback = "Stop hook feedback:\nAgent hook condition was not met: no tests"
    assert last_text(api.requests[-2].body) == feedback
    sound_session(parts)


def test_an_agent_leaves_nothing_in_the_session_folder(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    parts = hooked(store, project, "Stop", "agent")
    answer_hooks(api, called(("h1", "Echo", {"text": "looked"})), decided(ok=True, reason=""))
    chat(parts, "go")
    assert "looked" not in parts.recorder.path.read_text("utf-8")
    assert not parts.recorder.path.with_suffix("").exists()


def test_a_call_that_an_agent_objects_to_does_not_end_the_turn(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    parts = hooked(store, project, "PreToolUse", "agent")
    answer_hooks(api, decided(ok=False, reason="no tests"))
    api.replies[:] = [ECHO, said("Done.")]
    assert ended(chat(parts, "go")).text == "Done."
    (told,) = results(parts)
    assert told == "Echo was not allowed: Agent hook condition was not met: no tests"


def test_an_agents_own_calls_have_hooks_but_none_that_ask_a_model(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    heard = project / "heard"
    log = {"type": "command", "command": f"cat >> {heard}"}
    agent = {"type": "agent", "prompt": "All well?"}
    parts = make_parts(store, project, {"PreToolUse": [{"hooks": [log, agent]}], "Stop": [log]})
    parts.hooks.resources = ConversationResources(parts)
    answer_hooks(api, called(("h1", "Echo", {"text": "y"})), decided(ok=True, reason=""))
    api.replies[:] = [ECHO, said("Done.")]
    chat(parts, "go")
    told = [json.loads(line) for line in heard.read_text("utf-8").splitlines()]
    calls = [(each["tool_name"], "agent_id" in each) for each in told]
    assert calls == [("Echo", False), ("Echo", True), (ANSWER_TOOL, True)]


def test_nobody_is_asked_about_what_an_agent_does(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    parts = hooked(store, project, "Stop", "agent")
    rules_of(parts).kinds["Echo"] = VerdictKind.ASK
    answer_hooks(api, called(("h1", "Echo", {"text": "y"})), decided(ok=True, reason=""))
    chat(parts, "go")
    assert "nobody can be asked" in json.dumps(asked(api)[1]["messages"])


def test_an_agent_may_answer_in_words(store: Store, project: Path, api: ScriptedApi) -> None:
    parts = hooked(store, project, "PreToolUse", "agent")
    answer_hooks(api, said(f"So: {NO}"))
    api.replies[:] = [ECHO, said("Done.")]
    chat(parts, "go")
    assert "no tests" in results(parts)[0]


def test_an_agent_that_fails_is_an_error_that_stops_nothing(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    parts = hooked(store, project, "Stop", "agent")
    answer_hooks(api, refused(400, "too odd"))
    events = chat(parts, "go")
    assert ended(events).text == "Done."
    assert any("too odd" in event.text for event in events if isinstance(event, Notice))


def test_an_agent_does_not_go_on_for_ever(store: Store, project: Path, api: ScriptedApi) -> None:
    parts = hooked(store, project, "Stop", "agent")
    answer_hooks(api, called(("h1", "Echo", {"text": "y"})))
    events = chat(parts, "go")
    assert len(asked(api)) == 50
    assert Notice("Stop hook error: the model gave no decision", is_error=True) in events


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"ok": true}', Judgement(ok=True)),
        ('Sure.\n```json\n{"ok": false, "reason": "r"}\n```', Judgement(ok=False, reason="r")),
        ('{"ok": false, "reason": "\\ud83d"}', Judgement(ok=False, reason="?")),
        ('{"ok": "yes"}', None),
        ("[true]", None),
        ("}{", None),
        ("", None),
    ],
)
def test_decisions_are_read_from_what_a_model_says(text: str, expected: Judgement | None) -> None:
    assert read_judgement(text) == expected
