"""The JSON that commands print: a contract."""

from typing import Any

import msgspec
import pytest

from conversation.conftest import Opened
from support.build import Fields, assistant, call, compaction, nth, result, system, text, user
from turnlog.render.json_views import call_view, turn_view
from turnlog.secrets import mask_value

SECRET = "password = 'tr0ub4dor&3'"


def stopped(reason: str) -> Fields:
    return {"stop_reason": reason}


def message_view(
    name: str, reason: str | None, line: int, model: str = "claude-opus-5-5"
) -> Fields:
    is_synthetic = model == "<synthetic>"
    about = {"id": name, "model": model, "stop_reason": reason, "synthetic": is_synthetic}
    return about | {"lines": [line], "uuids": [nth(line)]}


def test_a_turn_has_exactly_these_fields(opened: Opened) -> None:
    used = {"usage": {"input_tokens": 1000, "output_tokens": 100, "cache_read_input_tokens": 10}}
    edit = {"file_path": "/x.py", "old_string": "a", "new_string": "b"}
    whole = opened(
        user(
            [text("<ide_opened_file>/x.py</ide_opened_file>"), text("fix it")],
            permission_mode="plan",
        ),
        assistant(call("Edit", edit, "A"), message_id="m1", message=used | stopped("tool_use")),
        result("A", "done", tool_use_result={"filePath": "/x.py"}),
        assistant(
            call("Agent", {"prompt": "look"}, "B"),
            message_id="m2",
            message=used | stopped("max_tokens"),
        ),
        result("B", "seen", tool_use_result={"agentId": "a1", "totalDurationMs": 5}),
        assistant(text("No response"), message={"model": "<synthetic>"}),
        system("turn_duration", duration_ms=2500),
        *compaction("So far", logical_parent_uuid=nth(7)),
    )
    assert msgspec.to_builtins(turn_view(whole, whole.turns[0])) == {
        "n": 1,
        "line": 1,
        "prompt_uuid": nth(1),
        "prompt": "fix it",
        "label": "fix it",
        "kind": "ide_opened_file",
        "permission_mode": "plan",
        "ide_context": [{"kind": "ide_opened_file", "text": "/x.py"}],
        "round": "new_session",
        "started": "2026-11-15T06:00:01.000Z",
        "ended": "2026-11-15T06:00:05.000Z",
        "working_ms": 2500,
        "elapsed_ms": 4000,
        "complete": True,
        "models": ["claude-opus-5-5"],
        "message_ids": ["m1", "m2"],
        "messages": [
            message_view("m1", "tool_use", 2),
            message_view("m2", "max_tokens", 4),
            message_view("msg_6", None, 6, model="<synthetic>"),
        ],
        "compactions": [
            {
                "line": 8,
                "uuid": nth(8),
                "time": "2026-11-15T06:00:08.000Z",
                "trigger": "manual",
                "pre_tokens": 1000,
            }
        ],
        "calls": [
            {
                "id": "A",
                "name": "Edit",
                "input": edit,
                "ok": True,
                "result": "done",
                "duration_ms": 1000,
                "agent_id": None,
                "line": 2,
                "uuid": nth(2),
                "result_line": 3,
                "result_uuid": nth(3),
                "tool_use_result": {"filePath": "/x.py"},
            },
            {
                "id": "B",
                "name": "Agent",
                "input": {"prompt": "look"},
                "ok": True,
                "result": "seen",
                "duration_ms": 5,
                "agent_id": "a1",
                "line": 4,
                "uuid": nth(4),
                "result_line": 5,
                "result_uuid": nth(5),
                "tool_use_result": {"agentId": "a1", "totalDurationMs": 5},
            },
        ],
        "usage": {
            "input_tokens": 2000,
            "output_tokens": 200,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 20,
        },
        "cost_usd": pytest.approx(0.012004),
        "unpriced": [],
        "output_understated": False,
        "files": ["/x.py"],
        "subagents": ["a1"],
    }


def test_a_turn_without_a_prompt_has_none(opened: Opened) -> None:
    whole = opened(assistant(text("a1"), timestamp=None))
    view = turn_view(whole, whole.turns[0])
    assert (view.prompt_uuid, view.prompt, view.label, view.kind) == (None, "", "", None)
    assert (view.started, view.ended) == (None, None)


def test_a_command_has_its_text_and_its_label(opened: Opened) -> None:
    command = "<command-name>/review</command-name><command-args>it</command-args>"
    whole = opened(user(command), assistant(text("a")))
    view = turn_view(whole, whole.turns[0])
    assert (view.prompt, view.label, view.kind) == (command, "/review it", "command")


def test_a_model_without_a_price_is_named(opened: Opened) -> None:
    whole = opened(user("q"), assistant(message={"model": "sage-9"}), assistant(text("x")))
    view = turn_view(whole, whole.turns[0])
    assert (view.cost_usd, view.unpriced) == (None, ["sage-9"])


def test_an_old_client_is_said_to_understate_its_output(opened: Opened) -> None:
    whole = opened(user("q"), assistant(text("x"), version="2.1.29"))
    assert turn_view(whole, whole.turns[0]).output_understated


@pytest.mark.parametrize(
    ("answers", "ok"),
    [
        ([], None),
        ([result("A")], True),
        ([result("A", "no", is_error=True)], False),
        # A string says what went wrong; only `is_error` says that the call failed.
        ([result("A", "Error: no", tool_use_result="Error: no")], True),
    ],
)
def test_a_call_is_ok_or_not_or_not_known(
    opened: Opened, answers: list[bytes], ok: bool | None
) -> None:
    whole = opened(assistant(call("Edit", {"file_path": "/x"}, "A")), *answers)
    assert call_view(whole, whole.calls[0]).ok is ok
    assert turn_view(whole, whole.turns[0]).files == (["/x"] if ok else [])


def test_secrets_are_masked_unless_they_are_wanted(opened: Opened) -> None:
    given = {"env": [{"text": SECRET}], "n": 5}
    whole = opened(user(SECRET), assistant(call("Bash", given, "A")), result("A", SECRET))
    masked = msgspec.json.encode(turn_view(whole, whole.turns[0]))
    shown = turn_view(whole, whole.turns[0], reveal=True)
    assert b"tr0ub4dor" not in masked
    assert (shown.prompt, shown.calls[0].result, shown.calls[0].input) == (SECRET, SECRET, given)


def test_masking_leaves_other_values_as_they_are() -> None:
    value: dict[str, Any] = {"a": [1, None, True, 2.5, "text"], "b": {}}
    assert mask_value(value) == value
