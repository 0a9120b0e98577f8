"""Hooks are real processes here: shell commands, as people write them into their settings."""

import asyncio
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from turnlog.agent.hooks.command_hooks import HookCommand, run_command
from turnlog.agent.hooks.hook_entries import attachment_lines
from turnlog.agent.hooks.hooks import Hooks
from turnlog.agent.hooks.matchers import matches
from turnlog.agent.hooks.outputs import HookOutcome
from turnlog.agent.hooks.payload import SessionFacts
from turnlog.agent.permissions.grants import read_changes
from turnlog.agent.workspace.spilled_results import extract
from turnlog.format.json_values import Fields

BASH: Fields = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "toolu_1"}


def facts(folder: Path) -> SessionFacts:
    transcript = folder / "home" / "projects" / "-p" / "5e551011.jsonl"
    return SessionFacts("5e551011", transcript, folder, folder, prompt_id="p1")


def hooks_of(folder: Path, event: str, *commands: str, **handler: object) -> Hooks:
    handlers = [{"type": "command", "command": each} | handler for each in commands]
    return Hooks({event: [{"hooks": handlers}]}, facts(folder))


def fire(
    folder: Path,
    event: str,
    *commands: str,
    matched: str | None = None,
    fields: Fields | None = None,
    **handler: object,
) -> HookOutcome:
    hooks = hooks_of(folder, event, *commands, **handler)
    return asyncio.run(hooks.fire(event, matched, fields or {}))


def says(**answer: object) -> str:
    return f"echo '{json.dumps(answer)}'"


def specific(event: str, **answer: object) -> str:
    return says(hookSpecificOutput={"hookEventName": event} | answer)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(pids: Iterable[int]) -> None:
    """Whoever is killed is not gone at that very moment."""
    for _ in range(500):
        if not any(map(is_running, pids)):
            return
        time.sleep(0.01)
    raise AssertionError("still running")


def test_a_hook_reads_what_happened(tmp_path: Path) -> None:
    fire(tmp_path, "PreToolUse", "cat > got.json", matched="Bash", fields=BASH)
    assert json.loads((tmp_path / "got.json").read_text()) == {
        "session_id": "5e551011",
        "transcript_path": str(facts(tmp_path).transcript),
        "cwd": str(tmp_path),
        "prompt_id": "p1",
        "permission_mode": "default",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
        "tool_use_id": "toolu_1",
    }


def test_only_some_events_tell_the_permission_mode(tmp_path: Path) -> None:
    fire(tmp_path, "SessionEnd", "cat > got.json", matched="other", fields={"reason": "other"})
    got = json.loads((tmp_path / "got.json").read_text())
    assert got["reason"] == "other"
    assert "permission_mode" not in got


def test_a_hook_sees_the_session_in_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://example.com")
    fire(tmp_path, "Stop", "env > got.txt")
    lines = (tmp_path / "got.txt").read_text().splitlines()
    assert {
        f"CLAUDE_PROJECT_DIR={tmp_path}",
        "CLAUDE_CODE_SESSION_ID=5e551011",
        "CLAUDE_CODE_ENTRYPOINT=cli",
        "CLAUDECODE=1",
    } <= set(lines)
    assert not [line for line in lines if line.startswith(("OTEL_", "CLAUDE_ENV_FILE"))]


def test_a_hook_at_the_start_may_leave_variables_in_a_file(tmp_path: Path) -> None:
    hooks = hooks_of(tmp_path, "SessionStart", 'echo "export A=1" >> "$CLAUDE_ENV_FILE"')
    hooks.facts.env_file = tmp_path / "home" / "session-env" / "5e551011" / "env.sh"
    asyncio.run(hooks.fire("SessionStart", "startup", {"source": "startup"}))
    assert hooks.facts.env_file.read_text() == "export A=1\n"


@pytest.mark.parametrize(
    ("event", "context"),
    [
        ("SessionStart", ["hello"]),
        ("UserPromptSubmit", ["hello"]),
        ("Stop", []),
        ("PreToolUse", []),
    ],
)
def test_plain_text_is_told_to_the_model_at_some_events(
    tmp_path: Path, event: str, context: list[str]
) -> None:
    assert fire(tmp_path, event, "echo hello").context == context


@pytest.mark.parametrize("event", ["PreToolUse", "UserPromptSubmit", "Stop", "PreCompact"])
def test_exit_code_2_blocks_and_says_why(tmp_path: Path, event: str) -> None:
    outcome = fire(tmp_path, event, "echo not now >&2; exit 2")
    assert (outcome.block, outcome.reason, outcome.errors) == (True, "not now", [])


@pytest.mark.parametrize("event", ["SessionStart", "SessionEnd", "SubagentStart", "PostCompact"])
def test_exit_code_2_cannot_block_what_has_happened(tmp_path: Path, event: str) -> None:
    outcome = fire(tmp_path, event, "echo not now >&2; exit 2")
    assert (outcome.block, outcome.errors) == (False, [f"{event} hook error: not now"])


def test_exit_code_2_says_nothing_of_a_permission(tmp_path: Path) -> None:
    outcome = fire(tmp_path, "PermissionRequest", "echo no >&2; exit 2")
    assert (outcome.block, outcome.decision, outcome.errors) == (False, None, [])


def test_exit_code_2_outweighs_an_answer_that_allows(tmp_path: Path) -> None:
    allow = specific("PreToolUse", permissionDecision="allow")
    outcome = fire(tmp_path, "PreToolUse", f"{allow}; echo no >&2; exit 2")
    assert (outcome.block, outcome.decision, outcome.reason) == (True, "deny", "no")


def test_another_exit_code_is_an_error_that_blocks_nothing(tmp_path: Path) -> None:
    outcome = fire(tmp_path, "PreToolUse", "echo oops >&2; echo more >&2; exit 1", matched="Bash")
    assert not outcome.block
    assert outcome.errors == ["PreToolUse:Bash hook error (exit code 1): oops"]


def test_an_answer_counts_whatever_the_other_exit_code(tmp_path: Path) -> None:
    outcome = fire(tmp_path, "Stop", says(decision="block", reason="tests fail") + "; exit 1")
    assert (outcome.block, outcome.reason, outcome.errors) == (True, "tests fail", [])


def test_a_command_that_is_not_there_is_an_error_that_blocks_nothing(tmp_path: Path) -> None:
    shell = fire(tmp_path, "PreToolUse", "/nowhere/hook.sh")
    plain = fire(tmp_path, "PreToolUse", "/nowhere/hook", args=["a"])
    assert not shell.block
    assert "exit code 127" in shell.errors[0]
    assert "No such file" in plain.errors[0]


def test_an_answer_that_does_not_fit_is_told(tmp_path: Path) -> None:
    outcome = fire(tmp_path, "Stop", says(decision="maybe"))
    assert not outcome.block
    assert "its output is invalid" in outcome.errors[0]


def test_what_begins_like_json_and_is_none_is_plain_text(tmp_path: Path) -> None:
    assert fire(tmp_path, "SessionStart", "echo '{not json'").context == ["{not json"]


@pytest.mark.parametrize("number", ["1", "1e999"])
def test_half_a_character_in_its_reason_does_not_lift_a_denial(tmp_path: Path, number: str) -> None:
    # JavaScript: JSON.stringify({reason: command.slice(0, 100)}) with an emoji across the limit.
    text = f'{{"decision": "block", "reason": "no: \\ud83d", "n": {number}}}'
    (tmp_path / "answer").write_text(text)
    outcome = fire(tmp_path, "PreToolUse", "cat answer", matched="Bash", fields=BASH)
    assert (outcome.decision, outcome.reason) == ("deny", "no: ?")


def test_a_hook_reads_half_a_character(tmp_path: Path) -> None:
    fields: Fields = {"tool_name": "mcp__a__b", "tool_input": {"text": "\ud83d"}}
    outcome = fire(tmp_path, "PreToolUse", "cat > got.json; exit 2", matched="b", fields=fields)
    assert outcome.decision == "deny"
    assert json.loads((tmp_path / "got.json").read_text())["tool_input"] == fields["tool_input"]


def test_an_answer_that_is_nested_too_deeply_is_told(tmp_path: Path) -> None:
    (tmp_path / "answer").write_text('{"a": ' + "[" * 100_000)
    outcome = fire(tmp_path, "Stop", "cat answer")
    assert "nested too deeply" in outcome.errors[0]


DENIAL = '{"hookSpecificOutput": {"permissionDecision": "deny"}'


@pytest.mark.parametrize(
    "printed",
    [
        f'{DENIAL}, "systemMessage": "{"x" * (1 << 20)}"}}',
        " " * (1 << 20) + f"{DENIAL}}}",
        f'{DENIAL}, "input": {"[" * 100_000}',
        f'{DENIAL}, "input": {"7" * 5_000}}}',
        f'{DENIAL}, "input": NaN}}',
        f"\ufeff{DENIAL}}}",
        f"{DENIAL}}}\n{DENIAL}}}",
        # What a shell script prints that puts the command into a string without escaping it.
        '{"decision": "block", "reason": "not allowed: echo "x""}',
        '{"decision": "block", "reason": "not allowed: echo\nx"}',
        # What a script prints that takes an argument of an MCP tool for a text.
        '{"decision": "block", "reason": ["rm", "-rf"]}',
        '{"decision": "deny"}',
        '{"continue": "false"}',
    ],
)
def test_no_denial_is_lost_because_it_cannot_be_read(tmp_path: Path, printed: str) -> None:
    (tmp_path / "answer").write_text(printed)
    outcome = fire(tmp_path, "PreToolUse", "cat answer", matched="Bash", fields=BASH)
    assert (outcome.block, outcome.decision) == (True, "deny")
    (line,) = attachment_lines(outcome, "id")
    assert line["attachment"]["type"] == "hook_blocking_error"


def test_a_hook_that_prints_too_much_says_why_it_blocks(tmp_path: Path) -> None:
    (tmp_path / "answer").write_text('{"decision": "block", "reason": "' + "x" * (1 << 20))
    for event in ("PreToolUse", "UserPromptSubmit", "PermissionRequest", "TaskCreated"):
        outcome = fire(tmp_path, event, "cat answer")
        assert outcome.block
        assert "more than 1 MiB" in outcome.reason
    # At its end, a turn would go on for ever.
    assert not fire(tmp_path, "Stop", "cat answer").block


@pytest.mark.parametrize("printed", ["x" * (1 << 21), '{"note": "x', "{not json"])
def test_other_output_that_cannot_be_read_blocks_nothing(tmp_path: Path, printed: str) -> None:
    (tmp_path / "answer").write_text(printed)
    assert not fire(tmp_path, "PreToolUse", "cat answer").block


def test_a_call_is_denied_with_a_reason(tmp_path: Path) -> None:
    answer = specific("PreToolUse", permissionDecision="deny", permissionDecisionReason="no db")
    outcome = fire(tmp_path, "PreToolUse", answer)
    assert (outcome.block, outcome.decision, outcome.reason) == (True, "deny", "no db")


@pytest.mark.parametrize(("old", "new"), [("approve", "allow"), ("block", "deny")])
def test_older_words_for_a_call_still_count(tmp_path: Path, old: str, new: str) -> None:
    assert fire(tmp_path, "PreToolUse", says(decision=old, reason="r")).decision == new


def test_a_call_is_given_another_input(tmp_path: Path) -> None:
    answer = specific("PreToolUse", permissionDecision="allow", updatedInput={"command": "ls -a"})
    outcome = fire(tmp_path, "PreToolUse", answer)
    assert (outcome.decision, outcome.updated_input) == ("allow", {"command": "ls -a"})


def test_the_strictest_decision_holds(tmp_path: Path) -> None:
    allow = specific("PreToolUse", permissionDecision="allow", permissionDecisionReason="fine")
    ask = specific("PreToolUse", permissionDecision="ask", permissionDecisionReason="sure?")
    deny = specific("PreToolUse", permissionDecision="deny", permissionDecisionReason="never")
    asked = fire(tmp_path, "PreToolUse", allow, ask)
    denied = fire(tmp_path, "PreToolUse", deny, ask, allow)
    assert (asked.decision, asked.reason) == ("ask", "sure?")
    assert (denied.decision, denied.reason) == ("deny", "never")


def test_a_permission_is_granted_or_refused_for_the_user(tmp_path: Path) -> None:
    allow = {"behavior": "allow", "updatedInput": {"command": "ls"}}
    deny = {"behavior": "deny", "message": "no", "interrupt": True}
    granted = fire(tmp_path, "PermissionRequest", specific("PermissionRequest", decision=allow))
    refused = fire(tmp_path, "PermissionRequest", specific("PermissionRequest", decision=deny))
    assert (granted.decision, granted.updated_input) == ("allow", {"command": "ls"})
    assert (refused.decision, refused.reason, refused.stop) == ("deny", "no", True)


def test_a_permission_may_come_with_rules_and_a_mode(tmp_path: Path) -> None:
    def add(place: str, content: str, behavior: str = "allow") -> Fields:
        rule = {"toolName": "Bash", "ruleContent": content}
        about = {"behavior": behavior, "destination": place}
        return {"type": "addRules", "rules": [rule]} | about

    updates = [
        add("localSettings", "npm test"),
        add("session", "ls"),
        add("userSettings", "rm"),
        add("session", "curl", "deny"),
        {"type": "setMode", "mode": "acceptEdits", "destination": "session"},
    ]
    decision = {"behavior": "allow", "updatedPermissions": updates}
    outcome = fire(tmp_path, "PermissionRequest", specific("PermissionRequest", decision=decision))
    changes = read_changes(outcome.permission_updates)
    assert [(change.destination, change.behavior, change.rules) for change in changes[:4]] == [
        ("localSettings", "allow", ("Bash(npm test)",)),
        ("session", "allow", ("Bash(ls)",)),
        ("userSettings", "allow", ("Bash(rm)",)),
        ("session", "deny", ("Bash(curl)",)),
    ]
    assert changes[4].mode == "acceptEdits"


def test_everything_can_be_stopped_with_a_reason_for_the_user(tmp_path: Path) -> None:
    answer = {"continue": False, "stopReason": "build failed", "systemMessage": "look"}
    outcome = fire(tmp_path, "PostToolUse", says(**answer))
    assert (outcome.stop, outcome.stop_reason) == (True, "build failed")
    assert outcome.system_message == "look"
    muted = fire(tmp_path, "PreCompact", says(**answer))
    assert (muted.stop, muted.system_message) == (False, None)


@pytest.mark.parametrize(
    ("sequence", "is_sent"),
    [
        ("\x07", True),
        ("\x1b]777;notify;shop;done ✓\x07", True),
        ("\x1b]0;title\x1b\\\x1b]9;4;1;50\x07", True),
        ("\x1b]52;c;aGk=\x07", False),
        ("\x1b[2J", False),
        ("\x1b]0;a\x1b[2J\x07", False),
        ("\x07hello", False),
    ],
)
def test_the_terminal_is_sent_only_what_cannot_harm_it(
    tmp_path: Path, sequence: str, is_sent: bool
) -> None:
    (tmp_path / "answer").write_text(json.dumps({"terminalSequence": sequence}))
    hooks = hooks_of(tmp_path, "Notification", "cat answer")
    sent: list[str] = []
    hooks.ring = sent.append
    asyncio.run(hooks.fire("Notification", "permission_prompt", {}))
    assert sent == ([sequence] if is_sent else [])


def test_context_of_all_hooks_is_told(tmp_path: Path) -> None:
    one = specific("PostToolUse", additionalContext="generated file")
    two = specific("PostToolUse", additionalContext="branch main")
    assert fire(tmp_path, "PostToolUse", one, two).context == ["generated file", "branch main"]


def test_an_answer_about_another_event_does_not_count(tmp_path: Path) -> None:
    assert fire(tmp_path, "PostToolUse", specific("Stop", additionalContext="x")).context == []


def test_long_context_is_kept_in_a_file(tmp_path: Path) -> None:
    outcome = fire(tmp_path, "SessionStart", "yes long | head -n 4000")
    (kept,) = facts(tmp_path).transcript.with_suffix("").glob("tool-results/*.txt")
    assert kept.read_text() == "\n".join(["long"] * 4000)
    assert len(outcome.context[0]) < 5000
    assert str(kept) in outcome.context[0]


def test_hooks_run_side_by_side(tmp_path: Path) -> None:
    meet = "touch {0}; until [ -e {1} ]; do sleep 0.01; done"
    outcome = fire(tmp_path, "Stop", meet.format("a", "b"), meet.format("b", "a"), timeout=20)
    assert [run.exit_code for run in outcome.runs] == [0, 0]


def test_a_hook_named_twice_runs_once(tmp_path: Path) -> None:
    handler = {"type": "command", "command": "echo x >> log"}
    groups = {"Stop": [{"hooks": [handler]}, {"matcher": "*", "hooks": [handler]}]}
    asyncio.run(Hooks(groups, facts(tmp_path)).fire("Stop", None, {}))
    assert (tmp_path / "log").read_text() == "x\n"


def test_a_late_hook_is_ended_with_its_children_and_counts_for_nothing(tmp_path: Path) -> None:
    script = "trap '' TERM; sleep 600 & echo $! $$ > pids; echo told; wait; sleep 600"
    outcome = fire(tmp_path, "SessionStart", script, timeout=0.5)
    wait_until_gone([int(pid) for pid in (tmp_path / "pids").read_text().split()])
    assert outcome.context == []
    assert outcome.errors[0].startswith("SessionStart hook timed out after 0.5 s")
    assert outcome.runs[0].timeout == 0.5


def test_hooks_at_the_end_of_a_session_have_little_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS", "300")
    outcome = fire(tmp_path, "SessionEnd", "sleep 600", matched="other")
    assert outcome.runs[0].timeout == 0.3


@pytest.mark.parametrize(
    ("event", "asked", "given"),
    [
        ("PreToolUse", None, 600.0),
        ("UserPromptSubmit", None, 30.0),
        ("UserPromptSubmit", 90, 90.0),
        ("SessionEnd", None, 1.5),
        ("SessionEnd", 5, 5.0),
        ("SessionEnd", 900, 60.0),
        ("Stop", -1, 600.0),
    ],
)
def test_a_hook_gets_the_time_it_asks_for_or_that_of_its_event(
    tmp_path: Path, event: str, asked: float | None, given: float
) -> None:
    hooks = hooks_of(tmp_path, event, "true")
    assert hooks._timeout(event, {} if asked is None else {"timeout": asked}) == given


def test_a_cancelled_hook_is_ended_with_its_children(tmp_path: Path) -> None:
    async def cancel_midway() -> None:
        script = "sleep 600 & echo $! $$ > new; mv new pids; wait"
        hooks = hooks_of(tmp_path, "PreToolUse", script)
        task = asyncio.create_task(hooks.fire("PreToolUse", "Bash", BASH))
        while not (tmp_path / "pids").exists():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_midway())
    wait_until_gone([int(pid) for pid in (tmp_path / "pids").read_text().split()])


def test_what_a_hook_leaves_running_holds_nothing_up(tmp_path: Path) -> None:
    outcome = fire(tmp_path, "UserPromptSubmit", "sleep 600 & echo $! > pid; echo done")
    pid = int((tmp_path / "pid").read_text())
    assert outcome.context == ["done"]
    assert is_running(pid)
    os.kill(pid, 9)


def test_a_hook_that_does_not_read_holds_nothing_up(tmp_path: Path) -> None:
    fields: Fields = {"prompt": "x" * 1_000_000}
    assert fire(tmp_path, "UserPromptSubmit", "true", fields=fields).runs[0].exit_code == 0


def test_a_hook_in_the_background_is_heard_at_the_next_prompt(tmp_path: Path) -> None:
    async def two_events() -> tuple[HookOutcome, HookOutcome]:
        answer = specific("PostToolUse", additionalContext="tests pass")
        hooks = hooks_of(tmp_path, "PostToolUse", answer, **{"async": True})
        first = await hooks.fire("PostToolUse", "Write", {})
        await asyncio.gather(*hooks._background)
        return first, await hooks.fire("UserPromptSubmit", None, {"prompt": "go on"})

    first, second = asyncio.run(two_events())
    assert (first.context, second.context) == ([], ["tests pass"])


def test_a_hook_in_the_background_is_heard_after_the_next_calls(tmp_path: Path) -> None:
    async def two_events() -> tuple[HookOutcome, HookOutcome]:
        answer = specific("PostToolUse", additionalContext="tests pass")
        hooks = hooks_of(tmp_path, "PostToolUse", answer, **{"async": True})
        await hooks.fire("PostToolUse", "Write", {})
        await asyncio.gather(*hooks._background)
        batch = await hooks.fire("PostToolBatch", None, {"tool_calls": []})
        return batch, await hooks.fire("UserPromptSubmit", None, {"prompt": "go on"})

    batch, prompt = asyncio.run(two_events())
    assert (batch.context, prompt.context) == (["tests pass"], [])


@pytest.mark.parametrize(("code", "expected"), [(2, ["broken"]), (1, []), (0, [])])
def test_a_hook_in_the_background_may_wake_the_model(
    tmp_path: Path, code: int, expected: list[str]
) -> None:
    woken: list[str] = []

    async def run() -> HookOutcome:
        hooks = hooks_of(tmp_path, "Stop", f"echo broken >&2; exit {code}", asyncRewake=True)
        hooks.wake = lambda: woken.extend(hooks.news)
        await hooks.fire("Stop", None, {})
        await asyncio.gather(*hooks._background)
        return await hooks.fire("UserPromptSubmit", None, {"prompt": "go on"})

    told = asyncio.run(run()).context
    assert [text.rpartition(": ")[2] for text in woken] == expected
    assert told == woken


def test_hooks_do_not_wake_the_model_for_ever(tmp_path: Path) -> None:
    woken: list[int] = []

    async def run() -> HookOutcome:
        hooks = hooks_of(tmp_path, "Stop", "echo broken >&2; exit 2", asyncRewake=True)
        hooks.wake = lambda: woken.append(len(hooks.news))
        for _ in range(10):
            await hooks.fire("Stop", None, {})
            await asyncio.gather(*hooks._background)
        return await hooks.fire("UserPromptSubmit", None, {"prompt": "go on"})

    told = asyncio.run(run()).context
    assert (len(woken), len(told)) == (8, 10)


def test_where_nothing_can_be_woken_such_a_hook_is_waited_for(tmp_path: Path) -> None:
    hooks = hooks_of(tmp_path, "Stop", "echo broken >&2; exit 2", asyncRewake=True)
    hooks.facts.entrypoint = "sdk-cli"
    assert asyncio.run(hooks.fire("Stop", None, {})).block


def test_hooks_in_the_background_end_with_the_session(tmp_path: Path) -> None:
    async def close_midway() -> None:
        hooks = hooks_of(
            tmp_path, "Stop", "echo $$ > new; mv new pid; sleep 600", **{"async": True}
        )
        await hooks.fire("Stop", None, {})
        while not (tmp_path / "pid").exists():
            await asyncio.sleep(0.01)
        await hooks.close()

    asyncio.run(close_midway())
    wait_until_gone([int((tmp_path / "pid").read_text())])


def test_a_hook_may_say_what_it_does_while_it_does_it(tmp_path: Path) -> None:
    shown: list[str] = []
    hooks = hooks_of(tmp_path, "Stop", "true", statusMessage="Linting")
    hooks.show = shown.append
    asyncio.run(hooks.fire("Stop", None, {}))
    assert shown == ["Linting"]


def test_a_shell_that_is_not_there_is_an_error_that_blocks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    outcome = fire(tmp_path, "Stop", "Write-Host hi", shell="powershell")
    assert not outcome.block
    assert "pwsh" in outcome.errors[0]


class Broken:
    """A conversation that has nothing to lend."""

    effort = None

    async def ask(self, question: str, model: str, is_about_conversation: bool) -> str:
        raise RuntimeError("lost")

    async def examine(self, question: str, model: str) -> str:
        raise RuntimeError("lost")

    async def call(self, server: str, tool: str, given: Fields) -> str:
        raise RuntimeError("lost")


@pytest.mark.parametrize("kind", ["prompt", "agent", "mcp_tool"])
def test_whatever_becomes_of_a_hook_the_work_goes_on(tmp_path: Path, kind: str) -> None:
    hooks = hooks_of(tmp_path, "PreToolUse", "", type=kind)
    hooks.resources = Broken()
    outcome = asyncio.run(hooks.fire("PreToolUse", "Bash", BASH))
    assert (outcome.block, outcome.errors) == (
        False,
        ["PreToolUse:Bash hook error: RuntimeError: lost"],
    )


class Talkative(Broken):
    """Servers whose answers are too long for a model."""

    async def call(self, server: str, tool: str, given: Fields) -> str:
        return extract(Path("b1.txt"), 60_000, '{"decision": "block", "reason": "xx', 'xx"}')


def test_an_answer_of_a_server_that_is_too_long_blocks(tmp_path: Path) -> None:
    hooks = hooks_of(tmp_path, "PreToolUse", "", type="mcp_tool")
    hooks.resources = Talkative()
    outcome = asyncio.run(hooks.fire("PreToolUse", "Bash", BASH))
    assert (outcome.block, outcome.decision) == (True, "deny")


def test_arguments_are_passed_without_a_shell(tmp_path: Path) -> None:
    outcome = fire(
        tmp_path, "SessionStart", "printf", args=["%s", "${CLAUDE_PROJECT_DIR}/it's $HOME"]
    )
    assert outcome.context == [f"{tmp_path}/it's $HOME"]


def test_a_rule_limits_a_hook_to_some_calls(tmp_path: Path) -> None:
    def applies(rule: str, call: Fields) -> bool:
        return rule == "Bash(ls *)" and call["tool_input"]["command"].startswith("ls")

    handler = {"type": "command", "command": "exit 2", "if": "Bash(ls *)"}
    hooks = Hooks({"PreToolUse": [{"hooks": [handler]}]}, facts(tmp_path), applies)
    other = BASH | {"tool_input": {"command": "pwd"}}
    assert asyncio.run(hooks.fire("PreToolUse", "Bash", BASH)).block
    assert not asyncio.run(hooks.fire("PreToolUse", "Bash", other)).block
    elsewhere = Hooks({"Stop": [{"hooks": [handler]}]}, facts(tmp_path), applies)
    assert not asyncio.run(elsewhere.fire("Stop", None, {})).block


@pytest.mark.parametrize(
    ("event", "kind"), [("SessionStart", "http"), ("PreCompact", "prompt"), ("Stop", "telegram")]
)
def test_a_hook_that_cannot_be_run_is_told_not_left_out_in_silence(
    tmp_path: Path, event: str, kind: str
) -> None:
    outcome = fire(tmp_path, event, "", type=kind)
    assert outcome.errors == [
        f"{event} hook error: hooks of type {kind} are not supported at {event}"
    ]


@pytest.mark.parametrize(
    ("matcher", "value", "expected"),
    [
        (None, "Bash", True),
        ("", "Bash", True),
        ("*", "Bash", True),
        ("Bash", "Bash", True),
        ("Bash", "BashOutput", False),
        ("Edit | Write", "Write", True),
        ("Edit, Write", "Edit", True),
        ("code-reviewer", "senior-code-reviewer", False),
        ("Edit.*", "NotebookEdit", True),
        ("^Edit$", "NotebookEdit", False),
        ("mcp__memory__.*", "mcp__memory__add", True),
        ("mcp__memory", "mcp__memory__add", False),
        ("(", "Bash", False),
        ("Bash", None, True),
    ],
)
def test_matchers_are_names_or_patterns(
    matcher: str | None, value: str | None, expected: bool
) -> None:
    assert matches(matcher, value) is expected


def test_a_hook_refuses_calls_also_in_a_directory_that_cannot_be_entered(tmp_path: Path) -> None:
    # As after `chmod 0 .`, or if a command removes it at that moment.
    command = HookCommand(
        argv=("/bin/sh", "-c", "echo no >&2; exit 2"),
        shown="no",
        cwd=tmp_path / "locked",
        environment=dict(os.environ),
        stdin=b"{}",
        timeout=60,
        project=tmp_path,
    )
    run = asyncio.run(run_command("PreToolUse", "PreToolUse:Bash", command))
    assert (run.exit_code, run.stderr) == (2, "no\n")
