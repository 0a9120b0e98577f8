"""Build Messages API requests: system prompt, tools, messages and cache breakpoints."""

from turnlog.agent.loop.conversation import Parts
from turnlog.agent.loop.system_prompt import NAMED
from turnlog.agent.tools.toolbox import definitions
from turnlog.conversation.context import messages_of
from turnlog.conversation.models import LONG_MARK
from turnlog.format.json_values import Fields

MARK = {"type": "ephemeral"}
LONG_CONTEXT = {"anthropic-beta": "context-1m-2025-08-07"}


def build_request(parts: Parts) -> Fields:
    """Return the request for the next answer."""
    return request_with(parts, messages_of(parts.recorder.chain, is_open=True))


def request_with(parts: Parts, messages: list[Fields]) -> Fields:
    """Return a request with other messages that hits the same prompt cache."""
    choice = parts.choice
    request: Fields = {
        "model": choice.model.removesuffix(LONG_MARK),
        "max_tokens": choice.max_tokens,
        "system": _marked([{"type": "text", "text": text} for text in _system(parts)]),
        "tools": _marked(definitions(parts.tools.values())),
        "messages": mark_messages(messages),
    }
    # `[1m]` is a notation of clients: the API takes the plain id and a header.
    if choice.model.endswith(LONG_MARK):
        request["extra_headers"] = LONG_CONTEXT
    if choice.thinking_tokens:
        request["thinking"] = {"type": "enabled", "budget_tokens": choice.thinking_tokens}
        # Thinking counts as output: the API refuses a budget that `max_tokens` does not exceed.
        request["max_tokens"] = max(choice.max_tokens, choice.thinking_tokens + 4096)
    return request


def _system(parts: Parts) -> list[str]:
    """Return the system prompt; the model named in it may change with every request."""
    role, *others = parts.system
    return [role, NAMED.format(model=parts.choice.model), *others]


def mark_messages(messages: list[Fields]) -> list[Fields]:
    """Set cache breakpoints on the last two user messages."""
    # The last one writes the cache for the next request; the one before reads what the previous
    # request wrote.
    asked = [place for place, message in enumerate(messages) if message["role"] == "user"][-2:]
    return [
        message | {"content": _marked(message["content"])} if place in asked else message
        for place, message in enumerate(messages)
    ]


def _marked(items: list[Fields]) -> list[Fields]:
    return [*items[:-1], items[-1] | {"cache_control": MARK}] if items else items
