"""Write src/turnlog/conversation/prices.json from the prices that genai-prices publishes.

Run it by a Python that has that package: `pip install genai-prices` in an environment of its own.
Prices are dollars per million tokens; a row holds from its date on, for prompts of more than
`above` tokens.
"""

import json
import re
import sys
from collections.abc import Iterator
from decimal import Decimal
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, cast

TABLE = Path(__file__).parent.parent / "src" / "turnlog" / "conversation" / "prices.json"

SOURCES = {
    "anthropic": r"claude-(?!2|v1)[a-z0-9-]+",
    "zai": r"glm-\d(\.\d)?(-[a-z]+)?",
    "openrouter": r"qwen/qwen3-coder[a-z0-9-]*",
}
"""Providers, and which of their models are taken. Of qwen3-coder there are only resellers' prices,
which differ tenfold, so it has one only under the id of the reseller."""

# Input, output and, where it is not a tenth, reading the cache, for models that genai-prices lacks:
# as of 2026-08, and 5.2 as the client 2.1.325 counts it (observed).
ADDED = {
    "claude-fable-5": ("10", "50"),
    "claude-fable-5-2": ("8", "40", "0.2"),
    "claude-haiku-4-5": ("1", "5"),
    "claude-opus-4-5": ("5", "25"),
    "claude-opus-4-6": ("5", "25"),
    "claude-opus-4-7": ("5", "25"),
    "claude-opus-4-8": ("5", "25"),
    "claude-opus-5": ("5", "25"),
    "claude-sonnet-5": ("2", "10"),
}

# Multiples of the input price that Anthropic asks, for a price that is not listed by itself.
# Elsewhere caching has no common rule: what is not listed costs as much as other input.
ANTHROPIC = {"5m": Decimal("1.25"), "1h": Decimal(2), "read": Decimal("0.1")}
PLAIN = {"5m": Decimal(1), "1h": Decimal(1), "read": Decimal(1)}

Row = dict[str, Any]


def main() -> None:
    """Write the table."""
    try:
        providers: list[Any] = import_module("genai_prices.data").providers
    except ModuleNotFoundError:
        sys.exit("genai-prices is missing: pip install genai-prices (best in a throw-away venv)")
    models = {name: list(added_rows(*prices)) for name, prices in ADDED.items()}
    models |= {name: rows for name, rows in published(providers) if rows}
    source = f"genai-prices {metadata.version('genai-prices')}"
    TABLE.write_text(table_text(source, models), "utf-8")
    print(f"{TABLE}: {len(models)} models, {source}")


def published(providers: list[Any]) -> Iterator[tuple[str, list[Row]]]:
    """The name and the rows of each model that is taken."""
    for provider in providers:
        wanted = SOURCES.get(provider.id, "(?!)")
        ratios = ANTHROPIC if provider.id == "anthropic" else PLAIN
        for model in provider.models:
            name = model.id.lower()
            if re.fullmatch(wanted, name):
                yield base_name(name), list(model_rows(model.prices, ratios))


def base_name(name: str) -> str:
    """A model's name without what says the same: `-latest`, and the `-0` of a first version."""
    return re.sub(r"(?<=\d)-0$", "", name.removesuffix("-latest"))


def model_rows(prices: Any, ratios: dict[str, Decimal]) -> Iterator[Row]:
    """The rows of one model: of each date, that of any prompt and then those of longer ones."""
    if not isinstance(prices, list):
        yield from dated_rows(None, prices, ratios)
        return
    for price in cast("list[Any]", prices):
        # A constraint on the time of day has no start date, and ends the script here.
        start = None if price.constraint is None else price.constraint.start_date.isoformat()
        yield from dated_rows(start, price.prices, ratios)


def dated_rows(start: str | None, prices: Any, ratios: dict[str, Decimal]) -> Iterator[Row]:
    """The rows of one date; none where the model is free."""
    stored = cast("dict[str, Any]", prices.__dict__)
    listed = {key: value for key, value in stored.items() if value is not None}
    if "input_mtok" not in listed:
        return
    tiers = {tier.start for value in listed.values() for tier in getattr(value, "tiers", ())}
    for above in (0, *sorted(tiers)):
        figures = {key: figure_above(value, above) for key, value in listed.items()}
        yield row(start, above, figures, ratios)


def figure_above(value: Any, above: int) -> Decimal:
    """A price, at the tier that starts where `above` says."""
    steps = [tier.price for tier in getattr(value, "tiers", ()) if tier.start <= above]
    return steps[-1] if steps else getattr(value, "base", value)


def added_rows(put_in: str, put_out: str, read: str = "") -> Iterator[Row]:
    """The row of a model that genai-prices lacks."""
    figures = {"input_mtok": Decimal(put_in), "output_mtok": Decimal(put_out)}
    figures |= {"cache_read_mtok": Decimal(read)} if read else {}
    yield row(None, 0, figures, ANTHROPIC)


def row(
    start: str | None, above: int, figures: dict[str, Decimal], ratios: dict[str, Decimal]
) -> Row:
    """One row as it is written."""
    put_in = figures["input_mtok"]
    prices = {
        "input": put_in,
        "output": figures["output_mtok"],
        "cache_write_5m": figures.get("cache_write_mtok", put_in * ratios["5m"]),
        "cache_write_1h": figures.get("cache_write_1h_mtok", put_in * ratios["1h"]),
        "cache_read": figures.get("cache_read_mtok", put_in * ratios["read"]),
    }
    when: Row = {"from": start} | ({"above": above} if above else {})
    return when | {key: plain_number(value) for key, value in prices.items()}


def plain_number(value: Decimal) -> int | float:
    """A number as JSON has it: 5, not 5.0."""
    return int(value) if value == int(value) else float(value)


def table_text(source: str, models: dict[str, list[Row]]) -> str:
    """The whole table, one row a line."""
    parts = [
        f"    {json.dumps(name)}: [\n"
        + ",\n".join(f"      {json.dumps(one)}" for one in rows)
        + "\n    ]"
        for name, rows in sorted(models.items())
    ]
    body = ",\n".join(parts)
    return f'{{\n  "source": {json.dumps(source)},\n  "models": {{\n{body}\n  }}\n}}\n'


if __name__ == "__main__":
    main()
