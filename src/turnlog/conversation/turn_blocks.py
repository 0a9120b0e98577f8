"""Figures of blocks of consecutive turns, which a viewer of a long session loads first.

A session of a million lines has an outline of 40 MB. Its blocks take 60 kB, and show which part of
the outline to load next. Node tables contain the blocks of their turns.
"""

from array import array
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from turnlog.conversation.node_table import NONE, TYPES, NodeTable
from turnlog.conversation.table_outline import SCALE
from turnlog.conversation.turn_figures import Outline

BLOCK = 256
"""Turns in a block."""
LONG = 25
"""Turns with more rows are listed in `long_turns`: a viewer mounts them part by part."""
SUMMED = ("calls", "errors", "edits", "compactions", "tokens", "rows")
NEEDED = ("line", *SUMMED, "cost_usd", "context", "model")
"""Figures that a block is computed from."""
PREFIX = "block_"


class TurnBlock(NamedTuple):
    """The figures of up to `BLOCK` turns."""

    line: int
    """The line of the first turn's prompt."""
    calls: int
    errors: int
    edits: int
    compactions: int
    tokens: int
    rows: int
    cost_units: int | None
    """In units of 1e-10 dollars, to which costs are rounded; None if a price is unknown."""
    context: int
    """Tokens of the last turn's last request."""
    model: str | None
    """The model of that request."""
    long_turns: list[tuple[int, int]]
    """Positions of turns with more than `LONG` rows, and their rows."""


def blocks_of(outline: Outline, first: int = 0) -> list[TurnBlock]:
    """Return the blocks of an outline with the columns `NEEDED`, which starts at turn `first`."""
    count = len(outline["line"])
    return [_block(outline, slice(at, at + BLOCK), first) for at in range(0, count, BLOCK)]


def encode_blocks(outline: Outline, models: Sequence[str]) -> "dict[str, array[Any]]":
    """Return the columns of a table for its complete blocks; an incomplete last one is left out."""
    # The last block still grows with the session; a stored one would be out of date with the next
    # line.
    count = len(outline["line"]) // BLOCK
    blocks = blocks_of(outline)[:count]
    places = {model: place for place, model in enumerate(models, 1)}
    long_turns = [turn for block in blocks for turn in block.long_turns]
    columns: dict[str, list[int]] = {
        name: [getattr(block, name) for block in blocks] for name in ("line", *SUMMED, "context")
    }
    columns["cost_units"] = [
        NONE if block.cost_units is None else block.cost_units for block in blocks
    ]
    columns["model"] = [places[block.model] if block.model else 0 for block in blocks]
    columns["long_turn"] = [turn for turn, _ in long_turns]
    columns["long_rows"] = [rows for _, rows in long_turns]
    return {PREFIX + name: array(TYPES[PREFIX + name], values) for name, values in columns.items()}


def decode_blocks(table: NodeTable) -> list[TurnBlock]:
    """Return the whole blocks of a table's turns."""
    names = ("line", *SUMMED, "cost_units", "context", "model")
    columns = {name: table[PREFIX + name].tolist() for name in names}
    models = [None, *table.head.models]
    long_turns: list[list[tuple[int, int]]] = [[] for _ in columns["line"]]
    long_rows = table[PREFIX + "long_rows"]
    for place, turn in enumerate(table[PREFIX + "long_turn"]):
        long_turns[turn // BLOCK].append((turn, long_rows[place]))
    return [
        TurnBlock(
            columns["line"][at],
            *(columns[name][at] for name in SUMMED),
            cost_units=None if cost == NONE else cost,
            context=columns["context"][at],
            model=models[columns["model"][at]],
            long_turns=long_turns[at],
        )
        for at, cost in enumerate(columns["cost_units"])
    ]


def total_cost(blocks: Iterable[TurnBlock]) -> float | None:
    """Return the cost of all blocks; None if one of them is unknown."""
    costs = [block.cost_units for block in blocks]
    known = [cost for cost in costs if cost is not None]
    return sum(known) / SCALE if len(known) == len(costs) else None


def _block(outline: Outline, part: slice, first: int) -> TurnBlock:
    costs, rows = outline["cost_usd"][part], outline["rows"][part]
    # Costs are summed as integers: the total does not depend on how turns are divided into blocks.
    return TurnBlock(
        outline["line"][part.start],
        *(sum(outline[name][part]) for name in SUMMED),
        cost_units=None if None in costs else sum(round(cost * SCALE) for cost in costs),
        context=outline["context"][part][-1],
        model=outline["model"][part][-1],
        long_turns=[
            (place, count) for place, count in enumerate(rows, first + part.start) if count > LONG
        ],
    )
