"""Fields of 2.1.325 that say how an answer came about and why a call could run."""

from pathlib import Path

import pytest

from support.chatting import ECHO, chat, make_parts, recorded, rules_of, sound_session
from support.scripted_api import ScriptedApi, called, said
from turnlog.agent.loop.conversation import Parts
from turnlog.agent.permissions.policy import PermissionReply, Question, VerdictKind
from turnlog.agent.session.entry_builders import permission_decision, queue
from turnlog.agent.workspace.access import Basis
from turnlog.format.json_values import Fields
from turnlog.store.paths import Store


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
        (agree, {"decision": "accept", "source": "user_temporary", "grantScope": "once"}),
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
