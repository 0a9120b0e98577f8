"""Overrides in an agent definition: model, permission mode, memory and tools."""

import os
from pathlib import Path

from turnlog.agent.config.agent_definitions import WIDER, AgentDefinition
from turnlog.agent.config.frontmatter import model_of
from turnlog.agent.permissions import ApprovalMode
from turnlog.agent.permissions.consent import Rules
from turnlog.agent.workspace.tool import Tool

MODES = {mode.value: mode for mode in ApprovalMode} | {"manual": ApprovalMode.DEFAULT}
"""Modes that a definition may set; any other value keeps the conversation's mode."""
NOT_ASKED = "dontAsk"
"""Mode that denies calls instead of asking for permission."""
MODEL = "CLAUDE_CODE_SUBAGENT_MODEL"
MEMORY_TOOLS = ("Read", "Write", "Edit")
"""Tools that an agent with memory always has."""


def model_for(definition: AgentDefinition, asked: str | None) -> str | None:
    """Return the model set by an environment variable, the call or the definition."""
    return model_of(os.environ.get(MODEL)) or asked or definition.model


def rules_for(definition: AgentDefinition, rules: Rules, memory: Path | None) -> Rules:
    """Return the rules of a sub-agent: the conversation's rules in the mode of its definition.

    The sub-agent may write its own memory folder.
    """
    mode = MODES.get(definition.permission_mode or "")
    # A definition cannot override a more permissive mode of the conversation, as documented for the
    # client. Nor can it leave plan mode: the user was promised that nothing is written.
    mode = None if rules.mode in (*WIDER, ApprovalMode.PLAN) else mode
    # Lend a copy, never the conversation's own rules: a sub-agent without memory must not write the
    # memory of the agent that starts it. And any agent can be moved to the background and work in
    # later turns, whose commands may allow calls to the conversation, but not to the agent.
    return rules.lent(mode, memory)


def may_use(definition: AgentDefinition, tool: Tool, memory: Path | None) -> bool:
    """Return whether the sub-agent may use a tool."""
    name = tool.name
    is_needed = memory is not None and name in MEMORY_TOOLS
    return definition.may_use(name, tool.server) or (is_needed and not definition.is_refused(name))
