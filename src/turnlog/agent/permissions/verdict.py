"""Whether a call may run: deny before ask before allow, whichever rule is the more specific."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from turnlog.agent.access import Access, Basis, Fetches, Mode, Reads, Runs, Uses, Writes
from turnlog.agent.permissions.bash import COMPARISONS, NAMES
from turnlog.agent.permissions.commands import judge_command
from turnlog.agent.permissions.files import judge_read, judge_write
from turnlog.agent.permissions.paths import leads_through_process, names_of
from turnlog.agent.permissions.policy import (
    ALLOWED,
    WIDTH,
    Finding,
    Kind,
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

COMMANDS = "Bash"
FREE = frozenset({"Agent", "BashOutput", "KillShell", "StructuredOutput", "Task", "TodoWrite"})
"""Tools that change nothing by themselves."""


class Called(NamedTuple):
    """The tool that a call is of."""

    name: str
    server: str | None
    """The MCP server that it belongs to."""


Matches = Callable[[Rule], bool]
"""Whether a rule for a tool is about what is to be done with it."""


def decide(tool: str, accesses: Sequence[Access], policy: Policy) -> Verdict:
    """Decide about a call from all that it would touch, and say what an allowed one rests on."""
    names_of.cache_clear()
    leads_through_process.cache_clear()
    for budget in (NAMES, COMPARISONS):
        budget.reset()
    findings = _findings(tool, accesses, policy)
    verdict = strictest(findings)
    if verdict.kind is Kind.ASK and any(map(_is_lifted_by_rule, findings)):
        verdict = _confined(verdict, tool, accesses, policy)
    if verdict.kind is not Kind.ALLOW:
        return verdict
    if policy.mode is Mode.BYPASS:
        return replace(verdict, basis=Basis.BYPASS)
    return _narrowed(verdict, tool, accesses, policy)


def _narrowed(verdict: Verdict, tool: str, accesses: Sequence[Access], policy: Policy) -> Verdict:
    """Let a rule for commands count only where a command needs it.

    With `Bash(git:*)`, `git status` still runs as confined as without the rule, `git commit` runs
    by the rule.
    """
    if not _is_ruled(tool, accesses, policy):
        return verdict
    without = _without_rules(tool, accesses, policy)
    if without.kind is Kind.ALLOW:
        return replace(verdict, basis=without.basis)
    return replace(verdict, basis=max(verdict.basis, Basis.RULE, key=WIDTH.__getitem__))


def _confined(verdict: Verdict, tool: str, accesses: Sequence[Access], policy: Policy) -> Verdict:
    """Allow what a rule allows in a repository that names programs, if those would not run.

    They do not run in a command that needs the rule for nothing else, because such a command runs
    confined: `git status`, but not `git status && npm test`.
    """
    found = _findings(tool, accesses, policy)
    allowed = strictest([each for each in found if not _is_lifted_by_rule(each)])
    without = _without_rules(tool, accesses, policy)
    return allowed if Kind.ALLOW is allowed.kind is without.kind else verdict


def _is_ruled(tool: str, accesses: Sequence[Access], policy: Policy) -> bool:
    """Whether a rule for commands may be what allows a call."""
    is_command = any(isinstance(access, Runs) for access in accesses)
    return is_command and any(rule.tool == COMMANDS for rule in policy.allow)


def _without_rules(tool: str, accesses: Sequence[Access], policy: Policy) -> Verdict:
    """Decide about a command as if no rule for commands existed, and it ran confined."""
    others = tuple(rule for rule in policy.allow if rule.tool != COMMANDS)
    found = _findings(tool, accesses, replace(policy, allow=others))
    return strictest([each for each in found if not each.is_confinable])


def _is_lifted_by_rule(finding: Finding) -> bool:
    return finding.is_confinable and finding.basis is Basis.RULE


def _findings(tool: str, accesses: Sequence[Access], policy: Policy) -> list[Finding]:
    named = Called(tool, _server_of(accesses))
    general = _forbidden(named, policy, _is_general)
    findings = [general] if general else []
    for access in accesses or (Uses(),):
        findings += _judge(named, access, policy)
    if policy.mode is Mode.BYPASS:
        findings = [each for each in findings if each.is_firm]
    return findings


def _server_of(accesses: Sequence[Access]) -> str | None:
    return next((each.server for each in accesses if isinstance(each, Uses) and each.server), None)


def _is_general(rule: Rule) -> bool:
    """Whether a rule is about all uses of its tool."""
    return rule.about is None


def _judge(tool: Called, access: Access, policy: Policy) -> list[Finding]:
    match access:
        case Runs(command):
            return _judge_command(command, policy)
        case Reads(path):
            return [_unless_named(judge_read(path, policy), tool, policy)]
        case Writes(path):
            return [_unless_named(judge_write(path, policy), tool, policy)]
        case Fetches(url):
            return [_judge_address(tool, url, policy)]
        case Uses(what):
            return [_judge_use(tool, what, policy)]


def _judge_command(command: str, policy: Policy) -> list[Finding]:
    """Decide about a command; one that cannot be analyzed asks, in every mode."""
    try:
        return judge_command(command, policy)
    except (OSError, ValueError, RecursionError) as error:
        return [Finding(Kind.ASK, f"it cannot be analyzed: {error}", is_firm=True)]


def _unless_named(finding: Finding, tool: Called, policy: Policy) -> Finding:
    """What was decided about a file, unless only a rule was lacking and the tool has one."""
    if finding.kind is not Kind.ASK or finding.is_firm or finding.is_guarded:
        return finding
    return _allowed(tool, policy, _is_general) or finding


def _judge_address(tool: Called, url: str, policy: Policy) -> Finding:
    def matches(rule: Rule) -> bool:
        return matches_address(rule, url)

    if found := _forbidden(tool, policy, matches):
        return found
    host = host_of(url)
    if host is None:
        is_ruled = any(names_tool(rule, tool.name) for rule in policy.deny)
        return Finding(Kind.ASK, f"the host of {url!r} is unclear", is_firm=is_ruled)
    if found := _allowed(tool, policy, matches):
        return found
    return Finding(Kind.ASK, f"no rule allows {host}", remember=(f"{tool.name}(domain:{host})",))


def _judge_use(tool: Called, what: str | None, policy: Policy) -> Finding:
    def matches(rule: Rule) -> bool:
        return matches_use(rule, what)

    if found := _forbidden(tool, policy, matches):
        return found
    if tool.name in FREE:
        return ALLOWED
    # In plan mode a server's tool asks each time: what it changes cannot be told.
    may_change = policy.mode is Mode.PLAN and tool.name.startswith("mcp__")
    if not may_change and (found := _allowed(tool, policy, matches)):
        return found
    named = f"{tool.name}({what})" if what else tool.name
    return Finding(Kind.ASK, f"no rule allows {named}", remember=() if may_change else (named,))


def _forbidden(tool: Called, policy: Policy, matches: Matches) -> Finding | None:
    """What the rules say that deny a use, or ask about it."""
    if rule := _about(policy.deny, tool, matches):
        return Finding(Kind.DENY, f"{rule.text} denies it", is_firm=True)
    if rule := _about(policy.ask, tool, matches):
        return Finding(Kind.ASK, f"{rule.text} asks for it", is_firm=True)
    return None


def _allowed(tool: Called, policy: Policy, matches: Matches) -> Finding | None:
    rule = _about(policy.allow, tool, matches, allows=True)
    if rule is None:
        return None
    return Finding(Kind.ALLOW, f"{rule.text} allows it", basis=Basis.RULE)


def _about(
    rules: tuple[Rule, ...], tool: Called, matches: Matches, *, allows: bool = False
) -> Rule | None:
    named = (
        rule for rule in rules if names_tool(rule, tool.name, server=tool.server, allows=allows)
    )
    return next((rule for rule in named if matches(rule)), None)
