"""Only what was appended: the end of a session's file, from the first turn that was not all sent.

Where the end alone cannot tell what the whole file would (a line that follows on one before it, or
that was written there before), the whole file is read.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path

from turnlog.conversation.node_log import ReadExtent
from turnlog.conversation.nodes import AssistantNode, ChainNode, Node, UserNode
from turnlog.conversation.session import Session, open_session
from turnlog.conversation.tree import is_compaction
from turnlog.trace.progress import SendPosition, probe_of
from turnlog.trace.span_times import nanoseconds
from turnlog.trace.spans import SpanOptions, loose_by_turn
from turnlog.trace.work import NOTHING, Crew, Past, Work, crew_of, first_places, turns_of

Sizes = Mapping[Path, int]


def open_end(path: Path, mark: SendPosition | None) -> tuple[Session, Past]:
    """A session from a mark on; all of it where the file is not the one that has the mark."""
    if mark is None or not _holds(path, mark):
        return open_session(path), NOTHING
    agents = frozenset(path.parent / name for name in mark.agents)
    return open_session(path, ReadExtent(mark.offset, mark.lines)), Past(mark.turns, agents)


def is_enough(session: Session, past: Past, mark: SendPosition) -> bool:
    """Whether the end of a session tells as much of its turns as the whole file would."""
    start = nanoseconds(mark.time)
    turns = turns_of(session, past)
    if not turns or start is None or session.nodes[0].offset != mark.offset:
        return False
    return (
        turns[0].prompt is not None
        and turns[0].is_answered
        and not session.orphans
        and _is_plain(session)
        and _hangs_together(session, turns)
        and all(_is_since(turn, start) for turn in turns)
        and sizes_of(session, past.agents) == _sizes(session.path, mark)
        and _are_since(crew_of(session, turns, past), start)
    )


def mark_at(
    session: Session, options: SpanOptions, unsent: Set[int], sizes: Sizes
) -> SendPosition | None:
    """The mark before the last turn, or before the first of which not all was sent.

    `sizes` are those that the files of the sub-agents had before they were read. None where the
    end of the file could not be told from there.
    """
    turns = turns_of(session, options.past)
    rank = next((rank for rank, turn in enumerate(turns) if turn.n in unsent), len(turns) - 1)
    prompt = turns[rank].prompt if turns else None
    if prompt is None or prompt.time is None or not _can_start(session, prompt, turns[rank:]):
        return None
    crew = crew_of(session, turns, options.past)
    loose = loose_by_turn(turns, crew.loose, options.ended)
    later = _told_in(turns[rank:], crew, loose)
    kept = {path: size for path, size in sizes.items() if path not in later}
    folder = session.path.parent
    return SendPosition(
        offset=prompt.offset,
        lines=prompt.line - 1,
        turns=turns[rank].n - 1,
        time=prompt.time,
        probe=probe_of(session.path, prompt.offset),
        agents={str(path.relative_to(folder)): size for path, size in kept.items()},
    )


def sizes_of(session: Session, paths: Iterable[Path] | None = None) -> Sizes:
    """The sizes of the files of a session's sub-agents, or of those named."""
    if paths is None:
        paths = [agent.path for agent in session.subagents if agent.path != session.path]
    return {path: path.stat().st_size for path in paths if path.is_file()}


def _holds(path: Path, mark: SendPosition) -> bool:
    return path.stat().st_size >= mark.offset and probe_of(path, mark.offset) == mark.probe


def _sizes(path: Path, mark: SendPosition) -> Sizes:
    return {path.parent / name: size for name, size in mark.agents.items()}


def _is_plain(session: Session) -> bool:
    """Whether all lines have ids, and none is a sub-agent's: those are linked across the file."""
    chain = [node for node in session.nodes if isinstance(node, ChainNode)]
    return all(node.uuid and not node.is_sidechain for node in chain)


def _hangs_together(session: Session, turns: Iterable[Work]) -> bool:
    """Whether no line but a prompt follows on one that is not there."""
    prompts = {turn.prompt.uuid for turn in turns if turn.prompt}
    tree = session.tree
    for node in tree.chain:
        before = node.logical_parent if is_compaction(node) else node.parent
        if before and before not in tree.ranks and node.uuid not in prompts:
            return False
    return True


def _is_since(work: Work, start: int) -> bool:
    """Whether nothing of it is older: an older line is one that was written again."""
    return all((nanoseconds(node.time) or 0) >= start for node in _said(work.nodes))


def _said(nodes: Iterable[Node]) -> Iterator[Node]:
    return (node for node in nodes if isinstance(node, UserNode | AssistantNode))


def _are_since(crew: Crew, start: int) -> bool:
    """Whether all sub-agents are of the turns that were read, as far as can be told."""
    started = [work for works in crew.started.values() for work in works]
    strays = [work for work in crew.loose if work.agent and work.agent.call_id]
    return not strays and all(_is_since(work, start) for work in (*started, *crew.loose))


def _can_start(session: Session, prompt: UserNode, turns: Sequence[Work]) -> bool:
    """Whether a prompt divides a file: what is older stands before it, and these turns behind.

    Then a copy that was made of older lines is known by their times.
    """
    places = first_places(session)
    prompts = [turn.prompt for turn in turns if turn.prompt]
    start = nanoseconds(prompt.time) or 0
    return (
        _is_plain(session)
        and all(
            (nanoseconds(node.time) or 0) < start for node in _said(session.nodes[: prompt.index])
        )
        and all(node.offset >= prompt.offset for turn in turns for node in turn.nodes)
        and all(places[each.uuid or ""] >= prompt.index for each in prompts)
    )


def _told_in(turns: Iterable[Work], crew: Crew, loose: Mapping[int, list[Work]]) -> set[Path]:
    """The files of the sub-agents of some turns, those that sub-agents started included."""
    found: set[Path] = set()
    waiting = list(turns)
    for turn in turns:
        waiting += loose.get(turn.n, [])
    while waiting:
        work = waiting.pop()
        found |= {work.agent.path} if work.agent else set()
        waiting += [agent for call in work.calls for agent in crew.started.get(call.id, [])]
    return found
