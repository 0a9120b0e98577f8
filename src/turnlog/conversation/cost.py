"""The cost of a message: tokens to dollars, at the prices of its day.

Prices are list prices (`prices.json`, written by `scripts/refresh_prices.py`); for Claude models,
Anthropic's prices, regardless of the provider. A model missing from the table has no price; none is
guessed.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from turnlog.conversation.models import model_name
from turnlog.conversation.nodes import SYNTHETIC
from turnlog.format.blocks import Iteration, TokenCounts, Usage
from turnlog.format.fields import given
from turnlog.format.timestamps import parse_timestamp

FAST = {
    "claude-fable-5-2": 2,
    "claude-opus-5-5": 2,
    "claude-opus-5": 2,
    "claude-opus-4-8": 2,
    "claude-opus-4-7": 6,
    "claude-opus-4-6": 6,
}
"""Factor of fast mode for every token price, caches included (2.1.325, observed)."""
US_ONLY = 1.1
"""Factor for inference restricted to the US, for every token price (documented)."""
WEB_SEARCH = 10 / 1000
"""Dollars per web search (documented); a fetch costs only its tokens."""
NEWEST = "9999"
"""A date later than every price change."""


class Price(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"since": "from"}
):
    """Dollars per million tokens."""

    since: str | None
    """First day of validity in UTC; None if valid from the start."""
    above: int = 0
    """Applies to prompts of more tokens than this, caches included."""
    input: float
    output: float
    cache_write_5m: float
    cache_write_1h: float
    cache_read: float


class PriceTable(Struct, frozen=True):
    source: str
    models: dict[str, list[Price]]


def cost_of(model: str | None, usage: Usage, when: str | None = None) -> float | None:
    """Return the cost of one message in dollars, at the prices of its timestamp or the newest ones.

    Return None if its model, or that of an advisor it consulted, has no price. The message's own
    iterations are included in its counts; an advisor's are not (documented).

    >>> cost_of("claude-opus-5", Usage(input_tokens=1000, output_tokens=200))
    0.01
    """
    moment = parse_timestamp(when)
    return cost_on(model, usage, moment.date().isoformat() if moment else None)


def cost_on(model: str | None, usage: Usage, day: str | None) -> float | None:
    """Return the cost of one message at the prices of a UTC day, or the newest ones."""
    if model == SYNTHETIC:
        return 0.0
    day = day or NEWEST
    dollars = _tokens_cost(model, usage, day)
    advice = list(_advice(usage)) if usage.iterations else []
    if not advice and usage.speed != "fast":  # nearly all messages
        if dollars is None or (not usage.server_tool_use and usage.inference_geo != "us"):
            return dollars
        return _extras(dollars, usage)
    costs = [dollars, *(_tokens_cost(given(one.model), one, day) for one in advice)]
    known = [cost for cost in costs if cost is not None]
    if len(known) < len(costs):
        return None
    known[0] *= FAST.get(model_name(model), 1) if given(usage.speed) == "fast" else 1
    return _extras(sum(known), usage)


def _extras(dollars: float, usage: Usage) -> float:
    """Apply the surcharge for the inference region, and add the cost of web searches."""
    region_factor = US_ONLY if usage.inference_geo == "us" else 1
    return dollars * region_factor + searches(usage) * WEB_SEARCH


def costs_by_kind(
    model: str | None, usage: Usage, when: str | None = None
) -> dict[str, float] | None:
    """Return the cost of one message by kind of token; None if it has no price.

    The values add up to `cost_of`. An advisor, whose model has prices of its own, is one kind.

    >>> costs_by_kind("claude-opus-5", Usage(input_tokens=1000, output_tokens=200))
    {'input': 0.005, 'output': 0.005}
    """
    moment = parse_timestamp(when)
    day = moment.date().isoformat() if moment else NEWEST
    price = _price_of(model, usage, day)
    if cost_on(model, usage, day) is None or price is None:
        return None
    region_factor = US_ONLY if given(usage.inference_geo) == "us" else 1
    factor = region_factor * (FAST.get(model_name(model), 1) if given(usage.speed) == "fast" else 1)
    found = {kind: cost * factor for kind, cost in _kinds_cost(price, usage).items()}
    advice = (_tokens_cost(given(one.model), one, day) for one in _advice(usage))
    found["advisor"] = sum(cost or 0 for cost in advice) * region_factor
    found["web_search"] = searches(usage) * WEB_SEARCH
    return {kind: cost for kind, cost in found.items() if cost}


def rates_on(model: str | None, usage: Usage, day: str | None) -> tuple[float, ...] | None:
    """Return dollars per million tokens of a message: input, output, cache writes and reads.

    Dollars per million tokens are microdollars per token. Return None if the model has no price.
    Advisors are not included: their models have their own prices.

    >>> rates_on("claude-opus-5", Usage(input_tokens=1), None)
    (5.0, 25.0, 6.25, 10.0, 0.5)
    """
    if model == SYNTHETIC:
        return (0.0,) * 5
    price = _price_of(model, usage, day or NEWEST)
    if price is None:
        return None
    factor = FAST.get(model_name(model), 1) if given(usage.speed) == "fast" else 1
    factor *= US_ONLY if given(usage.inference_geo) == "us" else 1
    rates = (price.input, price.output, price.cache_write_5m, price.cache_write_1h)
    return tuple(rate * factor for rate in (*rates, price.cache_read))


def split_advice(usage: Usage) -> tuple[Usage, list[tuple[str | None, Usage]]]:
    """Return the usage of a message itself, and the model and usage of each advisor it consulted.

    Their costs add up to the cost of the message.
    """
    advice = list(_advice(usage))
    if not advice:
        return usage, []
    own = [one for one in given(usage.iterations) or [] if not _is_advice(one)]
    shared = {name: getattr(usage, name) for name in ("service_tier", "inference_geo")}
    counts = [
        {name: getattr(one, name) for name in TokenCounts.__struct_fields__} for one in advice
    ]
    usages = [Usage(**fields, **shared) for fields in counts]
    models = [given(one.model) for one in advice]
    return replace(usage, iterations=own), list(zip(models, usages, strict=True))


def unpriced_models(model: str | None, usage: Usage) -> set[str]:
    """Return the models without a price, of a message and the advisors it consulted."""
    names = {model, *(given(one.model) for one in _advice(usage))} - {None, SYNTHETIC}
    return {name for name in names if name and not _rows_of(name)}


@lru_cache(256)
def understates_output(version: str | None) -> bool:
    """Return whether this client version may record the output count from the start of a message.

    Share of the output missing even in the last line of a message, counted in 943 public files:
    26% in 1.0.17-1.0.120, 45% in 2.0.5-2.1.7, 99% in 2.1.11-2.1.29, 68% in 2.1.30-2.1.56; then
    6% in 2.1.63-2.1.99 and 0.4% in 2.1.101-2.1.237. No way of counting can recover it.

    >>> understates_output("2.1.56"), understates_output("2.1.101")
    (True, False)
    """
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", version or "")
    return numbers is not None and tuple(map(int, numbers.groups())) <= (2, 1, 56)


def _tokens_cost(model: str | None, counts: TokenCounts, day: str) -> float | None:
    price = _price_of(model, counts, day)
    if price is None:
        return None
    short, long = cache_writes(counts)
    dollars = (
        (counts.input_tokens or 0) * price.input
        + (counts.output_tokens or 0) * price.output
        + (counts.cache_read_input_tokens or 0) * price.cache_read
        + short * price.cache_write_5m
        + long * price.cache_write_1h
    )
    return dollars / 1_000_000


def _kinds_cost(price: Price, counts: TokenCounts) -> dict[str, float]:
    short, long = cache_writes(counts)
    dollars = {
        "input": (given(counts.input_tokens) or 0) * price.input,
        "output": (given(counts.output_tokens) or 0) * price.output,
        "cache_read": (given(counts.cache_read_input_tokens) or 0) * price.cache_read,
        "cache_write_5m": short * price.cache_write_5m,
        "cache_write_1h": long * price.cache_write_1h,
    }
    return {kind: cost / 1_000_000 for kind, cost in dollars.items()}


def cache_writes(counts: TokenCounts) -> tuple[int, int]:
    """Return the tokens cached for 5 minutes and for an hour; unsplit counts mean 5 minutes."""
    total = counts.cache_creation_input_tokens or 0
    split = counts.cache_creation
    if not split:
        return total, 0
    # The split may not add up to the total. Charge the remainder at the cheaper five-minute rate.
    short, long = split.ephemeral_5m_input_tokens or 0, split.ephemeral_1h_input_tokens or 0
    return max(short, total - long), long


def _prompt(counts: TokenCounts) -> int:
    read = given(counts.cache_read_input_tokens) or 0
    return (given(counts.input_tokens) or 0) + read + sum(cache_writes(counts))


def _longest_prompt(usage: Usage) -> int:
    """Return the longest prompt of a message's own iterations."""
    # The usage may be the sum of several requests. Each request is priced by its own length: two
    # prompts of 150k tokens do not reach a price that applies above 200k.
    passes = [one for one in given(usage.iterations) or [] if not _is_advice(one)]
    return max(map(_prompt, passes)) if passes else _prompt(usage)


def _advice(usage: Usage) -> Iterator[Iteration]:
    return filter(_is_advice, given(usage.iterations) or [])


def _is_advice(iteration: Iteration) -> bool:
    return given(iteration.type) == "advisor_message"


def searches(usage: Usage) -> int:
    """Return the number of web searches in a message."""
    counts = usage.server_tool_use
    return (counts.web_search_requests or 0) if counts else 0


@lru_cache(4096)
def _prices_on(day: str, model: str | None) -> list[Price]:
    """Return a model's prices on a day: those with the latest start date up to that day."""
    reached = [row for row in _rows_of(model) if (row.since or "") <= day]
    newest = max((row.since or "" for row in reached), default="")
    return [row for row in reached if (row.since or "") == newest]


def _price_of(model: str | None, counts: TokenCounts, day: str) -> Price | None:
    """Return the price for a prompt on a day: that of the highest threshold below its length."""
    rows = _prices_on(day, model)
    if len(rows) == 1 and not rows[0].above:  # nearly all models: prompts of any length
        return rows[0]
    prompt = _longest_prompt(counts) if isinstance(counts, Usage) else _prompt(counts)
    fitting = [row for row in rows if row.above < max(prompt, 1)]
    return max(fitting, key=lambda row: row.above, default=None)


def _rows_of(model: str | None) -> list[Price]:
    return _price_table().models.get(model_name(model), [])


@cache
def _price_table() -> PriceTable:
    text = Path(__file__).with_name("prices.json").read_bytes()
    return msgspec.json.decode(text, type=PriceTable)
