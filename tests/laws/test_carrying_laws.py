"""The parts of a session add up to its cost, for every session file and for damaged ones."""

from collections.abc import Sequence
from math import isclose
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from support.strategies import damaged_files, sound_files
from turnlog.conversation.carried_items import CarriedItem
from turnlog.conversation.carried_path import CarriedPath
from turnlog.conversation.carrying import carrying_of
from turnlog.conversation.carrying_groups import GROUPINGS, group_items
from turnlog.conversation.charges import charges_of
from turnlog.conversation.cost import cost_of
from turnlog.conversation.request_costs import Zone, request_cost
from turnlog.conversation.session import Session, open_session
from turnlog.render.costs import session_cost

CLOSE = 1e-9
"""Dollars."""


def is_equal(first: float, second: float) -> bool:
    """Damaged files have up to 10^12 tokens, which cost more than a float resolves to 1e-9."""
    return isclose(first, second, rel_tol=1e-12, abs_tol=CLOSE)


def check_sums(whole: Session) -> None:
    """Items, groups and messages add up to the cost of the session; no item costs less than 0."""
    messages = [message for charges in charges_of(whole) for message in charges.messages]
    costs = [cost_of(message.model, message.usage, message.started) for message in messages]
    total = sum(cost for cost in costs if cost is not None)
    found = carrying_of(whole)
    assert is_equal(found.cost, total)
    assert found.requests == len([cost for cost in costs if cost is not None])
    for by in GROUPINGS:
        assert is_equal(sum(group.cost for group in group_items(found.items, by)), total)
    assert all(item.carried >= -CLOSE - 1e-12 * total for item in found.items)
    view = session_cost(whole)
    if not view.unpriced:
        assert is_equal(found.cost, view.cost_usd)
    for message, cost in zip(messages, costs, strict=True):
        parts = request_cost(message)
        assert (parts is None) == (cost is None)
        assert parts is None or is_equal(parts.total, cost or 0)


def test_the_parts_of_every_session_add_up_to_its_cost(session_file: Path) -> None:
    check_sums(open_session(session_file))


@given(damaged_files() | sound_files)
@example(b'{"content":true,"type":"system","subtype":"local_command"}\n')
def test_so_do_the_parts_of_files_of_any_kind(scratch: Path, content: bytes) -> None:
    scratch.write_bytes(content)
    check_sums(open_session(scratch))


sizes = st.lists(st.integers(0, 50), min_size=1, max_size=12)
zones = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 9)), min_size=1, max_size=4)


@given(sizes, st.lists(st.tuples(st.integers(0, 12), zones), max_size=8))
def test_a_difference_array_spreads_costs_as_adding_up_token_by_token_does(
    tokens: list[int], requests: list[tuple[int, list[tuple[int, int]]]]
) -> None:
    path = CarriedPath()
    system = CarriedItem("system", 0)
    items = [CarriedItem("call", 0, tokens=float(size), is_scaled=True) for size in tokens]
    expected = [0.0] * (len(items) + 1)
    pushed = 0
    for length, prompt in sorted(requests, key=lambda each: each[0]):
        for item in items[pushed : min(length, len(items))]:
            path.push(item)
        pushed = max(pushed, min(length, len(items)))
        spread = [Zone(size, float(cost)) for size, cost in prompt]
        path.spread(spread, system)
        add_one_by_one(expected, tokens[:pushed], spread)
    path.restore((0, 0))
    found = [system.carried, *(item.carried for item in items)]
    assert all(isclose(*pair, abs_tol=1e-9) for pair in zip(found, expected, strict=True))


def add_one_by_one(expected: list[float], tokens: Sequence[int], prompt: Sequence[Zone]) -> None:
    """Add the cost of a prompt to that of the system prompt and the items, cell by cell."""
    whole, carried = sum(zone.tokens for zone in prompt), sum(tokens)
    before = max(0, whole - carried)
    shrink = (whole - before) / carried if carried else 0
    ends = [float(before)]
    for size in tokens:
        ends.append(ends[-1] + size * shrink)
    start = 0
    for zone in prompt:
        left = 0.0
        for place, right in enumerate(ends):
            overlap = min(right, start + zone.tokens) - max(left, start)
            expected[place] += max(0.0, overlap) * zone.cost / zone.tokens
            left = right
        start += zone.tokens
