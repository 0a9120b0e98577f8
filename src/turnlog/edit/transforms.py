"""Transforms: pure functions that add their changes to a plan, and can be combined.

Transforms that spare the last turns count only turns with something to remove, so applying a
transform twice has the same effect as applying it once.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from turnlog.conversation.backup_listings import listings_in
from turnlog.conversation.branch import branch_as_read
from turnlog.conversation.nodes import AssistantNode, BoundaryNode, ChainNode, TipNode, UserNode
from turnlog.conversation.session import Session
from turnlog.conversation.timeline import NEAR
from turnlog.conversation.tree import can_be_tip
from turnlog.edit.plan import Plan, main_nodes, replaced_nodes
from turnlog.format.blocks import THINKING
from turnlog.format.json_values import Fields, as_object, is_array, is_object, objects_in
from turnlog.format.timestamps import TICK, parse_timestamp, stamp_of
from turnlog.text import shortened

USE, RESULT = "tool_use", "tool_result"
UNUSED = ("progress", "api-request", "atis-latch", "tools-used", "queue-operation")
"""Entry kinds that the client never reads on resume (observed: 2.1.325)."""
PREVIEW = 200
"""Characters kept of a shortened text."""
SHORT = PREVIEW + 40
"""Maximum length of a shortened text, so that none is shortened twice."""
OUT_OF_ORDER = timedelta(seconds=1)
ENCODED = frozenset({"data", "base64", "encrypted_content"})
"""Fields that are useless when shortened: images, documents."""

Unwanted = Callable[[Fields], bool]


@dataclass(frozen=True)
class TransformOptions:
    """Options of transforms."""

    keep_last: int = 0
    """Number of turns at the end that are spared."""
    larger_than: int = 2000
    """Texts up to this many characters are left alone."""
    summarise: Callable[[str], str] | None = None
    """Summarizes extracts of a conversation; without it, the extracts are the summary."""
    transcript: Path | None = None
    """The file with the full conversation; the summary names it for a model that needs details."""


def strip_tools(session: Session, plan: Plan, choice: TransformOptions) -> None:
    """Remove calls with their results, and thinking that led to nothing else."""
    main = {node.index: node for node in main_nodes(session)}
    calls = {call.id for call in session.calls if call.use.index in main}
    # Results without their call, for example after a broken chain: the client would drop them
    # anyway.
    orphans = {orphan.call_id for orphan in session.orphans if orphan.result.index in main}
    spared = _spared_calls(session, choice)
    take_calls(plan, main.values(), (calls | orphans) - spared)
    _drop_lone_thinking(session, plan, calls - spared)


def strip_thinking(session: Session, plan: Plan, choice: TransformOptions) -> None:
    """Remove thinking blocks."""
    for node in main_nodes(session):
        if isinstance(node, AssistantNode) and THINKING & set(node.blocks):
            _take(plan, node, lambda block: block.get("type") in THINKING)


def strip_images(session: Session, plan: Plan, choice: TransformOptions) -> None:
    """Replace every image with a placeholder."""
    for node in main_nodes(session):
        if (
            isinstance(node, UserNode) and ("image" in node.blocks or node.results)
        ) or node.kind == "attachment/file":
            plan.rewrite(node, _without_images)


def stub_results(session: Session, plan: Plan, choice: TransformOptions) -> None:
    """Shorten results, including the client's second copy of them; calls stay unchanged."""
    spared = _spared_calls(session, choice)
    for node in session.nodes:
        if isinstance(node, UserNode) and any(ref.call_id not in spared for ref in node.results):
            plan.rewrite(node, lambda value: with_short_results(value, choice.larger_than))


def strip_progress(session: Session, plan: Plan, choice: TransformOptions) -> None:
    """Drop lines that the client never reads on resume."""
    for node in session.nodes:
        if node.kind.partition("/")[0].startswith(UNUSED):
            plan.drop(node)


def keep_branch(session: Session, plan: Plan, leaf: int) -> None:
    """Keep only the branch that ends at a leaf, and notes written before that leaf."""
    last = session.tree.chain[leaf].index
    kept = {node.index for node in session.branch_to(leaf) if node.index <= last}
    for node in session.nodes:
        is_kept = node.index in kept if isinstance(node, ChainNode) else node.index < last
        # A last-prompt note names the tip of the whole session, which may be on another branch.
        if not is_kept or node.kind == "last-prompt":
            plan.drop(node)
    # A backup of a dropped prompt would otherwise be taken for one of the entry before it.
    for listing in listings_in(session, plan.dropped):
        rank = session.tree.rank_of(listing.message_id)
        if rank is not None and session.tree.chain[rank].index in plan.dropped:
            plan.drop(listing.node)


def straighten(session: Session, plan: Plan, choice: TransformOptions) -> None:
    """Turn the active branch into one chain with strictly increasing times.

    Clients before 2.1.150 read such a chain in full. Of parallel results, they follow only one, and
    they continue at the latest time. Children of an entry without a uuid cannot name it and stay
    unchanged. If the newest client starts at an entry because its parent is missing, every client
    will start there.
    """
    before: ChainNode | None = None
    replaced = replaced_nodes(session)
    start = session.late_start(plan.tip)
    unjoined = _unjoined(session, start)
    whole = [] if plan.tip is None else branch_as_read(session.tree, plan.tip)
    branch = [node for node in whole if node.index not in plan.dropped]
    moved = _unfold(branch, {node.uuid for node in whole})
    if moved and branch[-1].uuid in moved:
        _move_tip(session, plan, whole[-1], branch[-1])
    # Example: an answer A makes two calls at once, and the results R1 and R2 both have A as parent.
    # The newest client collects both; an old one walks from the last entry up its parents and never
    # sees R1. After straightening: A <- R1 <- R2, and all clients see the same conversation.
    for node, stamp in with_rising_times(branch, apart=start):
        plan.is_retimed |= is_moved_far(node, stamp)
        is_moved = node.uuid in moved
        is_joined = (node.parent is not None or is_moved) and node.uuid not in unjoined
        parent = before.uuid if before and is_joined else None
        for each in (node, *(replaced.get(node.uuid, []) if node.uuid else [])):
            plan.rewrite(each, _relinked(parent, stamp, is_moved))
        if isinstance(node, BoundaryNode) and moved:
            plan.rewrite(node, _unfolded(before.uuid if before else None))
        # Clients up to 2.0.76 stop at a progress entry: it gets a parent, but no children.
        before = node if can_be_tip(node) else before
    if branch:
        _lift_tip(session, plan, branch, replaced)


def _unjoined(session: Session, start: ChainNode | None) -> set[str | None]:
    """Return the uuids of a late start and of the progress entries that lead to it.

    They keep their missing parent, so that every client starts there.
    """
    tree = session.tree
    rank = tree.rank_of(start.uuid) if start else None
    if rank is None:
        return set()
    return {tree.chain[each].uuid for each in (rank, *tree.progress_above(rank))}


def _lift_tip(
    session: Session,
    plan: Plan,
    branch: list[ChainNode],
    replaced: dict[str | None, list[ChainNode]],
) -> None:
    """Give the tip a later time than every entry of other branches, including progress.

    Lines that the tip replaces get this time, too, so that straightening again changes nothing.
    """
    indexes = {node.index for node in branch} | plan.dropped
    others = (node for node in session.tree.chain if node.index not in indexes)
    # Old clients resume at the entry with the latest time, wherever it is.
    moments = [moment for node in others if (moment := parse_timestamp(node.time))]
    tip = next((node for node in reversed(branch) if can_be_tip(node)), branch[-1])
    for each in (tip, *(replaced.get(tip.uuid, []) if tip.uuid else [])) if moments else ():
        plan.rewrite(each, lambda value: _later_than(value, max(moments)))


def _later_than(value: Fields, moment: datetime) -> Fields:
    own = parse_timestamp(value.get("timestamp"))
    return value if own and own > moment else value | moved_to(value, stamp_of(moment + TICK))


def _move_tip(session: Session, plan: Plan, was: ChainNode, now: ChainNode) -> None:
    """Update tip notes to name the new last entry."""
    for node in session.nodes:
        if isinstance(node, TipNode) and node.leaf == was.uuid:
            plan.rewrite(node, lambda value: value | {"leafUuid": now.uuid})


def _unfold(branch: list[ChainNode], present: set[str | None]) -> set[str]:
    """Move each compaction's preserved messages behind its summary; return their uuids.

    Only newer clients find them in their old place. If one of the messages is not `present` in the
    file, no client reads any of them. Lists that contain their own anchor stay unchanged.
    """
    moved: set[str] = set()
    for boundary in [node for node in branch if isinstance(node, BoundaryNode) and node.preserved]:
        preserved = boundary.preserved
        uuids = list(preserved.uuids or []) if preserved else []
        by_uuid = {node.uuid: node for node in branch}
        anchor = by_uuid.get(preserved.anchor_uuid or None) if preserved else None
        # As clients do: the list counts as a whole or not at all.
        if anchor is None or anchor.uuid in uuids or not present.issuperset(uuids):
            continue
        kept = [by_uuid[uuid] for uuid in uuids if uuid in by_uuid]
        branch[:] = [node for node in branch if node.uuid not in uuids]
        position = branch.index(anchor) + 1
        branch[position:position] = kept
        moved.update(uuids)
    return moved


def _unfolded(before: str | None) -> Callable[[Fields], Fields]:
    """Return a rewrite that removes a boundary's list of preserved messages."""

    def unfold(value: Fields) -> Fields:
        metadata = value.get("compactMetadata")
        fields = as_object(metadata)
        kept = {name: value for name, value in fields.items() if not name.startswith("preserved")}
        changes: Fields = {"compactMetadata": kept} if kept != fields else {}
        if value.get("logicalParentUuid") not in (None, before):
            changes["logicalParentUuid"] = before
        return value | changes if changes else value

    return unfold


def with_rising_times(
    nodes: Iterable[ChainNode], clock: datetime | None = None, apart: ChainNode | None = None
) -> Iterator[tuple[ChainNode, str | None]]:
    """Yield nodes with strictly increasing timestamps, all after `clock`; None for no time.

    The node `apart` gets a time too late for clients to join it to the node before it.
    """
    for node in nodes:
        moment = parse_timestamp(node.time)
        step = NEAR + TICK if node is apart else TICK
        if moment and clock and moment < clock + step:
            moment = clock + step
        clock = moment or clock
        yield node, stamp_of(moment) if moment else None


def is_moved_far(node: ChainNode, stamp: str | None) -> bool:
    """Return whether a new time is later than a client's own lines are out of order."""
    was, now = parse_timestamp(node.time), parse_timestamp(stamp)
    return was is not None and now is not None and now - was > OUT_OF_ORDER


def take_calls(plan: Plan, nodes: Iterable[ChainNode], calls: set[str]) -> None:
    """Remove the uses and results of some calls from entries."""
    for node in nodes:
        if isinstance(node, AssistantNode):
            _take(plan, node, lambda block: block.get("type") == USE and block.get("id") in calls)
        elif isinstance(node, UserNode) and node.results:
            _take(plan, node, lambda block: block.get("tool_use_id") in calls)


def _spared_calls(session: Session, choice: TransformOptions) -> set[str]:
    if not choice.keep_last:
        return set()
    with_calls = [turn for turn in session.turns if turn.calls]
    return {call.id for turn in with_calls[-choice.keep_last :] for call in turn.calls}


def _take(plan: Plan, node: AssistantNode | UserNode, is_unwanted: Unwanted) -> None:
    """Remove blocks from an entry, and drop the entry if none is left."""
    blocks = list(_outlines(node))
    # Decide from the node alone: most lines stay as they are, and need not be read.
    if blocks and all(map(is_unwanted, blocks)):
        plan.drop(node)
    elif any(map(is_unwanted, blocks)):
        plan.rewrite(node, lambda value: _only(value, is_unwanted))
        plan.stripped |= {node.index} if {USE, RESULT} & set(node.blocks) else set()


def _outlines(node: AssistantNode | UserNode) -> Iterator[Fields]:
    """Yield the blocks of an entry as far as its node stores them: types and ids."""
    calls = iter(node.calls if isinstance(node, AssistantNode) else ())
    results = iter(node.results if isinstance(node, UserNode) else ())
    for kind in node.blocks:
        if kind == USE and isinstance(node, AssistantNode):
            yield {"type": kind, "id": next(calls).id}
        elif kind == RESULT and isinstance(node, UserNode):
            yield {"type": kind, "tool_use_id": next(results).call_id}
        else:
            yield {"type": kind}


def _drop_lone_thinking(session: Session, plan: Plan, calls: set[str]) -> None:
    """Drop messages that consist only of thinking once their calls are removed."""
    for message in session.messages:
        if any(call.id in calls for node in message.nodes for call in node.calls):
            remaining = [node for node in message.nodes if node.index not in plan.dropped]
            # A remaining `USE` is a call that was removed from a line with other blocks.
            types = {kind for node in remaining for kind in node.blocks} - {USE}
            if types <= THINKING:
                for node in remaining:
                    plan.drop(node)


def blocks_of(value: Fields) -> list[Fields]:
    """Return the blocks of an entry; some exporters write them without a message around them."""
    message = value.get("message")
    content = message.get("content") if is_object(message) else message or value.get("content")
    return objects_in(content)


def with_blocks(value: Fields, blocks: list[Any]) -> Fields:
    """Return an entry with its blocks replaced."""
    message = value.get("message")
    if is_object(message):
        return value | {"message": message | {"content": blocks}}
    return value | {"message" if is_array(message) else "content": blocks}


def _only(value: Fields, is_unwanted: Unwanted) -> Fields:
    return with_blocks(value, [block for block in blocks_of(value) if not is_unwanted(block)])


def _without_images(value: Fields) -> Fields:
    changed = _replace_images(value)
    return changed if changed != value else value


def _replace_images(value: Any) -> Any:
    if is_array(value):
        return [_replace_images(each) for each in value]
    if not is_object(value):
        return value
    if value.get("type") == "image" and "source" in value:
        return {"type": "text", "text": "[image removed]"}
    kept = {key: _replace_images(item) for key, item in value.items()}
    return kept | {"base64": ""} if isinstance(kept.get("base64"), str) else kept


def with_short_results(value: Fields, limit: int) -> Fields:
    """Return an entry with long texts in its results shortened."""
    blocks = [
        block | {"content": _shortened(block.get("content"), limit)}
        if block.get("type") == RESULT and "content" in block
        else block
        for block in blocks_of(value)
    ]
    changed = with_blocks(value, blocks)
    if "toolUseResult" in value:
        changed["toolUseResult"] = _shortened(value["toolUseResult"], limit)
    return changed if changed != value else value


def _shortened(value: Any, limit: int) -> Any:
    # A text that was shortened once is never longer than `SHORT`, so a second pass leaves it alone.
    if isinstance(value, str) and len(value) > max(limit, SHORT):
        return shortened(value, PREVIEW)
    if is_array(value):
        return [_shortened(each, limit) for each in value]
    if is_object(value):
        return {
            key: item if key in ENCODED else _shortened(item, limit) for key, item in value.items()
        }
    return value


def _relinked(
    parent: str | None, stamp: str | None, is_moved: bool = False
) -> Callable[[Fields], Fields]:
    def relink(value: Fields) -> Fields:
        changes: Fields = {}
        was = value.get("parentUuid")
        if parent and was != parent and (was is not None or is_moved):
            changes["parentUuid"] = parent
        changes |= moved_to(value, stamp)
        return value | changes if changes else value

    return relink


def moved_to(value: Fields, stamp: str | None) -> Fields:
    """Return the fields that set an entry's time; {} if it already has that time.

    Reports recognize copies of a prompt by its time, so the original time is recorded.
    """
    was = value.get("timestamp")
    if not stamp or parse_timestamp(was) == parse_timestamp(stamp):
        return {}
    is_prompt = value.get("type") == "user" and "toolUseResult" not in value
    recorded = {"recordedAt": was} if is_prompt and was and "recordedAt" not in value else {}
    return {"timestamp": stamp} | recorded
