"""Replace older turns with a summary, like the client's own compaction.

Only entries sent since the last compaction matter: earlier ones and other branches are dropped. The
kept turns follow the summary as one chain with increasing times, which every client reads in full.
"""

import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from turnlog.conversation.branch import since_compaction
from turnlog.conversation.nodes import AssistantNode, ChainNode, TipNode, UserNode
from turnlog.conversation.session import Session
from turnlog.conversation.tree import TIP_TYPES, grow_tree
from turnlog.conversation.turns import split_turns
from turnlog.edit.compaction_entries import (
    boundary_entry,
    common_fields,
    summary_entry,
    summary_text,
    title_of,
    tokens_at,
)
from turnlog.edit.plan import Plan, Rewrite, main_nodes
from turnlog.edit.transforms import (
    TransformOptions,
    is_moved_far,
    moved_to,
    take_calls,
    with_rising_times,
)
from turnlog.format.fields import given
from turnlog.format.json_values import Fields
from turnlog.format.state import FileHistoryDelta, FileHistorySnapshot, Summary
from turnlog.format.timestamps import TICK, parse_timestamp

KNOWN = TIP_TYPES | {"progress"}
"""Chain entry types that turnlog knows; entries of other types stay in place."""
PASSING = ("api-request", "queue-operation")
"""Kinds without a uuid that belong to the turns around them; the client does not read them."""
OWNED = ("summary", "file-history-snapshot", "file-history-delta")
"""Kinds without a uuid that name the entry they belong to."""


def compress(session: Session, plan: Plan, choice: TransformOptions) -> None:
    """Replace all but the last turns with a summary.

    Nothing changes if there are no older turns, or if they consist only of a summary.
    """
    sent = [] if plan.tip is None else _summed_up(session, plan.tip)
    remaining = [node for node in sent if node.index not in plan.dropped]
    turns = split_turns(remaining, session.messages, session.calls)
    older = turns[: max(0, len(turns) - choice.keep_last)]
    first = turns[len(older)].nodes[0] if len(older) < len(turns) else None
    position = sent.index(first) if first else len(sent)
    before, after = sent[:position], sent[position:]
    text = summary_text(session, older, before, choice) if older else None
    if text is None or plan.tip is None:
        return
    plan.transcript = choice.transcript
    names = str(uuid.uuid4()), str(uuid.uuid4())
    time = _time_behind(before, after) or datetime.fromtimestamp(session.state.mtime_ns / 1e9, UTC)
    # The API refuses a result without its call, and a call without its result.
    take_calls(plan, after, _torn_calls(before, after))
    leaf = _chain(plan, after, names[1], time + TICK)
    _drop_all_else(session, plan, after, names[1])
    common = common_fields(session, sent)
    behind = min((node.index for node in after), default=before[-1].index + 1) - 1
    plan.add_after(behind, boundary_entry(common, names[0], time, tokens_at(sent)))
    plan.add_after(behind, summary_entry(common, names[1], time + TICK, names[0], text))
    # The client's session picker reads titles from the end of the file.
    title = {"type": "summary", "summary": title_of(session, plan.tip), "leafUuid": leaf}
    plan.add_after(len(session.nodes) - 1, title)


def _summed_up(session: Session, tip: int) -> list[ChainNode]:
    """Return the entries to summarize: those that the client sends, or all if none has a uuid."""
    is_plain = session.tree.is_plain
    return session.branch_to(tip) if is_plain else since_compaction(session.tree, tip)


def _time_behind(before: Sequence[ChainNode], after: Sequence[ChainNode]) -> datetime | None:
    """Return a time between the dropped and the kept entries."""
    last = next(filter(None, (parse_timestamp(node.time) for node in reversed(before))), None)
    if last:
        return last + TICK
    first = next(filter(None, (parse_timestamp(node.time) for node in after)), None)
    return first - 2 * TICK if first else None


def _torn_calls(before: Iterable[ChainNode], after: Iterable[ChainNode]) -> set[str]:
    """Return the ids of calls that would be dropped without their result, or vice versa."""
    (uses, results), (later_uses, later_results) = _call_ids(before), _call_ids(after)
    return ((uses - later_uses) & later_results) | ((results - later_results) & later_uses)


def _call_ids(nodes: Iterable[ChainNode]) -> tuple[set[str], set[str]]:
    """Return the ids of the calls made in these entries, and of the calls answered in them."""
    uses: set[str] = set()
    results: set[str] = set()
    for node in nodes:
        if isinstance(node, AssistantNode):
            uses.update(call.id for call in node.calls)
        elif isinstance(node, UserNode):
            results.update(ref.call_id for ref in node.results)
    return uses, results


def _chain(plan: Plan, nodes: Sequence[ChainNode], summary: str, clock: datetime) -> str:
    """Link entries into one chain that starts at the summary; return the last one's uuid.

    Progress entries get a parent but no children: clients up to 2.0.76 do not know them, and lose
    what comes before them (observed: 1.0.60, 2.0.76).
    """
    stay = [n for n in nodes if n.index not in plan.dropped and _type(n) in KNOWN]
    stamps: dict[int, str | None] = {}
    for node, stamp in with_rising_times(stay, clock):
        stamps[node.index] = stamp
        plan.is_retimed |= is_moved_far(node, stamp)
    before = summary
    for node in nodes:
        if node.index in stamps:
            name = node.uuid or str(uuid.uuid4())
            links = {"uuid": name, "parentUuid": before}
            plan.rewrite(node, _linked(links, stamps[node.index]))
            before = name if _type(node) in TIP_TYPES else before
        # Notes that refer to a dropped entry now refer to the entry before it.
        elif node.uuid and node.index in plan.dropped:
            plan.ids[node.uuid] = before
    return before


def _type(node: ChainNode) -> str:
    return node.kind.partition("/")[0]


def _linked(links: Fields, stamp: str | None) -> Rewrite:
    def link(value: Fields) -> Fields:
        changes = {name: link for name, link in links.items() if value.get(name) != link}
        changes |= moved_to(value, stamp)
        return value | changes if changes else value

    return link


def _drop_all_else(session: Session, plan: Plan, after: Sequence[ChainNode], summary: str) -> None:
    """Drop everything except the kept entries and whatever belongs to them."""
    stay = {node.index for node in after}
    first = min(stay, default=len(session.nodes))
    main = list(main_nodes(session))
    gone: set[str] = set()
    for node in main:
        if node.index not in stay and _type(node) in KNOWN:
            plan.drop(node)
            gone.add(node.uuid or "")
    # A uuid may occur twice; if one of the two entries stays, references to it stay valid.
    gone -= {node.uuid or "" for node in after} | {""}
    plan.ids.update(dict.fromkeys(gone, summary))
    _drop_sidechains(session, plan, {node.index for node in main}, first)
    _drop_notes(session, plan, gone, after[-1].uuid if after else None)
    for node in session.nodes[:first]:
        if node.kind.startswith(PASSING):
            plan.drop(node)


def _drop_sidechains(session: Session, plan: Plan, main: set[int], first: int) -> None:
    """Drop sub-agents inside the file that began before the kept turns: their calls are gone."""
    side = [n for n in session.nodes if isinstance(n, ChainNode) and n.index not in main]
    tree = grow_tree(side)
    begun = [rank for rank in tree.roots if tree.chain[rank].index < first]
    gone = {node.uuid for rank in begun for node in tree.below(rank)}
    for node in side:
        if node.uuid in gone:
            plan.drop(node)


def _drop_notes(session: Session, plan: Plan, gone: set[str], tip: str | None) -> None:
    """Drop titles, which are replaced, and notes about dropped entries."""
    ranks = session.tree.ranks
    for node in session.nodes:
        if isinstance(node, TipNode):
            is_misleading = node.is_explicit and node.leaf in ranks and node.leaf != tip
            if node.leaf in gone or is_misleading:
                plan.drop(node)
    owned = [node for node in session.nodes if node.kind in OWNED]
    for node, entry in zip(owned, session.entries(owned), strict=True):
        match entry:
            case Summary():
                is_stale = given(entry.leaf_uuid) in ranks
            case FileHistorySnapshot() | FileHistoryDelta():
                is_stale = given(entry.message_id) in gone
            case _:
                is_stale = False
        if is_stale:
            plan.drop(node)
