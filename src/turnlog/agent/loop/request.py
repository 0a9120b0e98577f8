"""Build Messages API requests: system prompt, tools, messages and cache breakpoints."""

from itertools import islice

from turnlog.agent.loop.conversation import Parts
from turnlog.agent.loop.system_prompt import NAMED
from turnlog.agent.model.model_names import ModelChoice, adapts, thinks
from turnlog.agent.tools.toolbox import definitions
from turnlog.conversation.models import LONG_MARK
from turnlog.format.json_values import Fields

MARK = {"type": "ephemeral"}
LONG_CONTEXT = "context-1m-2025-08-07"
TASK_BUDGETS = "task-budgets-2026-03-13"
PARAMETERS = ("model", "max_tokens", "extra_headers", "thinking", "output_config")
"""Names of the parameters that depend on the model."""
DEFAULT_BUDGET = 31_999
"""Thinking budget of older models in tokens (2.1.325, observed)."""


def build_request(parts: Parts) -> Fields:
    """Return the request for the next answer."""
    recorder = parts.recorder
    return request_with(parts, recorder.context.messages_at(recorder.chain))


def request_with(parts: Parts, messages: list[Fields]) -> Fields:
    """Return a request for the given messages that reuses the cached system prompt and tools."""
    # The API allows four breakpoints: system prompt and tools have one each, the messages two.
    return model_parameters(parts.choice) | {
        "system": _marked([{"type": "text", "text": text} for text in _system(parts)]),
        "tools": _marked(definitions(parts.tools.values())),
        "messages": mark_messages(messages),
    }


def model_parameters(choice: ModelChoice) -> Fields:
    """Return the parameters that depend on the model."""
    parameters: Fields = {
        "model": choice.model.removesuffix(LONG_MARK),
        "max_tokens": choice.max_tokens,
    }
    if betas := _betas(choice):
        parameters["extra_headers"] = {"anthropic-beta": ",".join(betas)}
    return parameters | _thinking(choice) | _output_config(choice)


def _betas(choice: ModelChoice) -> list[str]:
    """Return the values of the beta header."""
    # `[1m]` is a notation of clients: the API takes the plain id and a header.
    long = [LONG_CONTEXT] if choice.model.endswith(LONG_MARK) else []
    budget = [TASK_BUDGETS] if choice.tuning.task_budget else []
    return list(dict.fromkeys([*long, *choice.tuning.betas, *budget]))


def _thinking(choice: ModelChoice) -> Fields:
    """Return the parameters for thinking.

    Newer models decide themselves how much they think, so any budget only turns thinking on. Older
    models get the budget itself (2.1.325, observed).
    """
    tuning = choice.tuning
    shown: Fields = {"display": tuning.display} if tuning.display else {}
    if tuning.thinking == "disabled":
        return {"thinking": {"type": "disabled"}}
    if adapts(choice.model):
        return {"thinking": {"type": "adaptive"} | shown}
    wants = tuning.thinking or thinks(choice.model)
    tokens = choice.thinking_tokens or (DEFAULT_BUDGET if wants else 0)
    if not tokens:
        return {}
    # Thinking counts as output: the API refuses a budget that `max_tokens` does not exceed.
    return {
        "thinking": {"type": "enabled", "budget_tokens": tokens} | shown,
        "max_tokens": max(choice.max_tokens, tokens + 4096),
    }


def _output_config(choice: ModelChoice) -> Fields:
    config: Fields = {"effort": choice.effort} if choice.effort else {}
    if choice.tuning.task_budget:
        config["task_budget"] = {"type": "tokens", "total": choice.tuning.task_budget}
    return {"output_config": config} if config else {}


def _system(parts: Parts) -> list[str]:
    """Return the system prompt; the model named in it may change with every request."""
    role, *others = parts.system
    # The API refuses an empty text.
    named = NAMED.format(model=parts.choice.model)
    return [text for text in (role, named, *others) if text]


def mark_messages(messages: list[Fields]) -> list[Fields]:
    """Set cache breakpoints on the last two user messages."""
    # The last breakpoint writes the cache for the next request; the one before it reads the cache
    # that the previous request wrote.
    places = range(len(messages) - 1, -1, -1)
    asked = islice((place for place in places if messages[place]["role"] == "user"), 2)
    marked = list(messages)
    for place in asked:
        marked[place] = marked[place] | {"content": _marked(marked[place]["content"])}
    return marked


def _marked(items: list[Fields]) -> list[Fields]:
    return [*items[:-1], items[-1] | {"cache_control": MARK}] if items else items
