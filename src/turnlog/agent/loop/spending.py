"""Count the requests, tokens, cost and time of a turn."""

from collections.abc import Callable
from time import monotonic

import msgspec

from turnlog.agent.loop.events import Event, Inside, TurnEnded
from turnlog.agent.model.answer import StreamedMessage
from turnlog.conversation.cost import cost_of
from turnlog.format.blocks import Usage
from turnlog.format.json_values import Fields, is_object

COUNTED = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_creation_input_tokens": "cacheCreationInputTokens",
    "cache_read_input_tokens": "cacheReadInputTokens",
}
"""Token counts: the API's field name, and the one in the client's `result` message."""
COST = "costUSD"


class Spending:
    """Usage counters of one turn."""

    def __init__(self) -> None:
        self._started = monotonic()
        self.requests = 0
        self.usage: Fields = dict.fromkeys(COUNTED, 0)
        self.cost = 0.0
        self.models: dict[str, Fields] = {}
        self.api_seconds = 0.0
        self.denials: list[Fields] = []

    @property
    def seconds(self) -> float:
        return monotonic() - self._started

    def add_answer(self, answer: StreamedMessage) -> None:
        """Count an answer."""
        self.requests += 1
        self.add_aside(answer)

    def add_aside(self, answer: StreamedMessage) -> None:
        """Count an answer outside the conversation."""
        cost = price_of(answer.model, answer.usage)
        counts = {reported: answer.usage.get(name) or 0 for name, reported in COUNTED.items()}
        self._add(answer.usage, cost, answer.seconds)
        self._add_models({answer.model: counts | {COST: cost}})

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
        self.cost += cost
        self.api_seconds += seconds

    def _add_models(self, models: dict[str, Fields]) -> None:
        for name, counts in models.items():
            totals = self.models.setdefault(name, dict.fromkeys((*COUNTED.values(), COST), 0))
            for kind, count in counts.items():
                totals[kind] += count


def price_of(model: str, usage: Fields) -> float:
    """Return the cost of an answer in dollars; 0 if the model's price is unknown."""
    try:
        return cost_of(model, msgspec.convert(usage, Usage)) or 0.0
    except msgspec.ValidationError:
        return 0.0


def context_tokens(chain: list[Fields]) -> int:
    """Return the tokens in the context, according to the last answer's usage."""
    for entry in reversed(chain):
        message = entry.get("message") if entry.get("type") == "assistant" else None
        usage = message.get("usage") if is_object(message) else None
        # Answers that the client writes itself, such as API errors, count no tokens.
        if is_object(usage) and any(usage.get(name) for name in COUNTED):
            return sum(usage.get(name) or 0 for name in COUNTED)
    return 0
