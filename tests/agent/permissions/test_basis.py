"""The basis of an allowed call, which decides how confined it runs."""

import asyncio
import json
import shlex
from pathlib import Path

import pytest

from support.chatting import make_parts, rules_of
from turnlog.agent.permissions import ApprovalMode, Basis, Policy, VerdictKind, decide, parse_rule
from turnlog.agent.permissions.gate import admit
from turnlog.agent.permissions.policy import PermissionReply, Question
from turnlog.agent.terminal.permission_prompt import long_reasons
from turnlog.agent.tools.toolbox import TOOLS
from turnlog.agent.workspace.access import Access, Runs, Uses, Writes
from turnlog.store.paths import Store

EDIT, DEFAULT, BYPASS = ApprovalMode.ACCEPT_EDITS, ApprovalMode.DEFAULT, ApprovalMode.BYPASS


def basis_of(
    folder: Path, access: Access, mode: ApprovalMode, *allow: str, tool: str = "Bash"
) -> Basis:
    rules = tuple(parse_rule(text, folder, "a test") for text in allow)
    verdict = decide(tool, [access], Policy((), (), rules, mode, folder, (folder,)))
    assert verdict.kind is VerdictKind.ALLOW
    return verdict.basis


@pytest.mark.parametrize(
    ("command", "mode", "allow", "basis"),
    [
        ("ls", DEFAULT, (), Basis.UNDERSTOOD),
        ("ls", EDIT, (), Basis.UNDERSTOOD),
        ("touch x", EDIT, (), Basis.EDITS),
        ("echo x > y", EDIT, (), Basis.EDITS),
        ("ls && touch x", EDIT, (), Basis.EDITS),
        ("npm test", DEFAULT, ("Bash(npm test:*)",), Basis.RULE),
        ("npm test", DEFAULT, ("Bash",), Basis.RULE),
        ("ls && npm test", DEFAULT, ("Bash(npm test:*)",), Basis.RULE),
        ("npm test > x", EDIT, ("Bash(npm test:*)",), Basis.RULE),
        ("echo x > src/y", DEFAULT, ("Edit(src/**)",), Basis.RULE),
        ("cat /etc/hostname", DEFAULT, ("Read(//etc/**)",), Basis.UNDERSTOOD),
        # A rule counts only where it is needed: this stays as confined as without it.
        ("git status", DEFAULT, ("Bash(git:*)",), Basis.UNDERSTOOD),
        ("ls", DEFAULT, ("Bash",), Basis.UNDERSTOOD),
        ("ls", BYPASS, (), Basis.BYPASS),
        ("npm test", BYPASS, (), Basis.BYPASS),
    ],
)
def test_a_verdict_says_what_a_command_rests_on(
    tmp_path: Path, command: str, mode: ApprovalMode, allow: tuple[str, ...], basis: Basis
) -> None:
    assert basis_of(tmp_path, Runs(command), mode, *allow) is basis


def test_a_verdict_says_what_other_calls_rest_on(tmp_path: Path) -> None:
    file = Writes(tmp_path / "x")
    assert basis_of(tmp_path, file, EDIT, tool="Write") is Basis.EDITS
    assert basis_of(tmp_path, file, DEFAULT, "Write", tool="Write") is Basis.RULE
    assert basis_of(tmp_path, Uses(), DEFAULT, "mcp__a", tool="mcp__a__b") is Basis.RULE


async def consent(question: Question) -> PermissionReply:
    return PermissionReply("allow")


def admitted(store: Store, folder: Path, kind: VerdictKind, **decisions: str) -> Basis:
    """Return the basis of a command that passes the gate, with a hook for each decision."""
    hooks = {event: [{"hooks": [answering(event, text)]}] for event, text in decisions.items()}
    parts = make_parts(store, folder, hooks)
    parts.tools |= TOOLS
    parts.ask = consent
    rules_of(parts).kinds["Bash"] = kind
    call = {"id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
    return asyncio.run(admit(parts, call)).grant.basis


@pytest.mark.parametrize("kind", [VerdictKind.ALLOW, VerdictKind.ASK])
def test_a_question_says_why_a_hook_asks(store: Store, tmp_path: Path, kind: VerdictKind) -> None:
    asked: list[Question] = []

    async def reply(question: Question) -> PermissionReply:
        asked.append(question)
        return PermissionReply("allow")

    specific = {"hookEventName": "PreToolUse", "permissionDecision": "ask"}
    specific["permissionDecisionReason"] = "production\nis frozen"
    before = {"hookSpecificOutput": specific, "systemMessage": "ask Ada"}
    answers = {"PreToolUse": before, "PermissionRequest": {"systemMessage": "see the wiki"}}
    parts = make_parts(
        store, tmp_path, {event: [{"hooks": [echoing(each)]}] for event, each in answers.items()}
    )
    parts.tools |= TOOLS
    parts.ask = reply
    rules_of(parts).kinds["Bash"] = kind
    asyncio.run(admit(parts, {"id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}))
    words = ["a hook says: see the wiki", "a hook asks: production", "a hook asks: is frozen"]
    words.append("a hook says: ask Ada")
    assert long_reasons(asked[0])[: len(words)] == words
    assert asked[0].verdict.reason.startswith("; ".join(words))


def echoing(answer: object) -> dict[str, str]:
    return {"type": "command", "command": f"printf %s {shlex.quote(json.dumps(answer))}"}


def answering(event: str, decision: str) -> dict[str, str]:
    told: dict[str, object] = {"hookEventName": event}
    if event == "PreToolUse":
        told["permissionDecision"] = decision
    else:
        told["decision"] = {"behavior": decision}
    return echoing({"hookSpecificOutput": told})


def test_a_confirmed_call_rests_on_who_confirmed_it(store: Store, tmp_path: Path) -> None:
    assert admitted(store, tmp_path, VerdictKind.ALLOW) is Basis.RULE
    assert admitted(store, tmp_path, VerdictKind.ALLOW, PreToolUse="allow") is Basis.RULE
    assert admitted(store, tmp_path, VerdictKind.ALLOW, PreToolUse="ask") is Basis.USER
    assert admitted(store, tmp_path, VerdictKind.ASK) is Basis.USER
    assert admitted(store, tmp_path, VerdictKind.ASK, PreToolUse="allow") is Basis.HOOK
    assert admitted(store, tmp_path, VerdictKind.ASK, PermissionRequest="allow") is Basis.HOOK
