"""Repairs of lines: each entry on a whole line of its own that every client can read."""

import json
import math
from collections.abc import Iterator
from typing import Any

from turnlog.conversation.context import sound_text
from turnlog.edit.check.checked_session import Case, Fault
from turnlog.edit.check.tree_checks import UNREAD
from turnlog.edit.plan import Plan
from turnlog.edit.repair.repair_types import Repair
from turnlog.format.decode import split_values
from turnlog.format.json_values import Fields, is_array, is_object
from turnlog.format.jsonl import read_lines

_decoder = json.JSONDecoder(strict=False)


def mend_lines(case: Case, marks: list[Fault], plan: Plan) -> None:
    """Give each entry a line of its own; drop remains that nothing can be read from.

    What turnlog can read and the client cannot is written anew.
    """
    plan.dropped_lines |= {mark.line for mark in marks if mark.line}
    unread = {mark.line for mark in marks if mark.rule in UNREAD}
    for node in case.session.nodes:
        if node.line in unread:
            plan.rewrite(node, _written_anew)
    _rescue(case, plan)


def replace_halves(case: Case, marks: list[Fault], plan: Plan) -> None:
    """Put the mark for what is lost in the place of half a character, as 2.1.150 and later do."""
    for mark in marks:
        if mark.node:
            plan.rewrite(mark.node, sound_text)


def _rescue(case: Case, plan: Plan) -> None:
    """Keep whole entries behind the remains of another: old clients write onto a torn line."""
    nodes = iter(case.session.nodes)
    node, before = next(nodes, None), -1
    for line in read_lines(case.session.path):
        while node and node.line <= line.number:
            node, before = next(nodes, None), node.index
        if line.number in plan.dropped_lines:
            for entry in entries_in(split_values(line)[1].decode()):
                plan.add_after(before, entry)


def entries_in(remains: str) -> Iterator[Fields]:
    """The whole entries that stand somewhere in a text.

    >>> [entry["type"] for entry in entries_in('{"type":"us{"type":"mode","sessionId":"x"}')]
    ['mode']
    """
    place = remains.find('{"')
    while place >= 0:
        try:
            value, end = _decoder.raw_decode(remains, place)
        except (ValueError, RecursionError):
            value, end = None, place + 1
        # What an entry of its own has, and what is held by another has not.
        if is_object(value) and "type" in value and "sessionId" in value:
            yield value
        place = remains.find('{"', end)


def _written_anew(value: Fields) -> Fields:
    """An entry of which every value can be written as JSON."""
    return {key: _finite(held) for key, held in value.items()}


def _finite(value: Any) -> Any:
    if is_object(value):
        return {key: _finite(held) for key, held in value.items()}
    if is_array(value):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


REPAIRS: dict[str, Repair] = {
    "unreadable-line": mend_lines,
    "unreadable-note": mend_lines,
    "torn-line": mend_lines,
    "no-newline": mend_lines,
    "several-values": mend_lines,
    "several-values-old": mend_lines,
    "several-values-note": mend_lines,
    "nul-line": mend_lines,
    "invalid-utf-8": mend_lines,
    "byte-order-mark": mend_lines,
    "lone-surrogate": replace_halves,
}
