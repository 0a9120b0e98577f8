"""Decide whether a call may run.

Deny rules override ask rules, which override allow rules, however specific each rule is.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from turnlog.agent.permissions.commands import judge_command
from turnlog.agent.permissions.files import judge_read, judge_write
from turnlog.agent.permissions.policy import (
    ALLOWED,
    AccessDecision,
    Policy,
    Verdict,
    VerdictKind,
    strictest,
)
from turnlog.agent.permissions.rules import Rule, host_of, matches_address, matches_use, names_tool
from turnlog.agent.workspace.access import (
    Access,
    ApprovalMode,
    Basis,
    Fetches,
    Reads,
    Runs,
    Uses,
    Writes,
)

FREE = frozenset(
    """Agent BashOutput KillShell StructuredOutput Task TaskCreate TaskGet TaskList TaskOutput
    TaskStop TaskUpdate TodoWrite""".split()
)
"""Tools that change nothing by themselves."""
QUESTIONS = frozenset({"AskUserQuestion", "EnterPlanMode", "ExitPlanMode"})
"""Tools whose calls are questions to the user: no rule, hook or mode answers them."""


class CalledTool(NamedTuple):
    """The tool of a call."""

    name: str
    server: str | None
    """The MCP server that it belongs to."""


Matches = Callable[[Rule], bool]
"""Checks whether a rule for a tool covers a use of it."""


def decide(tool: str, accesses: Sequence[Access], policy: Policy) -> Verdict:
    """Return the verdict on a call from all that it would touch, with the basis of an approval."""
    named = CalledTool(tool, _server_of(accesses))
    general = _forbidden(named, policy, _is_general)
    findings = [general] if general else []
    for access in accesses or (Uses(),):
        if isinstance(access, Runs):
            findings += judge_command(access, policy).findings
        else:
            findings.append(_judge(named, access, policy))
    if policy.mode is ApprovalMode.BYPASS:
        # Deny and ask rules apply in every mode; calls that merely lack an allow rule may run.
        firm = [each for each in findings if each.is_firm]
        return strictest(firm or [AccessDecision(VerdictKind.ALLOW, "", basis=Basis.BYPASS)])
    return strictest(findings)


def _server_of(accesses: Sequence[Access]) -> str | None:
    return next((each.server for each in accesses if isinstance(each, Uses) and each.server), None)


def _is_general(rule: Rule) -> bool:
    """Return whether a rule covers all uses of its tool."""
    return rule.about is None


def _judge(
    tool: CalledTool, access: Reads | Writes | Fetches | Uses, policy: Policy
) -> AccessDecision:
    match access:
        case Reads(path):
            return _unless_named(judge_read(path, policy), tool, policy)
        case Writes(path):
            return _unless_named(judge_write(path, policy), tool, policy)
        case Fetches(url):
            return _judge_address(tool, url, policy)
        case Uses(what):
            return _judge_use(tool, what, policy)


def _unless_named(finding: AccessDecision, tool: CalledTool, policy: Policy) -> AccessDecision:
    """Return the decision about a file, but do not ask if a rule allows all uses of the tool."""
    # `Edit` alone allows edits, but not of protected files such as `.git/config`.
    if finding.kind is not VerdictKind.ASK or finding.is_firm or finding.is_guarded:
        return finding
    return _allowed(tool, policy, _is_general) or finding


def _judge_address(tool: CalledTool, url: str, policy: Policy) -> AccessDecision:
    def matches(rule: Rule) -> bool:
        return matches_address(rule, url)

    if found := _forbidden(tool, policy, matches):
        return found
    host = host_of(url)
    if host is None:
        # Parsers disagree about the host of `https://evil\@good/`. If a rule denies hosts, bypass
        # mode must not let the call through.
        is_ruled = any(names_tool(rule, tool.name) for rule in policy.deny)
        return AccessDecision(VerdictKind.ASK, f"the host of {url!r} is unclear", is_firm=is_ruled)
    if found := _allowed(tool, policy, matches):
        return found
    return AccessDecision(
        VerdictKind.ASK, f"no rule allows {host}", remember=(f"{tool.name}(domain:{host})",)
    )


def _judge_use(tool: CalledTool, what: str | None, policy: Policy) -> AccessDecision:
    def matches(rule: Rule) -> bool:
        return matches_use(rule, what)

    if found := _forbidden(tool, policy, matches):
        return found
    if tool.name in FREE:
        return ALLOWED
    if tool.name in QUESTIONS:
        return AccessDecision(VerdictKind.ASK, "it is a question to you", is_firm=True)
    # In plan mode, an MCP tool asks each time, because its effects are unknown.
    may_change = policy.mode is ApprovalMode.PLAN and tool.name.startswith("mcp__")
    if not may_change and (found := _allowed(tool, policy, matches)):
        return found
    named = f"{tool.name}({what})" if what else tool.name
    # The model chooses the name: `Skill(*)` would be a rule for all skills.
    is_offered = not may_change and "*" not in (what or "")
    return AccessDecision(
        VerdictKind.ASK, f"no rule allows {named}", remember=(named,) if is_offered else ()
    )


def _forbidden(tool: CalledTool, policy: Policy, matches: Matches) -> AccessDecision | None:
    """Return the decision of the deny and ask rules about a tool's use; None if none matches."""
    if rule := _about(policy.deny, tool, matches):
        return AccessDecision(VerdictKind.DENY, f"{rule.text} denies it", is_firm=True)
    if rule := _about(policy.ask, tool, matches):
        return AccessDecision(VerdictKind.ASK, f"{rule.text} asks for it", is_firm=True)
    return None


def _allowed(tool: CalledTool, policy: Policy, matches: Matches) -> AccessDecision | None:
    rule = _about(policy.allow, tool, matches, allows=True)
    if rule is None:
        return None
    return AccessDecision(VerdictKind.ALLOW, f"{rule.text} allows it", basis=Basis.RULE)


def _about(
    rules: tuple[Rule, ...], tool: CalledTool, matches: Matches, *, allows: bool = False
) -> Rule | None:
    named = (
        rule for rule in rules if names_tool(rule, tool.name, server=tool.server, allows=allows)
    )
    return next((rule for rule in named if matches(rule)), None)
