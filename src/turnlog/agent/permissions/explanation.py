"""Explain a verdict: the parse of a command, the rule or tier that decided, and the sandbox.

The same function that decides about a call produces the explanation, so the two cannot disagree.
"""

from msgspec import Struct

from turnlog.agent.permissions.commands import judge_command
from turnlog.agent.permissions.policy import Policy, VerdictKind, strictest
from turnlog.agent.workspace.access import Basis, Runs

SANDBOXES = {
    Basis.LISTED: "none works here; it is on the short list of commands that only read",
    Basis.READ: "read: no writes but in a private /tmp, no network; asks if that is refused",
    Basis.WRITE: "write: working directories writable, no network, files of the user hidden",
    Basis.RULE: "rule: working directories writable, network",
    Basis.ANY_COMMAND: "none but for denied files",
    Basis.BYPASS: "none but for denied files",
}


class Explanation(Struct, frozen=True, omit_defaults=True):
    """The verdict about a command, with its simple commands."""

    command: str
    mode: str
    cwd: str
    verdict: str
    reason: str
    parts: tuple[str, ...]
    """The simple commands that rules are compared with."""
    rule: str = ""
    """The rule that decided."""
    sandbox: str = ""
    """What an allowed command may do."""
    denied_files: tuple[str, ...] = ()
    """Patterns of files that it cannot read, whoever allows it."""
    rules_to_allow: tuple[str, ...] = ()
    """Rules that would allow the command from now on."""


def explain_command(text: str, policy: Policy) -> Explanation:
    """Explain the verdict about a shell command."""
    judged = judge_command(Runs(text), policy)
    verdict = strictest(judged.findings)
    is_allowed = verdict.kind is VerdictKind.ALLOW
    return Explanation(
        command=text,
        mode=policy.mode.value,
        cwd=str(policy.cwd),
        verdict=verdict.kind.value,
        reason=verdict.reason,
        parts=tuple(part.source for part in judged.parts),
        rule=judged.rule,
        sandbox=SANDBOXES.get(verdict.basis, "") if is_allowed else "",
        denied_files=tuple(each.text for each in policy.deny if each.tool == "Read"),
        rules_to_allow=verdict.remember,
    )
