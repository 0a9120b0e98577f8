"""Fields of 2.1.325 that record how an answer was requested and why a call could run."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from support.chatting import ECHO, chat, make_parts, recorded, rules_of, sound_session
from support.scripted_api import ScriptedApi, answered, called, refused, said
from turnlog.agent.loop.context_usage import ContextUsage, last_usage
from turnlog.agent.loop.conversation import Parts
from turnlog.agent.loop.turn_records import not_written
from turnlog.agent.permissions.policy import PermissionReply, Question, VerdictKind
from turnlog.agent.session.entry_builders import (
    failure,
    local_command,
    permission_decision,
    permission_rejection,
    queue,
)
from turnlog.agent.workspace.access import ApprovalMode, Basis
from turnlog.conversation.context import messages_of
from turnlog.format.json_values import Fields
from turnlog.format.survey import survey_file
from turnlog.store.paths import Store

ONCE = {"grantScope": "once", "reasonCode": "unknown"}


def decision_of(parts: Parts) -> Fields | None:
    events = chat(parts, "go")
    (result,) = [each for each in recorded(events) if "toolUseResult" in each]
    sound_session(parts)
    return result.get("permissionDecision")


def test_an_answer_names_the_model_and_effort_that_were_asked_for(
    parts: Parts, api: ScriptedApi
) -> None:
    answers = [each for each in recorded(chat(parts, "go")) if each["type"] == "assistant"]
    for entry in answers:
        assert (entry["requestedModel"], entry["effort"]) == ("claude-opus-5-5", "medium")
        assert entry["madeBy"] == "model"
    assert answers[-1]["message"]["stop_details"] is None


def test_an_answer_of_a_model_without_effort_levels_names_none(
    parts: Parts, api: ScriptedApi
) -> None:
    parts.choice = replace(parts.choice, model="qwen3-coder")
    answers = [each for each in recorded(chat(parts, "go")) if each["type"] == "assistant"]
    assert {each["requestedModel"] for each in answers} == {"qwen3-coder"}
    assert not any("effort" in each for each in answers)


def test_the_last_usage_is_that_of_an_answer_not_of_an_error(
    parts: Parts, api: ScriptedApi
) -> None:
    answer = answered({"type": "text", "text": "Hi."}, input_tokens=7, output_tokens=2)
    api.replies[:] = [answer, refused(400, "bad")]
    # A chain that the client wrote contains its errors as well.
    chain = recorded(chat(parts, "go", "go on"))
    assert any(each.get("isApiErrorMessage") for each in chain)
    found = last_usage(chain)
    assert found
    assert (found["input_tokens"], found["output_tokens"]) == (7, 2)


def test_a_result_says_who_allowed_the_call(store: Store, project: Path, api: ScriptedApi) -> None:
    async def agree(question: Question) -> PermissionReply:
        return PermissionReply("allow")

    async def refuse(question: Question) -> PermissionReply:
        return PermissionReply("deny", feedback="no")

    call = called(("t1", ECHO.name, {"text": "x"}))
    ruled = make_parts(store, project)
    api.replies[:] = [call, said("Done.")]
    assert decision_of(ruled) == {"decision": "accept", "source": "config", "reasonType": "rule"}
    for reply, expected in (
        (agree, {"decision": "accept", "source": "user_temporary"} | ONCE),
        (refuse, None),
    ):
        asked = make_parts(store, project)
        asked.recorder.path.unlink()
        rules_of(asked).kinds[ECHO.name] = VerdictKind.ASK
        asked.ask = reply
        api.replies[:] = [call, said("Done.")]
        assert decision_of(asked) == expected


@pytest.mark.parametrize("basis", list(Basis))
def test_every_basis_is_an_acceptance(basis: Basis) -> None:
    assert permission_decision(basis)["permissionDecision"]["decision"] == "accept"


def test_a_prompt_that_joins_a_turn_says_so_in_the_queue() -> None:
    assert queue("remove", "hi", "s", "t")["reason"] == "absorbed_mid_turn"
    assert "reason" not in queue("enqueue", "hi", "s", "t")


def test_the_mode_is_recorded_when_it_changes(parts: Parts, api: ScriptedApi) -> None:
    chat(parts, "one", "two")
    parts.rules.mode = ApprovalMode.PLAN
    chat(parts, "three")
    values = [json.loads(line) for line in parts.recorder.path.read_bytes().splitlines()]
    modes = [value["permissionMode"] for value in values if value["type"] == "permission-mode"]
    assert modes == ["default", "plan"]
    assert [value["type"] for value in values][:2] == ["mode", "permission-mode"]


def test_a_session_of_a_program_has_no_mode_lines(parts: Parts, api: ScriptedApi) -> None:
    parts.recorder.facts = replace(parts.recorder.facts, entrypoint="sdk-cli")
    chat(parts, "one")
    assert b'"permission-mode"' not in parts.recorder.path.read_bytes()


def test_a_call_that_a_hook_denies_says_so(store: Store, project: Path, api: ScriptedApi) -> None:
    denial = {"type": "command", "command": "echo no >&2; exit 2"}
    parts = make_parts(store, project, hooks={"PreToolUse": [{"hooks": [denial]}]})
    api.replies[:] = [called(("t1", ECHO.name, {"text": "x"})), said("Done.")]
    assert decision_of(parts) == permission_rejection(is_hooked=True)["permissionDecision"]


def test_a_slash_command_is_shown_and_never_sent(parts: Parts, api: ScriptedApi) -> None:
    chat(parts, "one")
    typed, printed = parts.recorder.local_command("rename", "My title", "the session is called it")
    assert "<command-args>My title</command-args>" in typed["content"]
    assert printed["commandRun"] == {"command": "rename", "args": "My title"}
    events = chat(parts, "two")
    assert "rename" not in json.dumps(api.requests[-1].body["messages"])
    prompt = next(each for each in recorded(events) if each["type"] == "user")
    assert prompt["parentUuid"] == printed["uuid"]
    fields = survey_file(parts.recorder.path).count_fields()
    assert [place for place, is_known in fields if not is_known] == []
    sound_session(parts)


def test_a_call_that_a_rule_denies_says_so(store: Store, project: Path, api: ScriptedApi) -> None:
    parts = make_parts(store, project)
    rules_of(parts).kinds[ECHO.name] = VerdictKind.DENY
    api.replies[:] = [called(("t1", ECHO.name, {"text": "x"})), said("Done.")]
    assert decision_of(parts) == {"decision": "reject", "source": "config"}


def test_the_file_that_cannot_be_written_is_named(parts: Parts) -> None:
    full = OSError(28, "No space left on device", "/home/ada/big")
    assert not_written(parts, full, "So.") == "So.\n/home/ada/big: No space left on device"
    assert not_written(parts, OSError("odd"), "") == f"{parts.recorder.path}: odd"


def test_an_error_names_its_request_if_the_api_did() -> None:
    assert failure("no", "m1", 500, "req_1")["requestId"] == "req_1"
    assert "requestId" not in failure("no", "m1", None, None)


def test_what_a_slash_command_printed_is_not_sent() -> None:
    assert messages_of(local_command("cost", "", "$1"), is_open=True) == []


def test_a_context_has_as_many_tokens_as_its_parts() -> None:
    assert ContextUsage(1, 20, 300, 4_000, 50_000).total == 54_321
