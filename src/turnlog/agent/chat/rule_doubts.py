"""Find permission rules that cannot match any call, or that another rule overrides.

Such a rule looks like protection or permission, but has no effect. Rules that might have one are
not reported.
"""

from collections.abc import Collection, Iterator
from pathlib import Path

from msgspec import Struct

from turnlog.agent.permissions.policy import Policy
from turnlog.agent.permissions.rules import DOMAIN, FILES, TOOLS, Rule
from turnlog.format.tools import KNOWN_TOOLS, RENAMED

FETCHING = "WebFetch"
NAMING = {"Agent": "agent", "Skill": "skill"}
"""Tools whose rules name an agent or a skill, with the word for it in messages."""


class RuleNames(Struct, frozen=True):
    """The names that rules can refer to in a session."""

    tools: Collection[str]
    servers: Collection[str]
    """MCP servers, as tool names spell them."""
    agents: Collection[str] = ()
    skills: Collection[str] = ()


def rule_doubts(policy: Policy, known: RuleNames) -> Iterator[str]:
    """Yield a line for each rule that has no effect, with the reason."""
    stricter: tuple[Rule, ...] = ()
    # In the order in which rules are checked: a rule has no effect if one before it always matches.
    for kind, rules in (("deny", policy.deny), ("ask", policy.ask), ("allow", policy.allow)):
        for rule in rules:
            if why := _why_unmatched(rule, known) or _why_overridden(rule, stricter):
                yield f"{rule.source}: {kind} {rule.text} has no effect: {why}"
        stricter += rules


def _why_unmatched(rule: Rule, known: RuleNames) -> str:
    """Return why no call can match a rule; empty if one may."""
    # A pattern may match a tool that a server offers later.
    if "*" in rule.tool:
        return ""
    if rule.tool.startswith(TOOLS):
        return _unknown_server(rule.tool.removeprefix(TOOLS), known)
    if rule.tool not in KNOWN_TOOLS | RENAMED.keys() | set(known.tools):
        return f"there is no tool {rule.tool}"
    about = rule.about
    if about is None:
        return ""
    if rule.tool == FETCHING and not about.startswith(DOMAIN):
        return f"it needs a host: {FETCHING}({DOMAIN}example.com)"
    if rule.tool in NAMING and "*" not in about and about.rstrip(":") not in _named(rule, known):
        return f"there is no {NAMING[rule.tool]} {about}"
    return _misplaced(about, rule.base) if rule.tool in FILES else ""


def _named(rule: Rule, known: RuleNames) -> Collection[str]:
    return known.agents if rule.tool == "Agent" else known.skills


def _unknown_server(named: str, known: RuleNames) -> str:
    is_known = any(named == each or named.startswith(f"{each}__") for each in known.servers)
    return "" if is_known else f"no MCP server {named.partition('__')[0]} is set up"


def _misplaced(pattern: str, base: Path) -> str:
    """Return what is wrong with a pattern that is probably meant as an absolute path; else empty.

    Rules write absolute paths with two slashes.
    """
    if not pattern.startswith("/") or pattern.startswith("//"):
        return ""
    first = Path(pattern).parts[1:2]
    # `/etc/hosts` in a rule means `etc/hosts` below the project. Report it only if the project has
    # no such directory and the machine does.
    is_elsewhere = bool(first) and not any(mark in first[0] for mark in "*?[")
    if is_elsewhere and not (base / first[0]).exists() and Path("/", first[0]).exists():
        return f"it is about {base}{pattern}; a path from the root is written //{pattern[1:]}"
    return ""


def _why_overridden(rule: Rule, stricter: tuple[Rule, ...]) -> str:
    """Return which stricter rule matches every call that a rule covers; empty if none does."""
    for other in stricter:
        if other.tool == rule.tool and other.about in (None, rule.about):
            return f"{other.text} in {other.source} comes first"
    return ""
