"""Whether a hook that is limited by a rule is meant for a call."""

from collections.abc import Mapping

from turnlog.agent.hooks.hooks import Applies
from turnlog.agent.permissions import Kind, Mode, Policy, decide, parse_rule
from turnlog.agent.tool import Fields, Tool, ToolError
from turnlog.agent.workspace import Workspace
from turnlog.errors import UsageError


def rule_filter(tools: Mapping[str, Tool], workspace: Workspace) -> Applies:
    """The function that says so. In doubt a hook runs: it may be there to stop something."""

    def applies(written: str, call: Fields) -> bool:
        tool = tools.get(call["tool_name"])
        if tool is None:
            return True
        try:
            rule = parse_rule(written, workspace.root, "hooks")
            touched = tool.touches(tool.read(call["tool_input"]), workspace)
        except (UsageError, ToolError):
            return True
        places = (workspace.root, *workspace.directories)
        # A rule that forbids looks into all parts of a command; nothing else stops it here.
        policy = Policy((rule,), (), (), Mode.BYPASS, workspace.cwd, places)
        return decide(tool.name, touched, policy).kind is not Kind.ALLOW

    return applies
