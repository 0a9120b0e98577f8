"""The type of a repair, and small edits that repairs share."""

import uuid
from collections.abc import Callable, Iterable
from functools import partial

from turnlog.conversation.nodes import ChainNode, Node
from turnlog.edit.check.checked_session import Case, Fault
from turnlog.edit.plan import Plan
from turnlog.edit.transforms import blocks_of, with_blocks
from turnlog.format.json_values import Fields

Repair = Callable[[Case, list[Fault], Plan], None]
"""Adds the changes that fix some faults to a plan."""


def new_uuid() -> str:
    return str(uuid.uuid4())


def marked_nodes(marks: Iterable[Fault]) -> list[ChainNode]:
    """Return the entries with faults, each once."""
    nodes = {mark.node.index: mark.node for mark in marks if mark.node}
    return list(nodes.values())


def set_fields(plan: Plan, node: Node, **fields: object) -> None:
    """Set fields of an entry, by their names in the file."""
    plan.rewrite(node, partial(_with_fields, fields=fields))


def take_blocks(
    case: Case,
    plan: Plan,
    node: Node,
    is_unwanted: Callable[[Fields], bool],
    instead: Fields | None = None,
) -> None:
    """Remove blocks from an entry; if none is left, use `instead` or drop the entry."""
    (value,) = case.session.values([node])
    kept = [block for block in blocks_of(value) if not is_unwanted(block)]
    if kept or instead:
        plan.rewrite(node, partial(_without_blocks, is_unwanted=is_unwanted, instead=instead))
    else:
        plan.drop(node)


def _with_fields(value: Fields, fields: Fields) -> Fields:
    return value | fields


def _without_blocks(
    value: Fields, is_unwanted: Callable[[Fields], bool], instead: Fields | None
) -> Fields:
    kept = [block for block in blocks_of(value) if not is_unwanted(block)]
    return with_blocks(value, kept or ([instead] if instead else []))
