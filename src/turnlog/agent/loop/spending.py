"""Count the requests, tokens, cost and time of a turn."""

from collections.abc import Callable
from time import monotonic

import msgspec

from turnlog.agent.loop.events import Event, Inside, TurnEnded
from turnlog.agent.model.answer import StreamedMessage
from turnlog.conversation.cost import cost_of
from turnlog.conversation.models import LONG_MARK, LONG_WINDOW, window_of
from turnlog.format.blocks import Usage
from turnlog.format.json_values import Fields, is_array, is_object

COUNTED = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_creation_input_tokens": "cacheCreationInputTokens",
    "cache_read_input_tokens": "cacheReadInputTokens",
}
"""Token counts: the API's field name, and the one in the client's `result` message."""
DETAILED = {
    "thinkingTokens": ("output_tokens_details", "thinking_tokens"),
    "cacheCreationEphemeral5mInputTokens": ("cache_creation", "ephemeral_5m_input_tokens"),
    "cacheCreationEphemeral1hInputTokens": ("cache_creation", "ephemeral_1h_input_tokens"),
    "webSearchRequests": ("server_tool_use", "web_search_requests"),
}
"""Detailed counts: their name in `cost-state` entries, and their path in the API's usage."""
SUMMED = {
    "output_tokens_details": ("thinking_tokens",),
    "server_tool_use": ("web_search_requests", "web_fetch_requests"),
    "cache_creation": ("ephemeral_1h_input_tokens", "ephemeral_5m_input_tokens"),
}
"""Nested counts of the API's usage, which are summed up like tokens."""
LATEST: Fields = {
    "service_tier": "standard",
    "inference_geo": "",
    "iterations": [],
    "speed": "standard",
    "fallback_credit": None,
}
"""Usage fields taken from the last answer that has them, with defaults (2.1.325, observed)."""
COST = "costUSD"


class Spending:
    """Usage counters of one turn."""

    def __init__(self) -> None:
        self._started = monotonic()
        self.requests = 0
        self.usage: Fields = dict.fromkeys(COUNTED, 0) | LATEST
        self.usage |= {outer: dict.fromkeys(inner, 0) for outer, inner in SUMMED.items()}
        self.cost = 0.0
        self.models: dict[str, Fields] = {}
        self.api_seconds = 0.0
        self.denials: list[Fields] = []

    @property
    def seconds(self) -> float:
        return monotonic() - self._started

    def add_answer(self, answer: StreamedMessage, model: str) -> None:
        """Count an answer of the requested model."""
        self.requests += 1
        self.add_aside(answer, model)

    def add_aside(self, answer: StreamedMessage, model: str) -> None:
        """Count an answer outside the conversation."""
        # Counts and price are those of the requested model (2.1.325, observed), even if the API
        # answers with a dated name. A gateway's alias has no price, so use the answering model's.
        cost = price_of(model, answer.usage) or price_of(answer.model, answer.usage)
        counts = {reported: answer.usage.get(name) or 0 for name, reported in COUNTED.items()}
        counts |= {name: _detail(answer.usage, place) for name, place in DETAILED.items()}
        self._add(answer.usage, cost, answer.seconds)
        self._add_models({name_in_usage(model): counts | {COST: cost}})

    def add_agent(self, ended: TurnEnded) -> None:
        """Add the usage of a sub-agent."""
        self._add(ended.usage, ended.cost, ended.api_seconds)
        self._add_models(ended.models)
        self.denials += ended.denials

    def counting(self, emit: Callable[[Event], None]) -> Callable[[Event], None]:
        """Return an emit function that also counts the usage of sub-agents."""

        def count(event: Event) -> None:
            if isinstance(event, Inside) and isinstance(event.event, TurnEnded):
                self.add_agent(event.event)
            emit(event)

        return count

    def ended(self, reason: str, text: str) -> TurnEnded:
        """Return the `TurnEnded` event."""
        return TurnEnded(
            reason,
            text,
            self.seconds,
            self.requests,
            self.usage,
            self.cost,
            self.denials,
            self.models,
            self.api_seconds,
        )

    def _add(self, usage: Fields, cost: float, seconds: float) -> None:
        for name in COUNTED:
            self.usage[name] += usage.get(name) or 0
        for outer, names in SUMMED.items():
            for inner in names:
                self.usage[outer][inner] += _detail(usage, (outer, inner))
        self.usage |= {name: usage[name] for name in LATEST if usage.get(name) is not None}
        self.cost += cost
        self.api_seconds += seconds

    def _add_models(self, models: dict[str, Fields]) -> None:
        for name, counts in models.items():
            totals = self.models.setdefault(name, dict.fromkeys((*COUNTED.values(), COST), 0))
            for kind, count in counts.items():
                totals[kind] = totals.get(kind, 0) + count


def _detail(usage: Fields, place: tuple[str, str]) -> int:
    outer, inner = place
    part = usage.get(outer)
    count = part.get(inner) if is_object(part) else None
    return count if isinstance(count, int) else 0


def name_in_usage(model: str) -> str:
    """Return the name under which the client counts a requested model (2.1.325, observed).

    >>> name_in_usage("claude-sonnet-4-5[1m]"), name_in_usage("claude-opus-5-5[1m]")
    ('claude-sonnet-4-5[1m]', 'claude-opus-5-5')
    """
    plain = model.removesuffix(LONG_MARK)
    return plain if window_of(plain, {}) == LONG_WINDOW else model


def price_of(model: str, usage: Fields) -> float:
    """Return the cost of an answer in dollars; 0 if the model's price is unknown."""
    try:
        return cost_of(model, msgspec.convert(usage, Usage)) or 0.0
    except msgspec.ValidationError:
        return 0.0


def context_tokens(chain: list[Fields]) -> int:
    """Return the tokens in the context, according to the last answer's usage."""
    # The usage of an answer kept by a compaction is that of the context before the compaction.
    kept = _kept_uuids(chain)
    for entry in reversed(chain):
        is_answer = entry.get("type") == "assistant" and entry.get("uuid") not in kept
        message = entry.get("message") if is_answer else None
        usage = message.get("usage") if is_object(message) else None
        # Answers that the client writes itself, such as API errors, count no tokens.
        if is_object(usage) and any(usage.get(name) for name in COUNTED):
            return sum(usage.get(name) or 0 for name in COUNTED)
    return 0


def _kept_uuids(chain: list[Fields]) -> list[str]:
    about = chain[0].get("compactMetadata") if chain else None
    kept = about.get("preservedMessages") if is_object(about) else None
    uuids = kept.get("uuids") if is_object(kept) else None
    return uuids if is_array(uuids) else []
