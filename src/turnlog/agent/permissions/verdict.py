"""Whether a call may run: deny before ask before allow, whichever rule is the more specific."""

from collections.abc import Sequence

from turnlog.agent.access import Access, Fetches, Reads, Runs, Uses, Writes
from turnlog.agent.permissions.commands import judge_command
from turnlog.agent.permissions.files import judge_read, judge_write
from turnlog.agent.permissions.policy import (
    ALLOWED,
    Finding,
    Kind,
    Mode,
    Policy,
    Verdict,
    strictest,
)
from turnlog.agent.permissions.rules import (
    Rule,
    host_of,
    matches_address,
    matches_use,
    names_tool,
)

FREE = frozenset(
    """
    Agent AskUserQuestion BashOutput EnterPlanMode EnterWorktree KillBash KillShell Task TaskCreate
    TaskGet TaskList TaskOutput TaskStop TaskUpdate TodoRead TodoWrite ToolSearch
    """.split()
)
"""Tools that change nothing by themselves."""


def decide(tool: str, accesses: Sequence[Access], policy: Policy) -> Verdict:
    """Decide about a call from all that it would touch."""
    findings = [*_about_tool(tool, policy)]
    for access in accesses or (Uses(),):
        findings += _judge(tool, access, policy)
    if policy.mode is Mode.BYPASS:
        findings = [each for each in findings if each.is_firm]
    return strictest(findings)


def _about_tool(tool: str, policy: Policy) -> list[Finding]:
    """What rules say of all uses of a tool."""
    if rule := _naming(policy.deny, tool):
        return [Finding(Kind.DENY, f"{rule.text} denies it", is_firm=True)]
    if rule := _naming(policy.ask, tool):
        return [Finding(Kind.ASK, f"{rule.text} asks for it", is_firm=True)]
    return []


def _naming(rules: tuple[Rule, ...], tool: str, *, allows: bool = False) -> Rule | None:
    return next(
        (rule for rule in rules if rule.about is None and names_tool(rule, tool, allows=allows)),
        None,
    )


def _judge(tool: str, access: Access, policy: Policy) -> list[Finding]:
    match access:
        case Runs(command):
            return judge_command(command, policy)
        case Reads(path):
            return [_unless_named(judge_read(path, policy), tool, policy)]
        case Writes(path):
            return [_unless_named(judge_write(path, policy), tool, policy)]
        case Fetches(url):
            return [_judge_address(tool, url, policy)]
        case Uses(what):
            return [_judge_use(tool, what, policy)]


def _unless_named(finding: Finding, tool: str, policy: Policy) -> Finding:
    """What was decided about a file, unless only a rule was lacking and the tool has one."""
    if finding.kind is not Kind.ASK or finding.is_firm or finding.is_guarded:
        return finding
    rule = _naming(policy.allow, tool, allows=True)
    return Finding(Kind.ALLOW, f"{rule.text} allows it") if rule else finding


def _judge_address(tool: str, url: str, policy: Policy) -> Finding:
    def about(rules: tuple[Rule, ...], *, allows: bool = False) -> Rule | None:
        named = (rule for rule in rules if names_tool(rule, tool, allows=allows))
        return next((rule for rule in named if matches_address(rule, url)), None)

    if rule := about(policy.deny):
        return Finding(Kind.DENY, f"{rule.text} denies it", is_firm=True)
    if rule := about(policy.ask):
        return Finding(Kind.ASK, f"{rule.text} asks for it", is_firm=True)
    host = host_of(url)
    if host is None:
        is_ruled = any(names_tool(rule, tool) for rule in policy.deny)
        return Finding(Kind.ASK, f"the host of {url!r} is unclear", is_firm=is_ruled)
    if rule := about(policy.allow, allows=True):
        return Finding(Kind.ALLOW, f"{rule.text} allows it")
    return Finding(Kind.ASK, f"no rule allows {host}", remember=(f"{tool}(domain:{host})",))


def _judge_use(tool: str, what: str | None, policy: Policy) -> Finding:
    def about(rules: tuple[Rule, ...], *, allows: bool = False) -> Rule | None:
        named = (rule for rule in rules if names_tool(rule, tool, allows=allows))
        return next((rule for rule in named if matches_use(rule, what)), None)

    if rule := about(policy.deny):
        return Finding(Kind.DENY, f"{rule.text} denies it", is_firm=True)
    if rule := about(policy.ask):
        return Finding(Kind.ASK, f"{rule.text} asks for it", is_firm=True)
    if tool in FREE:
        return ALLOWED
    # In plan mode a server's tool asks each time: what it changes cannot be told.
    may_change = policy.mode is Mode.PLAN and tool.startswith("mcp__")
    if not may_change and (rule := about(policy.allow, allows=True)):
        return Finding(Kind.ALLOW, f"{rule.text} allows it")
    named = f"{tool}({what})" if what else tool
    return Finding(Kind.ASK, f"no rule allows {named}", remember=() if may_change else (named,))
