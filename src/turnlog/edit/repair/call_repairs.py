"""Repair calls and results: give each call an id of its own, and a result."""

import uuid
from collections.abc import Container
from functools import partial
from typing import Any

from turnlog.conversation.context import INTERRUPTED_CALL, RESULT, USE
from turnlog.conversation.nodes import AssistantNode, ChainNode, UserNode
from turnlog.conversation.prompts import PromptKind
from turnlog.edit.check.checked_session import Case, Fault, message_key
from turnlog.edit.plan import Plan
from turnlog.edit.repair.repair_types import (
    Repair,
    marked_nodes,
    new_uuid,
    set_fields,
    take_blocks,
)
from turnlog.format.json_values import Fields, is_object
from turnlog.format.timestamps import TICK, parse_timestamp, stamp_of

SHARED = (
    "isSidechain",
    "userType",
    "entrypoint",
    "cwd",
    "sessionId",
    "session_id",
    "version",
    "gitBranch",
    "slug",
    "agentId",
)
"""Fields that a new entry copies from the entries around it."""
Names = dict[int, dict[int, str]]
"""New ids of calls or results, by entry index and position in the entry."""


def rename_calls(case: Case, marks: list[Fault], plan: Plan) -> None:
    """Assign a new id to each call whose id was used before, and to its result."""
    for index, names in _new_names(case.sent).items():
        node = case.session.nodes[index]
        plan.rewrite(node, partial(_with_names, names=names))


def answer_calls(case: Case, marks: list[Fault], plan: Plan) -> None:
    """Add a result that reports an interruption after the message of each unanswered call."""
    ends = _ends_of_messages(case.sent)
    waiting: dict[int, list[Fault]] = {}
    for mark in marks:
        if mark.node and mark.facts["call"]:
            waiting.setdefault(ends[mark.node.index].index, []).append(mark)
    for index, calls in waiting.items():
        _add_results(case, plan, ends[index], calls)


def drop_orphans(case: Case, marks: list[Fault], plan: Plan) -> None:
    """Remove results whose calls are not sent."""
    calls = {c.id for node in case.sent if isinstance(node, AssistantNode) for c in node.calls}

    def is_orphan(block: Fields) -> bool:
        return block.get("type") == RESULT and block.get("tool_use_id") not in calls

    for node in marked_nodes(marks):
        take_blocks(case, plan, node, is_orphan)


def _new_names(nodes: list[ChainNode]) -> Names:
    """Return new ids for calls whose id was used before, and for their results."""
    names: Names = {}
    used: set[str] = set()
    open_calls: dict[str, list[str]] = {}
    message = None
    for node in nodes:
        if isinstance(node, AssistantNode):
            if message != (message := message_key(node)):
                open_calls.clear()
            for rank, call in enumerate(node.calls):
                name = _unused_id(call.id, node.index, used)
                used.add(name)
                open_calls.setdefault(call.id, []).append(name)
                if name != call.id:
                    names.setdefault(node.index, {})[rank] = name
        elif isinstance(node, UserNode):
            # With two calls of the same id, the first result belongs to the first call: take ids in
            # order.
            for rank, result in enumerate(node.results):
                name = next(iter(open_calls.get(result.call_id, [])), result.call_id)
                open_calls.get(result.call_id, [name]).pop(0)
                if name != result.call_id:
                    names.setdefault(node.index, {})[rank] = name
    return names


def _unused_id(call_id: str, index: int, used: Container[str]) -> str:
    """Return `call_id` or, if it is taken, an id derived from it."""
    # Derived instead of random, so that a preview and the edit agree on new ids.
    name = call_id
    while name in used:
        name = f"toolu_{uuid.uuid5(uuid.NAMESPACE_OID, f'{name} {index}').hex[:24]}"
    return name


def _with_names(value: Fields, names: dict[int, str]) -> Fields:
    blocks: list[Any] = []
    rank = 0
    for block in value["message"]["content"]:
        kind = block.get("type") if is_object(block) else None
        if kind in (USE, RESULT):
            key = "id" if kind == USE else "tool_use_id"
            blocks.append(block | {key: names[rank]} if rank in names else block)
            rank += 1
        else:
            blocks.append(block)
    return value | {"message": value["message"] | {"content": blocks}}


def _ends_of_messages(nodes: list[ChainNode]) -> dict[int, AssistantNode]:
    """Map each entry to the last entry of its message.

    Results may come between the entries of a message; a prompt ends it.
    """
    ends: dict[int, AssistantNode] = {}
    end: AssistantNode | None = None
    for node in reversed(nodes):
        if isinstance(node, AssistantNode):
            if end is None or message_key(end) != message_key(node):
                end = node
            ends[node.index] = end
        elif isinstance(node, UserNode) and node.prompt is not PromptKind.TOOL_RESULT:
            end = None
    return ends


def _add_results(case: Case, plan: Plan, last: AssistantNode, calls: list[Fault]) -> None:
    """Insert results between a message and the entries that follow it."""
    (like,) = case.session.values([last])
    parent, moment = last.uuid, parse_timestamp(last.time)
    for mark in calls:
        moment = moment + TICK if moment else None
        stamp = {"timestamp": stamp_of(moment)} if moment else {}
        entry = _result(like, mark, parent) | stamp
        plan.add_after(last.index, entry)
        parent = entry["uuid"]
    for child in _followers(case, last):
        set_fields(plan, child, parentUuid=parent)


def _followers(case: Case, node: ChainNode) -> list[ChainNode]:
    """Return the children of a node on the path to the tip."""
    tree = case.session.tree
    children = tree.children.get(tree.ranks[node.uuid], []) if node.uuid else []
    return [tree.chain[rank] for rank in children if tree.chain[rank].index in case.path_indexes]


def _result(like: Fields, mark: Fault, parent: str | None) -> Fields:
    """Return the entry that the client writes for an interrupted call (2.1.325)."""
    failed = {"type": RESULT, "content": INTERRUPTED_CALL, "is_error": True}
    failed["tool_use_id"] = mark.facts["call"]
    return {
        "parentUuid": parent,
        "type": "user",
        "message": {"role": "user", "content": [failed]},
        "uuid": new_uuid(),
        "toolUseResult": INTERRUPTED_CALL,
        "toolDenialKind": "interrupted",
        "sourceToolAssistantUUID": mark.node.uuid if mark.node else parent,
        **{name: like[name] for name in SHARED if name in like},
    }


CALL_IDS: dict[str, Repair] = {"duplicate-call": rename_calls}
CALLS: dict[str, Repair] = {
    "unanswered-call": answer_calls,
    "open-call": answer_calls,
    "orphan-result": drop_orphans,
}
