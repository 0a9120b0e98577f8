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
"""The start of an expansion: only the shell knows the text that replaces it."""


def rule_filter(tools: Mapping[str, Tool], workspace: Workspace) -> Applies:
    """Return the filter for hooks with an `if` rule; in doubt, a hook runs, as it may block."""

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
        # A deny rule is compared with every part of a command; no other rule interferes here.
        policy = Policy((rule,), (), (), ApprovalMode.BYPASS, workspace.cwd, places)
        return decide(tool.name, touched, policy).kind is not VerdictKind.ALLOW

    return applies


def _may_become(rule: Rule, touched: Sequence[Access]) -> bool:
    """Return whether a rule covers words that a command gets only when it runs (documented)."""
    words = (rule.about or "").removesuffix("*").rstrip(" :").split()
    commands = [access.command for access in touched if isinstance(access, Runs)]
    is_long = rule.tool == "Bash" and len(words) > 1
    return is_long and any(UNKNOWN.search(each) for each in commands)
