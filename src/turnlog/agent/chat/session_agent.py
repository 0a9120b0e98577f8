"""Run a session as an agent, with its instructions, tools and model instead of the defaults.

It cannot widen permissions: the agent's permission mode, hooks and servers apply only when it runs
as a sub-agent.
"""

import os
from collections.abc import Mapping

from turnlog.agent.chat.assembly import ChatOptions
from turnlog.agent.config.agent_definitions import AgentDefinition
from turnlog.agent.loop.conversation import Parts
from turnlog.agent.loop.model_switch import fit_tracking
from turnlog.agent.model.model_names import with_model
from turnlog.errors import UsageError
from turnlog.format.json_values import Fields


def find_agent(agents: Mapping[str, AgentDefinition], name: str) -> AgentDefinition:
    """Return an agent by name; raise `UsageError` if there is none."""
    if name not in agents:
        known = ", ".join(agents)
        raise UsageError(f"no agent is named {name!r}: choose from {known}", "--agent NAME")
    return agents[name]


def take_role(parts: Parts, definition: AgentDefinition, options: ChatOptions) -> None:
    """Give a conversation an agent's role; options of the command line take precedence."""
    # Programs without a system prompt send an empty one.
    if not options.system_prompt:
        parts.system[0] = definition.prompt
    if definition.model and not options.model and not options.resume:
        parts.choice = with_model(parts.choice, definition.model, os.environ)
    for tools in (parts.tools, parts.tracking, parts.accepted):
        for name, tool in list(tools.items()):
            if not definition.may_use(name, tool.server):
                del tools[name]
    fit_tracking(parts)


def setting_line(name: str) -> Fields:
    """Return the line that the client writes about the agent of a session (2.1.325, observed)."""
    return {"type": "agent-setting", "agentSetting": name}
