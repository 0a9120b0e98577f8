"""Repair lines: put each entry on a complete line of its own that every client can parse."""

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
    """Put each entry on a line of its own; drop unreadable remains.

    Entries that turnlog can parse and the client cannot are encoded again.
    """
    plan.dropped_lines |= {mark.line for mark in marks if mark.line}
    unread = {mark.line for mark in marks if mark.rule in UNREAD}
    for node in case.session.nodes:
        if node.line in unread:
            plan.rewrite(node, _encodable)
    _rescue(case, plan)


def replace_lone_surrogates(case: Case, marks: list[Fault], plan: Plan) -> None:
    """Replace lone surrogates with U+FFFD, as 2.1.150 and later do."""
    for mark in marks:
        if mark.node:
            plan.rewrite(mark.node, sound_text)


def _rescue(case: Case, plan: Plan) -> None:
    """Keep complete entries that follow the remains of another one on the same line."""
    # Old clients append to a torn line: {"type":"us{"type":"user",...} holds one complete entry.
    nodes = iter(case.session.nodes)
    node, before = next(nodes, None), -1
    for line in read_lines(case.session.path):
        while node and node.line <= line.number:
            node, before = next(nodes, None), node.index
        if line.number in plan.dropped_lines:
            for entry in entries_in(split_values(line)[1].decode()):
                plan.add_after(before, entry)


def entries_in(remains: str) -> Iterator[Fields]:
    """Yield the complete entries within a text.

    >>> [entry["type"] for entry in entries_in('{"type":"us{"type":"mode","sessionId":"x"}')]
    ['mode']
    """
    start = remains.find('{"')
    while start >= 0:
        try:
            value, end = _decoder.raw_decode(remains, start)
        except (ValueError, RecursionError):
            value, end = None, start + 1
        # Objects within an entry, such as blocks, do not have both fields.
        if is_object(value) and "type" in value and "sessionId" in value:
            yield value
        start = remains.find('{"', end)


def _encodable(value: Fields) -> Fields:
    """Return an entry with every value representable in JSON."""
    return {key: _finite(item) for key, item in value.items()}


def _finite(value: Any) -> Any:
    if is_object(value):
        return {key: _finite(item) for key, item in value.items()}
    if is_array(value):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


REPAIRS: dict[str, Repair] = {
    "unreadable-line": mend_lines,
    "unreadable-messages": mend_lines,
    "unreadable-note": mend_lines,
    "torn-line": mend_lines,
    "no-newline": mend_lines,
    "several-values": mend_lines,
    "several-values-old": mend_lines,
    "several-values-note": mend_lines,
    "nul-line": mend_lines,
    "invalid-utf-8": mend_lines,
    "byte-order-mark": mend_lines,
    "lone-surrogate": replace_lone_surrogates,
}
