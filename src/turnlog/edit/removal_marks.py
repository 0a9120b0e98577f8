"""Mark a session from which an edit removed lines that tell what happened to files.

Without the line of a command, a file looks unchanged, so no content is certain any more. The mark
is a field of each first entry of the conversation; clients keep it and ignore it.
"""

from collections.abc import Iterable, Iterator

from turnlog.conversation.backup_listings import KINDS
from turnlog.conversation.node_log import NodeLog
from turnlog.conversation.nodes import AssistantNode, ChainNode, Node, UserNode
from turnlog.edit.plan import Plan
from turnlog.format.entries import REMOVED, ChainEntry, RemovalMark
from turnlog.format.fields import given
from turnlog.format.file_views import HOOK_TRACES
from turnlog.format.json_values import Fields

FILES = ("attachment/edited_text_file", "attachment/file", *KINDS)


def mark_removals(plan: Plan) -> None:
    """Mark the first entries if a plan removes evidence about files, or drops such a mark."""
    gone = plan.stripped | {
        index for index in plan.dropped if _tells_of_files(plan.log.nodes[index])
    }
    starts = _starts(plan)
    old = list(_marks(plan.log))
    is_lost = any(node.index in plan.dropped for node, _ in old)
    if not (gone or plan.is_retimed or is_lost or plan.dropped_lines):
        return
    kept = [n for n in plan.log.nodes if isinstance(n, ChainNode) and n.index not in plan.dropped]
    last = kept[-1] if kept else None
    # Lines behind the last kept one only concern what happens from there on: a command in the
    # background may go on when the session is resumed.
    is_anywhere = plan.is_retimed or bool(plan.dropped_lines)
    is_cut = last and not is_anywhere and min(gone, default=last.index + 1) > last.index
    marks = [given(mark.after_uuid) for _, mark in old]
    if is_cut and last:
        marks += [last.uuid] if gone else []
    else:
        marks.append(None)
    mark: Fields = {"afterUuid": _earliest(plan, marks)}
    for node in starts:
        plan.marks[node.index] = {REMOVED: mark}
    for added in plan.added.values():
        for entry in added:
            if "uuid" in entry and entry.get("parentUuid") is None:
                entry[REMOVED] = mark


def _earliest(plan: Plan, marks: Iterable[str | None]) -> str | None:
    """Return the entry of the first mark; None if it is the start, or if an entry is gone."""
    ranks = [plan.log.tree.rank_of(uuid) for uuid in marks]
    known = [plan.log.tree.chain[rank] for rank in ranks if rank is not None]
    if len(known) < len(ranks):
        return None
    # Entries behind a new cut are dropped, and with them what they marked.
    kept = [node for node in known if node.index not in plan.dropped]
    return min(kept, key=lambda node: node.index).uuid if kept else None


def _marks(log: NodeLog) -> Iterator[tuple[ChainNode, RemovalMark]]:
    roots = [log.tree.chain[rank] for rank in log.tree.roots]
    for node, entry in zip(roots, log.entries(roots), strict=True):
        mark = given(entry.turnlog_removed) if isinstance(entry, ChainEntry) else None
        if mark:
            yield node, mark


def _starts(plan: Plan) -> list[ChainNode]:
    """Return the kept entries without a kept entry above them."""
    tree = plan.log.tree
    is_below: dict[int, bool] = {-1: False}
    found: list[ChainNode] = []
    for rank, node in enumerate(tree.chain):
        path: list[int] = []
        above = tree.parents[rank]
        while above not in is_below and tree.chain[above].index in plan.dropped:
            path.append(above)
            above = tree.parents[above]
        is_kept = is_below.get(above, above >= 0)
        is_below |= dict.fromkeys(path, is_kept)
        if not is_kept and node.index not in plan.dropped:
            found.append(node)
    return found


def _tells_of_files(node: Node) -> bool:
    """Return whether an entry may tell that a file was read or changed, or by what."""
    if isinstance(node, AssistantNode):
        return bool(node.calls)
    return isinstance(node, UserNode) or node.kind.startswith((*HOOK_TRACES, *FILES))
