"""The cost of a request along its prompt: cache reads first, then cache writes, then fresh input.

The cache covers a prefix, and entries that live for an hour precede those that live for five
minutes (both documented). So the kinds of input tokens form consecutive zones of the prompt.
"""

from typing import NamedTuple

from turnlog.conversation.cost import cache_writes, costs_by_kind, split_advice
from turnlog.conversation.messages import Message
from turnlog.format.blocks import TokenCounts
from turnlog.format.fields import given

ZONES = ("cache_read", "cache_write_1h", "cache_write_5m", "input")
"""Kinds of input tokens, in the order of the prompt."""


class Zone(NamedTuple):
    """Consecutive tokens of a prompt that cost the same."""

    tokens: int
    cost: float


class RequestCost(NamedTuple):
    """The cost of a message, split by the part of its request that caused it."""

    prompts: list[list[Zone]]
    """The zones of each prompt; there are several if the API processed the prompt repeatedly."""
    output: float
    services: float
    """Web searches, and advisors that the message consulted."""

    @property
    def total(self) -> float:
        zones = (zone.cost for prompt in self.prompts for zone in prompt)
        return sum(zones) + self.output + self.services


def request_cost(message: Message) -> RequestCost | None:
    """Return the parts of a message's cost, which add up to `cost_of`; None without a price."""
    kinds = costs_by_kind(message.model, message.usage, message.started)
    if kinds is None:
        return None
    passes = _passes(message)
    totals = {kind: sum(tokens[kind] for tokens in passes) for kind in ZONES}
    prompts = [
        [
            Zone(tokens[kind], kinds.get(kind, 0.0) * tokens[kind] / totals[kind])
            for kind in ZONES
            if tokens[kind]
        ]
        for tokens in passes
    ]
    services = kinds.get("advisor", 0.0) + kinds.get("web_search", 0.0)
    return RequestCost(prompts, kinds.get("output", 0.0), services)


def prompt_tokens(message: Message) -> int:
    """Return the length of a message's prompt; of the first one if there were several."""
    return sum(_passes(message)[0].values())


def _passes(message: Message) -> list[dict[str, int]]:
    """Return the tokens of each prompt that the API processed for a message.

    A message that consults an advisor continues in a second pass, which reads the prompt again.
    """
    whole = _tokens(message.usage)
    if not message.usage.iterations:
        return [whole]
    own = split_advice(message.usage)[0]
    passes = [_tokens(one) for one in given(own.iterations) or []]
    # Not every iteration is listed in every version; use the list only if it is complete.
    is_complete = all(sum(one[kind] for one in passes) == whole[kind] for kind in ZONES)
    return passes if len(passes) > 1 and is_complete else [whole]


def _tokens(counts: TokenCounts) -> dict[str, int]:
    short, long = cache_writes(counts)
    return {
        "cache_read": given(counts.cache_read_input_tokens) or 0,
        "cache_write_1h": long,
        "cache_write_5m": short,
        "input": given(counts.input_tokens) or 0,
    }
