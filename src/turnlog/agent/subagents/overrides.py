"""Overrides in an agent definition: model, permission mode, memory and tools."""

import os
from pathlib import Path

from turnlog.agent.config.agent_definitions import WIDER, AgentDefinition
from turnlog.agent.config.frontmatter import model_of
from turnlog.agent.permissions import ApprovalMode
from turnlog.agent.permissions.consent import Rules
from turnlog.agent.workspace.tool import Tool

MODES = {mode.value: mode for mode in ApprovalMode} | {"manual": ApprovalMode.DEFAULT}
"""Modes that a definition may set; otherwise the conversation's applies."""
NOT_ASKED = "dontAsk"
"""Mode in which calls that would ask are denied."""
MODEL = "CLAUDE_CODE_SUBAGENT_MODEL"
MEMORY_TOOLS = ("Read", "Write", "Edit")
"""Tools that an agent with memory always has."""


def model_for(definition: AgentDefinition, asked: str | None) -> str | None:
    """Return the model set by an environment variable, the call or the definition."""
    return model_of(os.environ.get(MODEL)) or asked or definition.model


def rules_for(definition: AgentDefinition, rules: Rules, memory: Path | None) -> Rules:
    """Return the rules of a sub-agent: the conversation's, in the mode that its definition names.

    Its own memory folder is writable.
    """
    mode = MODES.get(definition.permission_mode or "")
    # No definition overrides a wider mode of the conversation, as documented of the client, and
    # none leaves plan mode: the user was promised that nothing is written.
    mode = None if rules.mode in (*WIDER, ApprovalMode.PLAN) else mode
    # Never the conversation's own: a sub-agent without memory must not write the notes of the agent
    # that starts it, and one in the background, to which each can be moved, works during later
    # turns, whose commands allow calls of the conversation, not of the agent.
    return rules.lent(mode, memory)


def may_use(definition: AgentDefinition, tool: Tool, memory: Path | None) -> bool:
    """Return whether the sub-agent has a tool."""
    name = tool.name
    is_needed = memory is not None and name in MEMORY_TOOLS
    return definition.may_use(name, tool.server) or (is_needed and not definition.is_refused(name))
