"""Estimate what fills the context: the API counts the whole, the parts are estimated by length."""

import json

from msgspec import Struct

from turnlog.agent.loop.conversation import Parts
from turnlog.agent.loop.spending import context_tokens
from turnlog.agent.tools.toolbox import definitions
from turnlog.agent.workspace.tool import Tool
from turnlog.conversation.context import messages_of

CHARS_PER_TOKEN = 4


class ContextUsage(Struct, frozen=True):
    """Tokens of the parts of a context."""

    system: int
    memory: int
    tools: int
    """Definitions of built-in tools."""
    server_tools: int
    """Definitions of MCP tools."""
    messages: int

    @property
    def total(self) -> int:
        return self.system + self.memory + self.tools + self.server_tools + self.messages


def usage_of(parts: Parts) -> ContextUsage:
    """Return what fills the context of a conversation."""
    memory = _tokens("".join(parts.memory))
    system = _tokens("".join(parts.system)) - memory
    every = list(parts.tools.values())
    own = _definitions([tool for tool in every if not tool.server])
    theirs = _definitions([tool for tool in every if tool.server])
    counted = context_tokens(parts.recorder.chain)
    if counted:
        messages = max(0, counted - system - memory - own - theirs)
    else:
        messages = _tokens(json.dumps(messages_of(parts.recorder.chain, is_open=True)))
    return ContextUsage(system, memory, own, theirs, messages)


def _definitions(tools: list[Tool]) -> int:
    return _tokens(json.dumps(definitions(tools))) if tools else 0


def _tokens(text: str) -> int:
    return len(text) // CHARS_PER_TOKEN
