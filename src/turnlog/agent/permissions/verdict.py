"""Decide whether a call may run.

Deny rules override ask rules, which override allow rules, however specific each rule is.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import NamedTuple

from msgspec.structs import replace

from turnlog.agent.permissions.bash import TooComplex, UnknownValue, expand_glob, fresh_budgets
from turnlog.agent.permissions.commands import CommandFindings, analyze_command
from turnlog.agent.permissions.file_verdicts import judge_read, judge_write, unknown_files
from turnlog.agent.permissions.git_repository import git_places
from turnlog.agent.permissions.link_mentions import list_folder
from turnlog.agent.permissions.links import ways_of
from turnlog.agent.permissions.path_access import (
    config_targets,
    linked_starts,
    search_directories,
)
from turnlog.agent.permissions.policy import (
    ALLOWED,
    WIDTH,
    AccessDecision,
    Policy,
    Verdict,
    VerdictKind,
    strictest,
)
from turnlog.agent.permissions.rules import (
    Rule,
    host_of,
    matches_address,
    matches_use,
    names_tool,
)
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

COMMANDS = "Bash"
LOCK = Lock()
CACHES = (
    *(ways_of, linked_starts, config_targets, git_places, search_directories, expand_glob),
    list_folder,
)
"""Functions that remember what is on the disk."""
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


class Judged(NamedTuple):
    """The decisions about all accesses of a call."""

    findings: list[AccessDecision]
    command: CommandFindings

    @property
    def verdict(self) -> Verdict:
        """The verdict of the strictest finding, with details on how to run an allowed command."""
        verdict = strictest(self.findings)
        command = self.command
        return replace(
            verdict,
            command=command.to_run,
            footprint=command.footprint,
            guards_git=command.guards_git,
        )

    def without(self, dropped: Callable[[AccessDecision], bool]) -> "Judged":
        """Return a copy without the findings for which `dropped` returns True."""
        return self._replace(findings=[each for each in self.findings if not dropped(each)])


Matches = Callable[[Rule], bool]
"""Checks whether a rule for a tool covers a use of it."""


def decide(tool: str, accesses: Sequence[Access], policy: Policy) -> Verdict:
    """Return the verdict on a call from everything it would touch, with the basis of an approval.

    Verdicts are computed one at a time, because threads share the budgets and file-system caches.
    """
    with new_verdict():
        try:
            return _decide(tool, accesses, policy)
        except TooComplex as error:
            # Firm, so that no rule or mode allows it: a call that was not analyzed may do anything.
            return strictest([AccessDecision(VerdictKind.ASK, str(error), is_firm=True)])


@contextmanager
def new_verdict() -> Generator[None]:
    """Clear the file-system caches and reset the budgets for one verdict."""
    with LOCK, fresh_budgets():
        # The disk changes between verdicts: a directory may be a link by now.
        for cached in CACHES:
            cached.cache_clear()
        yield


def _decide(tool: str, accesses: Sequence[Access], policy: Policy) -> Verdict:
    judged = _judge_all(tool, accesses, policy)
    verdict = judged.verdict
    if verdict.kind is VerdictKind.ASK and any(map(_is_lifted_by_rule, judged.findings)):
        verdict = _confined(judged, tool, accesses, policy)
    if verdict.kind is not VerdictKind.ALLOW:
        return verdict
    if policy.mode is ApprovalMode.BYPASS:
        # Run the command as written: this mode does not rely on the analysis, which may have
        # expanded its globs.
        # Rules about files only hold if git changes the files that they were compared with.
        is_ruled = policy.has_file_rules
        return replace(verdict, basis=Basis.BYPASS, command=None, steadies_git=is_ruled)
    return _narrowed(verdict, tool, accesses, policy)


def _narrowed(verdict: Verdict, tool: str, accesses: Sequence[Access], policy: Policy) -> Verdict:
    """Apply a rule for commands only if the command needs it.

    With `Bash(git:*)`, `git status` still runs as confined as without the rule, because only
    `git commit` needs the rule.
    """
    if not _is_ruled(accesses, policy):
        return verdict
    without = _without_rules(tool, accesses, policy)
    if without.kind is VerdictKind.ALLOW:
        return replace(verdict, basis=without.basis, command=without.command)
    return replace(verdict, basis=max(verdict.basis, Basis.RULE, key=WIDTH.__getitem__))


def _confined(judged: Judged, tool: str, accesses: Sequence[Access], policy: Policy) -> Verdict:
    """Allow a command in a repository whose configuration names programs, if those would not run.

    They do not run if the command is allowed even without the rule, because it then runs confined:
    `git status`, but not `git status && npm test`.
    """
    allowed = judged.without(_is_lifted_by_rule).verdict
    without = _without_rules(tool, accesses, policy)
    return allowed if VerdictKind.ALLOW is allowed.kind is without.kind else judged.verdict


def _is_ruled(accesses: Sequence[Access], policy: Policy) -> bool:
    """Return whether a call runs a command and there are allow rules for commands."""
    is_command = any(isinstance(access, Runs) for access in accesses)
    return is_command and any(rule.tool == COMMANDS for rule in policy.allow)


def _without_rules(tool: str, accesses: Sequence[Access], policy: Policy) -> Verdict:
    """Decide about a command as if it ran confined and there were no rules for commands."""
    others = tuple(rule for rule in policy.allow if rule.tool != COMMANDS)
    judged = _judge_all(tool, accesses, replace(policy, allow=others))
    return judged.without(lambda finding: finding.is_confinable).verdict


def _is_lifted_by_rule(finding: AccessDecision) -> bool:
    return finding.is_confinable and finding.basis is Basis.RULE


def _judge_all(tool: str, accesses: Sequence[Access], policy: Policy) -> Judged:
    named = CalledTool(tool, _server_of(accesses))
    general = _forbidden(named, policy, _is_general)
    findings = [general] if general else []
    command = CommandFindings(())
    for access in accesses or (Uses(),):
        if isinstance(access, Runs):
            command = analyze_command(access, policy)
            findings += command.all
        else:
            findings.append(_judge_known(named, access, policy))
    if policy.mode is ApprovalMode.BYPASS:
        # Deny and ask rules apply in every mode; calls that merely lack an allow rule may run.
        findings = [each for each in findings if each.is_firm]
    return Judged(findings, command)


def _server_of(accesses: Sequence[Access]) -> str | None:
    return next((each.server for each in accesses if isinstance(each, Uses) and each.server), None)


def _is_general(rule: Rule) -> bool:
    """Return whether a rule covers all uses of its tool."""
    return rule.about is None


def _judge_known(
    tool: CalledTool, access: Reads | Writes | Fetches | Uses, policy: Policy
) -> AccessDecision:
    """Decide about an access; ask if the links on the way to the file cannot be followed."""
    try:
        return _judge(tool, access, policy)
    except UnknownValue as unknown:
        reason = f"it is unknown where {unknown} leads"
        return unknown_files(reason, policy)


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
