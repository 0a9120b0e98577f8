"""Estimate the tokens in the context: the API counts the total, parts are estimated by length."""

import json

from msgspec import Struct

from turnlog.agent.loop.conversation import Parts
from turnlog.agent.loop.spending import COUNTED, context_tokens
from turnlog.agent.tools.toolbox import definitions
from turnlog.agent.workspace.tool import Tool
from turnlog.conversation.context import messages_of
from turnlog.format.json_values import Fields, is_object

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
    """Return the tokens in the context of a conversation, by part."""
    memory = tokens_of("".join(parts.memory))
    system = tokens_of("".join(parts.system)) - memory
    every = list(parts.tools.values())
    own = _definitions([tool for tool in every if not tool.server])
    theirs = _definitions([tool for tool in every if tool.server])
    counted = context_tokens(parts.recorder.chain)
    if counted:
        # Estimates may add up to more than the API counted.
        messages = max(0, counted - system - memory - own - theirs)
    else:
        messages = tokens_of(json.dumps(messages_of(parts.recorder.chain, is_open=True)))
    return ContextUsage(system, memory, own, theirs, messages)


def last_usage(chain: list[Fields]) -> Fields | None:
    """Return the tokens that the API counted for the last answer; None before the first one."""
    used = (entry["message"].get("usage") for entry in reversed(chain) if _is_answer(entry))
    found = next((usage for usage in used if is_object(usage)), None)
    return {name: found.get(name) or 0 for name in COUNTED} if found else None


def _is_answer(entry: Fields) -> bool:
    return entry.get("type") == "assistant" and not entry.get("isApiErrorMessage")


def _definitions(tools: list[Tool]) -> int:
    return tokens_of(json.dumps(definitions(tools))) if tools else 0


def tokens_of(text: str) -> int:
    """Return an estimate of the tokens of a text."""
    return len(text) // CHARS_PER_TOKEN
