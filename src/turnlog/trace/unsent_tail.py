"""Read only the tail of a session's file, from the first turn that is not completely sent.

The spans of a tail are the same as those of the whole file: if the tail depends on earlier lines,
the whole file is read.
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
from turnlog.trace.work import NOTHING, Crew, Past, Work, all_subagents, first_positions, turns_of

Sizes = Mapping[Path, int]


def open_tail(path: Path, mark: SendPosition | None) -> tuple[Session, Past]:
    """Open a session at a mark; open all of it if the file does not match the mark."""
    if mark is None or not _holds(path, mark):
        return open_session(path), NOTHING
    agents = frozenset(path.parent / name for name in mark.agents)
    return open_session(path, ReadExtent(mark.offset, mark.lines)), Past(mark.turns, agents)


def is_tail_sufficient(session: Session, past: Past, mark: SendPosition) -> bool:
    """Return whether a tail yields the same turns as the whole file would."""
    start = nanoseconds(mark.time)
    turns = turns_of(session, past)
    if not turns or start is None or session.nodes[0].offset != mark.offset:
        return False
    # A tail is sufficient if nothing in it depends on earlier lines. Counterexamples: an answer
    # whose prompt is before the mark (the user rewound), a result whose call is there (an orphan),
    # an earlier line that was written again (its time is older than the mark), or a sub-agent of an
    # earlier turn whose file has grown.
    return (
        turns[0].prompt is not None
        and turns[0].is_answered
        and not session.orphans
        and _is_plain(session)
        and _hangs_together(session, turns)
        and all(_is_since(turn, start) for turn in turns)
        and sizes_of(session, past.agents) == _sizes(session.path, mark)
        and _are_since(all_subagents(session, turns, past), start)
    )


def mark_at(
    session: Session, options: SpanOptions, unsent: Set[int], sizes: Sizes
) -> SendPosition | None:
    """Return the mark of the first turn with unsent spans, or of the last turn.

    `sizes` are the sizes of the sub-agents' files before they were read. Return None if the file
    cannot be split there.
    """
    turns = turns_of(session, options.past)
    rank = next((rank for rank, turn in enumerate(turns) if turn.n in unsent), len(turns) - 1)
    prompt = turns[rank].prompt if turns else None
    if prompt is None or prompt.time is None or not _can_start(session, prompt, turns[rank:]):
        return None
    crew = all_subagents(session, turns, options.past)
    loose = loose_by_turn(turns, crew.loose, options.ended)
    later = _agent_files(turns[rank:], crew, loose)
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
    """Return the sizes of the given files, by default those of a session's sub-agents."""
    if paths is None:
        paths = [agent.path for agent in session.subagents if agent.path != session.path]
    return {path: path.stat().st_size for path in paths if path.is_file()}


def _holds(path: Path, mark: SendPosition) -> bool:
    return path.stat().st_size >= mark.offset and probe_of(path, mark.offset) == mark.probe


def _sizes(path: Path, mark: SendPosition) -> Sizes:
    return {path.parent / name: size for name, size in mark.agents.items()}


def _is_plain(session: Session) -> bool:
    """Return whether no line lacks a uuid or is a sub-agent's: such lines depend on others."""
    chain = [node for node in session.nodes if isinstance(node, ChainNode)]
    return all(node.uuid and not node.is_sidechain for node in chain)


def _hangs_together(session: Session, turns: Iterable[Work]) -> bool:
    """Return whether only prompts have a parent that is not in the tail."""
    prompts = {turn.prompt.uuid for turn in turns if turn.prompt}
    tree = session.tree
    for node in tree.chain:
        parent = node.logical_parent if is_compaction(node) else node.parent
        if parent and parent not in tree.ranks and node.uuid not in prompts:
            return False
    return True


def _is_since(work: Work, start: int) -> bool:
    """Return whether no line is older than `start`; an older one is a copy of an earlier line."""
    return all((nanoseconds(node.time) or 0) >= start for node in _messages(work.nodes))


def _messages(nodes: Iterable[Node]) -> Iterator[Node]:
    return (node for node in nodes if isinstance(node, UserNode | AssistantNode))


def _are_since(crew: Crew, start: int) -> bool:
    """Return whether all sub-agents belong to turns of the tail, as far as can be determined."""
    started = [work for works in crew.started.values() for work in works]
    strays = [work for work in crew.loose if work.agent and work.agent.call_id]
    return not strays and all(_is_since(work, start) for work in (*started, *crew.loose))


def _can_start(session: Session, prompt: UserNode, turns: Sequence[Work]) -> bool:
    """Return whether a prompt splits a file: only older lines before it, all of `turns` after it.

    Later copies of older lines can then be recognized by their times.
    """
    positions = first_positions(session)
    prompts = [turn.prompt for turn in turns if turn.prompt]
    start = nanoseconds(prompt.time) or 0
    return (
        _is_plain(session)
        and all(
            (nanoseconds(node.time) or 0) < start
            for node in _messages(session.nodes[: prompt.index])
        )
        and all(node.offset >= prompt.offset for turn in turns for node in turn.nodes)
        and all(positions[other.uuid or ""] >= prompt.index for other in prompts)
    )


def _agent_files(turns: Iterable[Work], crew: Crew, loose: Mapping[int, list[Work]]) -> set[Path]:
    """Return the files of the sub-agents of some turns, including nested sub-agents."""
    found: set[Path] = set()
    waiting = list(turns)
    for turn in turns:
        waiting += loose.get(turn.n, [])
    while waiting:
        work = waiting.pop()
        found |= {work.agent.path} if work.agent else set()
        waiting += [agent for call in work.calls for agent in crew.started.get(call.id, [])]
    return found
