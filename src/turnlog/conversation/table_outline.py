"""Encode the figures of turns as columns of a node table, and decode a range of turns."""

from array import array
from collections.abc import Callable, Sequence
from typing import Any

from turnlog.conversation.node_table import TYPES, NodeTable, StaleTable
from turnlog.conversation.prompts import PromptKind
from turnlog.conversation.turn_figures import Outline, TurnFigures

PREFIX = "figure_"
TIME_LENGTH = 24
"""Characters of a client's timestamps, such as 2026-11-15T06:26:50.450Z."""
NO_TIME = "\0" * TIME_LENGTH
ODD_TIME = "?" * TIME_LENGTH
"""Stands for a timestamp of another length, which is read from its line."""
KINDS = ("", *PromptKind)
SCALE = 10**10
"""Costs are stored in units of 1e-10 dollars, to which they are rounded."""

ReadTime = Callable[[int], str | None]
"""Returns the start of a turn, given its position."""


def encode_figures(
    figures: Sequence[TurnFigures], models: Sequence[str]
) -> "dict[str, array[Any]]":
    """Return the columns for the figures of all turns."""
    places = {model: place for place, model in enumerate(models, 1)}
    encoders: dict[str, Callable[[Any], int]] = {
        "kind": KINDS.index,
        "cost_usd": lambda cost: -1 if cost is None else round(cost * SCALE),
        "model": lambda model: places[model] if model else 0,
        "working_ms": _encode_optional,
        "elapsed_ms": _encode_optional,
        "idle_ms": _encode_optional,
    }
    columns: dict[str, array[Any]] = {}
    for name in TurnFigures._fields:
        values: list[Any] = [getattr(row, name) for row in figures]
        if name == "started":
            columns[PREFIX + name] = array("B", "".join(map(_encode_time, values)).encode("ascii"))
        else:
            encoded = map(encoders[name], values) if name in encoders else values
            columns[PREFIX + name] = array(TYPES[PREFIX + name], encoded)
    return columns


def decode_figures(
    table: NodeTable, places: range, names: Sequence[str], read_time: ReadTime
) -> Outline:
    """Return figures of consecutive turns, as `outline_of` does."""
    kinds, models = [*map(str, KINDS)], [None, *table.head.models]
    decoders: dict[str, Callable[[list[int]], list[Any]]] = {
        "kind": lambda values: [kinds[value] for value in values],
        "cost_usd": lambda values: [None if value < 0 else value / SCALE for value in values],
        "model": lambda values: [models[value] for value in values],
        "working_ms": _decode_optional,
        "elapsed_ms": _decode_optional,
        "idle_ms": _decode_optional,
        "is_complete": lambda values: list(map(bool, values)),
    }
    outline: Outline = {}
    for name in names:
        column = table[PREFIX + name]
        if name == "started":
            outline[name] = _decode_times(column, places, read_time)
            continue
        values = column[places.start : places.stop].tolist()
        outline[name] = decoders[name](values) if name in decoders else values
    return outline


def _encode_time(time: str | None) -> str:
    if time is None:
        return NO_TIME
    # All times take the same room, so the nth is at a known place. A time in another format is
    # read from its line again.
    is_usual = len(time) == TIME_LENGTH and time.isascii() and time[0].isdigit()
    return time if is_usual else ODD_TIME


def _decode_times(column: memoryview, places: range, read_time: ReadTime) -> list[str | None]:
    try:
        content = column[places.start * TIME_LENGTH : places.stop * TIME_LENGTH]
        text = bytes(content).decode("ascii")
    except UnicodeDecodeError as error:
        raise StaleTable("a time is damaged") from error
    times: list[str | None] = [
        text[start : start + TIME_LENGTH] for start in range(0, len(text), TIME_LENGTH)
    ]
    if NO_TIME in text or ODD_TIME in text:
        for rank, time in enumerate(times):
            if time == NO_TIME:
                times[rank] = None
            elif time == ODD_TIME:
                times[rank] = read_time(places[rank])
    return times


def _encode_optional(value: int | None) -> int:
    return -1 if value is None else value


def _decode_optional(values: list[int]) -> list[int | None]:
    return [None if value < 0 else value for value in values]
