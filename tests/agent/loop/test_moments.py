"""Hooks in a conversation: their output is applied and recorded."""

import json
from pathlib import Path

import pytest

from support.chatting import chat, ended, make_parts, recorded, rules_of, sound_session
from support.scripted_api import ScriptedApi, called, refused, said
from turnlog.agent.loop.conversation import Parts
from turnlog.agent.loop.events import Notice, TurnEnded
from turnlog.agent.loop.lifecycle_hooks import end_session, start_session
from turnlog.agent.permissions.policy import VerdictKind
from turnlog.format.json_values import Fields
from turnlog.format.survey import survey_file
from turnlog.store.paths import Store


@pytest.fixture
def heard(project: Path) -> Path:
    """The file in which a hook records its payload."""
    return project / "heard"


def hooked(store: Store, project: Path, **commands: str) -> Parts:
    groups: Fields = {
        event: [{"hooks": [{"type": "command", "command": command}]}]
        for event, command in commands.items()
    }
    return make_parts(store, project, groups)


def last_texts(api: ScriptedApi) -> list[str]:
    return [
        each.get("text") or each["content"]
        for each in api.requests[-1].body["messages"][-1]["content"]
    ]


def test_a_prompt_may_be_refused(store: Store, project: Path, api: ScriptedApi) -> None:
    parts = hooked(store, project, UserPromptSubmit="echo 'not on Sundays' >&2; exit 2")
    end = ended(chat(parts, "go"))
    assert (end.reason, end.text) == ("blocked", "not on Sundays")
    assert not parts.recorder.path.exists()
    assert api.requests == []


def test_what_a_hook_tells_goes_with_the_prompt(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    parts = hooked(store, project, UserPromptSubmit="echo it rains")
    chat(parts, "go")
    assert last_texts(api)[0] == "go\n"
    assert "UserPromptSubmit hook additional context: it rains" in last_texts(api)[1]
    sound_session(parts)


def test_hooks_know_a_prompt_by_its_id(
    store: Store, project: Path, api: ScriptedApi, heard: Path
) -> None:
    log = f"cat >> {heard}"
    parts = hooked(store, project, UserPromptSubmit=log, Stop=log)
    events = chat(parts, "go", "go on")
    told = [json.loads(line)["prompt_id"] for line in heard.read_text("utf-8").splitlines()]
    first, second = [each["promptId"] for each in recorded(events) if each.get("promptSource")]
    assert told == [first, first, second, second]


def test_a_call_may_be_denied_changed_and_told_of(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    answer = {
        "hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"text": "new"}}
    }
    parts = hooked(store, project, PreToolUse=f"echo '{json.dumps(answer)}'")
    api.replies[:] = [called(("t1", "Echo", {"text": "old"})), said("Done.")]
    chat(parts, "go")
    assert last_texts(api) == ["new"]


def test_a_denied_call_is_told_with_the_reason(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    parts = hooked(store, project, PreToolUse="echo 'too late' >&2; exit 2")
    api.replies[:] = [called(("t1", "Echo", {"text": "x"})), said("Done.")]
    chat(parts, "go")
    assert last_texts(api) == ["Echo was not allowed: too late"]


def test_after_a_call_hooks_hear_of_it_and_may_object(
    store: Store, project: Path, api: ScriptedApi, heard: Path
) -> None:
    parts = hooked(store, project, PostToolUse=f"cat > {heard}; echo 'lint it' >&2; exit 2")
    api.replies[:] = [called(("t1", "Echo", {"text": "x"})), said("Done.")]
    chat(parts, "go")
    told = json.loads(heard.read_bytes())
    assert (told["tool_name"], told["tool_response"]) == ("Echo", {"echo": "x"})
    assert "lint it" in last_texts(api)[1]
    survey = survey_file(parts.recorder.path)
    assert survey.kinds["progress/hook_progress"] == 1
    assert [name for name, is_known in survey.count_fields() if not is_known] == []
    sound_session(parts)


def test_a_failed_call_has_hooks_of_its_own(
    store: Store, project: Path, api: ScriptedApi, heard: Path
) -> None:
    parts = hooked(store, project, PostToolUseFailure=f"cat > {heard}")
    api.replies[:] = [called(("t1", "Fail", {"text": "broken"})), said("Done.")]
    chat(parts, "go")
    assert json.loads(heard.read_bytes())["error"] == "broken"


def permission(**decision: object) -> str:
    said = {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"} | decision}
    return f"echo '{json.dumps({'hookSpecificOutput': said})}'"


def test_a_hook_may_answer_for_the_user_from_now_on(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    rule = [{"toolName": "Echo"}]
    kept = {"type": "addRules", "rules": rule, "behavior": "allow", "destination": "localSettings"}
    mode = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
    bypass = {"type": "setMode", "mode": "bypassPermissions", "destination": "session"}
    updates = [kept, kept | {"destination": "session"}, mode]
    parts = hooked(store, project, PermissionRequest=permission(updatedPermissions=updates))
    rules_of(parts).kinds["Echo"] = VerdictKind.ASK
    api.replies[:] = [called(("t1", "Echo", {"text": "x"})), said("Done.")]
    chat(parts, "go")
    assert last_texts(api) == ["x"]
    assert rules_of(parts).remembered == ["Echo", "Echo for now"]
    assert (parts.rules.mode, parts.hooks.facts.permission_mode) == ("acceptEdits", "acceptEdits")
    parts = hooked(store, project, PermissionRequest=permission(updatedPermissions=[bypass]))
    rules_of(parts).kinds["Echo"] = VerdictKind.ASK
    api.replies[:] = [called(("t1", "Echo", {"text": "x"})), said("Done.")]
    chat(parts, "go")
    assert parts.rules.mode == "default"


def test_hooks_are_told_whole_paths(
    store: Store, project: Path, api: ScriptedApi, heard: Path
) -> None:
    parts = hooked(store, project, PreToolUse=f"cat >> {heard}", PostToolUse=f"cat >> {heard}")
    given = {"text": "x", "file_path": "sub/../a.txt"}
    api.replies[:] = [called(("t1", "Echo", given)), said("Done.")]
    chat(parts, "go")
    told = [json.loads(line)["tool_input"] for line in heard.read_text("utf-8").splitlines()]
    assert [each["file_path"] for each in told] == [f"{project}/a.txt"] * 2


def test_a_call_whose_input_does_not_fit_is_no_matter_for_hooks(
    store: Store, project: Path, api: ScriptedApi, heard: Path
) -> None:
    parts = hooked(store, project, PreToolUse=f"cat > {heard}", PostToolUseFailure=f"cat > {heard}")
    api.replies[:] = [called(("t1", "Echo", {"wrong": True})), said("Done.")]
    chat(parts, "go")
    assert not heard.exists()


def test_all_calls_of_an_answer_are_told_together(
    store: Store, project: Path, api: ScriptedApi, heard: Path
) -> None:
    answer = {"hookSpecificOutput": {"hookEventName": "PostToolBatch", "additionalContext": "both"}}
    parts = hooked(store, project, PostToolBatch=f"cat > {heard}; echo '{json.dumps(answer)}'")
    calls = [("t1", "Echo", {"text": "x"}), ("t2", "Fail", {"text": "y"})]
    api.replies[:] = [called(*calls), said("Done.")]
    chat(parts, "go")
    assert json.loads(heard.read_bytes())["tool_calls"] == [
        {"tool_name": n, "tool_input": v, "tool_use_id": i, "tool_response": v["text"]}
        for i, n, v in calls
    ]
    assert "PostToolBatch hook additional context: both" in last_texts(api)[-1]
    sound_session(parts)


def test_the_turn_may_be_ended_after_all_calls(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    parts = hooked(store, project, PostToolBatch="echo 'look first' >&2; exit 2")
    api.replies[:] = [called(("t1", "Echo", {"text": "x"})), said("Done.")]
    events = chat(parts, "go", "and now?")
    assert [event.requests for event in events if isinstance(event, TurnEnded)] == [1, 1]
    assert Notice("look first", is_error=True) in events
    assert "PostToolBatch hook stopped continuation: look first" in json.dumps(
        api.requests[-1].body["messages"]
    )
    sound_session(parts)


def test_a_hook_that_stops_everything_is_not_the_user_interrupting(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    answer = json.dumps({"continue": False, "stopReason": "build failed"})
    parts = hooked(store, project, PostToolUse=f"echo '{answer}'")
    api.replies[:] = [called(("t1", "Echo", {"text": "x"})), said("Done.")]
    events = chat(parts, "go")
    assert (ended(events).reason, ended(events).requests) == ("done", 1)
    assert Notice("build failed") in events
    assert "interrupted" not in parts.recorder.path.read_text("utf-8")
    sound_session(parts)


def test_what_a_hook_says_that_denies_is_told_to_the_user(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    answer = json.dumps({"decision": "block", "reason": "no", "systemMessage": "look here"})
    parts = hooked(store, project, PreToolUse=f"echo '{answer}'")
    api.replies[:] = [called(("t1", "Echo", {"text": "x"})), said("Done.")]
    assert Notice("look here", hook="PreToolUse:Echo") in chat(parts, "go")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, "invalid_request"),
        (401, "authentication_failed"),
        (402, "billing_error"),
        (403, "authentication_failed"),
        (404, "model_not_found"),
        (413, "invalid_request"),
        (429, "rate_limit"),
        (500, "server_error"),
        (529, "overloaded"),
    ],
)
def test_hooks_hear_of_a_turn_that_failed(
    store: Store, project: Path, api: ScriptedApi, status: int, expected: str
) -> None:
    heard = project / "heard"
    groups = {"StopFailure": [{"matcher": expected, "hooks": [{"command": f"cat > {heard}"}]}]}
    parts = make_parts(store, project, groups, retries=0)
    api.replies[:] = [refused(status, "no luck")]
    end = ended(chat(parts, "go"))
    told = json.loads(heard.read_bytes())
    assert (told["error"], told["last_assistant_message"]) == (expected, end.text)
    assert "no luck" in told["error_details"]


def test_the_model_may_be_kept_from_stopping(
    store: Store, project: Path, api: ScriptedApi, heard: Path
) -> None:
    script = (
        f"cat >> {heard}; [ $(wc -l < {heard}) -gt 1 ] || {{ echo 'run the tests' >&2; exit 2; }}"
    )
    parts = hooked(store, project, Stop=script)
    api.replies[:] = [said("Done."), said("Tests ran.")]
    events = chat(parts, "go")
    assert ended(events).text == "Tests ran."
    told = [json.loads(line) for line in heard.read_text("utf-8").splitlines()]
    assert [each["stop_hook_active"] for each in told] == [False, True]
    assert [each["last_assistant_message"] for each in told] == ["Done.", "Tests ran."]
    assert "Stop hook feedback:\nrun the tests" in last_texts(api)
    summaries = [each for each in recorded(events) if each.get("subtype") == "stop_hook_summary"]
    assert len(summaries) == 2
    sound_session(parts)


def test_context_of_a_stop_hook_is_sent_once(
    store: Store, project: Path, api: ScriptedApi, heard: Path
) -> None:
    answer = {"hookSpecificOutput": {"hookEventName": "Stop", "additionalContext": "all green"}}
    told = f"echo '{json.dumps(answer)}'"
    parts = hooked(store, project, Stop=f"[ -e {heard} ] || {{ touch {heard}; {told}; }}")
    api.replies[:] = [said("Done."), said("Fine.")]
    events = chat(parts, "go")
    assert ended(events).text == "Fine."
    assert json.dumps(api.requests[-1].body["messages"]).count("all green") == 1
    meta = [each for each in recorded(events) if each.get("isMeta") and each["type"] == "user"]
    assert meta == []
    sound_session(parts)


def test_it_is_not_kept_from_stopping_for_ever(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    parts = hooked(store, project, Stop="echo more >&2; exit 2")
    assert ended(chat(parts, "go")).requests == 9


def test_a_hook_that_fails_is_told_to_the_user(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    parts = hooked(store, project, Stop="echo oops >&2; exit 1")
    events = chat(parts, "go")
    assert Notice("Stop hook error (exit code 1): oops", is_error=True) in events


def test_sessions_start_and_end_with_hooks(
    store: Store, project: Path, api: ScriptedApi, heard: Path
) -> None:
    import asyncio

    parts = hooked(store, project, SessionStart="echo welcome", SessionEnd=f"cat > {heard}")

    async def run() -> list[str]:
        told = await start_session(parts, "startup")
        await end_session(parts, "clear")
        return told

    (told,) = asyncio.run(run())
    assert "welcome" in told
    assert json.loads(heard.read_bytes())["reason"] == "clear"
