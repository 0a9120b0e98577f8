"""Hooks in a conversation: what they say is heard, done and written down."""

import json
from pathlib import Path

import pytest

from chatting import chat, ended, make_parts, recorded, sound_session
from scripted_api import ScriptedApi, called, said
from turnlog.agent.events import Noted
from turnlog.agent.tool import Fields
from turnlog.agent.turn.moments import end_session, start_session
from turnlog.agent.turn.parts import Parts
from turnlog.format.survey import survey_file
from turnlog.store.paths import Store


@pytest.fixture
def heard(project: Path) -> Path:
    """Where a hook leaves what it was told."""
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
    assert Noted("Stop hook error (exit code 1): oops", is_error=True) in events


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
