"""Decide whether a hook with an `if` rule applies to a call."""

import re
from collections.abc import Mapping, Sequence

from turnlog.agent.hooks.matchers import Applies
from turnlog.agent.permissions import ApprovalMode, Policy, Rule, VerdictKind, decide, parse_rule
from turnlog.agent.workspace.access import Access, Runs
from turnlog.agent.workspace.tool import Tool, ToolError
from turnlog.agent.workspace.workspace import Workspace
from turnlog.errors import UsageError
from turnlog.format.json_values import Fields

UNKNOWN = re.compile(r"`|\$[({A-Za-z_]")
"""Placeholder in a command for text that only the shell knows."""


def rule_filter(tools: Mapping[str, Tool], workspace: Workspace) -> Applies:
    """Return the filter for hooks with an `if` rule; in doubt a hook runs: it may block a call."""

    def applies(written: str, call: Fields) -> bool:
        tool = tools.get(call["tool_name"])
        if tool is None:
            return True
        try:
            rule = parse_rule(written, workspace.root, "hooks")
            touched = tool.touches(tool.read(call["tool_input"]), workspace)
        except (UsageError, ToolError):
            return True
        if _may_become(rule, touched):
            return True
        places = (workspace.root, *workspace.directories)
        # A rule that forbids looks into all parts of a command; nothing else stops it here.
        policy = Policy((rule,), (), (), ApprovalMode.BYPASS, workspace.cwd, places)
        return decide(tool.name, touched, policy).kind is not VerdictKind.ALLOW

    return applies


def _may_become(rule: Rule, touched: Sequence[Access]) -> bool:
    """Return whether a rule needs more of a command than is known before it runs (documented)."""
    words = (rule.about or "").removesuffix("*").rstrip(" :").split()
    commands = [access.command for access in touched if isinstance(access, Runs)]
    is_long = rule.tool == "Bash" and len(words) > 1
    return is_long and any(UNKNOWN.search(each) for each in commands)
