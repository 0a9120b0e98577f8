"""Entries of hooks have only fields that turnlog's own views know."""

import asyncio
import json
from pathlib import Path

import pytest

from support.build import assistant, encode, session, text, user
from turnlog.agent.hooks.hook_entries import (
    attachment_lines,
    feedback_line,
    progress_line,
    reminder,
    stop_summary_line,
)
from turnlog.agent.hooks.hooks import Hooks
from turnlog.agent.hooks.outputs import HookOutcome
from turnlog.agent.hooks.payload import SessionFacts
from turnlog.conversation.session import open_session
from turnlog.format.json_values import Fields
from turnlog.format.survey import is_known_kind, survey_file


def outcome_of(folder: Path, event: str, *commands: str, timeout: float = 60) -> HookOutcome:
    handlers = [{"command": each, "timeout": timeout} for each in commands]
    facts = SessionFacts("s", folder / "s.jsonl", folder, folder)
    hooks = Hooks({event: [{"hooks": handlers}]}, facts)
    return asyncio.run(hooks.fire(event, None, {}))


def kinds_of(lines: list[Fields]) -> list[str]:
    return [line["attachment"]["type"] for line in lines]


def test_a_silent_hook_leaves_no_attachment(tmp_path: Path) -> None:
    assert attachment_lines(outcome_of(tmp_path, "PostToolUse", "true"), "toolu_1") == []


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("echo hi", "hook_success"),
        ("exit 2", "hook_blocking_error"),
        ("exit 1", "hook_non_blocking_error"),
        ("sleep 60", "hook_cancelled"),
    ],
)
def test_what_became_of_a_hook_is_told_by_its_attachment(
    tmp_path: Path, command: str, kind: str
) -> None:
    outcome = outcome_of(tmp_path, "PreToolUse", command, timeout=0.5)
    (line,) = attachment_lines(outcome, "toolu_1")
    assert line["attachment"]["type"] == kind
    assert line["attachment"]["hookEvent"] == "PreToolUse"


def test_what_hooks_tell_the_model_and_the_user_are_attachments(tmp_path: Path) -> None:
    answer = {
        "systemMessage": "look",
        "hookSpecificOutput": {"hookEventName": "Stop", "additionalContext": "run the tests"},
    }
    lines = attachment_lines(outcome_of(tmp_path, "Stop", f"echo '{json.dumps(answer)}'"), "id")
    assert kinds_of(lines) == ["hook_success", "hook_additional_context", "hook_system_message"]
    assert lines[1]["rendered"] == [{"content": reminder(["run the tests"], "Stop")}]


def test_a_blocked_stop_is_recorded_as_the_client_does(tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path, "Stop", "echo keep going >&2; exit 2")
    assert feedback_line(outcome)["message"]["content"] == "Stop hook feedback:\nkeep going"
    assert stop_summary_line(outcome, "id")["hookCount"] == 1


def test_a_session_with_lines_of_hooks_holds_nothing_unknown(tmp_path: Path) -> None:
    blocked = outcome_of(tmp_path, "Stop", "echo no >&2; exit 2", "echo hi")
    lines = [
        progress_line(blocked.runs[0], "toolu_1"),
        *attachment_lines(blocked, "id"),
        feedback_line(blocked),
        stop_summary_line(blocked, "id"),
    ]
    raw = session(user("hi"), assistant(text("done")), *map(encode, lines))
    path = tmp_path / "5e551011-0000-4000-8000-000000000000.jsonl"
    path.write_bytes(raw)
    survey = survey_file(path)
    assert [kind for kind in survey.kinds if not is_known_kind(kind)] == []
    assert [place for place, is_known in survey.count_fields() if not is_known] == []
    assert not survey.misfits
    told = open_session(path).context()[-2]["content"][0]["text"]
    assert told == "Stop hook feedback:\nno"
