"""Moments of a session as users name them: a turn, a line or a time."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from shlex import quote

from turnlog.conversation.nodes import ChainNode
from turnlog.conversation.session import Session
from turnlog.errors import NotFound, UsageError
from turnlog.format.timestamps import parse_timestamp, parse_until, seconds_of
from turnlog.text import plural
from turnlog.worktree.beliefs import doubted
from turnlog.worktree.file_names import FileName
from turnlog.worktree.places import AMONG, BEFORE, BEHIND, END, SessionPosition
from turnlog.worktree.worktree import FileRevision, Worktree

TURN = re.compile(r"(?:turn[: ]?)?(\d{1,9})", re.IGNORECASE)
LINE = re.compile(r"(?:line[: ]?|L)(\d{1,9})", re.IGNORECASE)
CLOCK = re.compile(r"\d{1,2}:\d\d(:\d\d)?")
"""A time of day, which is taken to be on the last day of the session."""
MINUTE = re.compile(r"(?:.*[T ])?\d{1,2}:\d\d(?:Z|[+-]\d\d:?\d\d)?")
"""A time without seconds."""
OUT_OF_ORDER = "the times of the lines are not in order"
SPELLINGS = "a turn such as 3, a line such as line:120, or a time"


@dataclass(frozen=True, slots=True)
class FileMoment:
    """A moment of a branch."""

    place: SessionPosition
    leaf: int | None
    """Rank of the branch's leaf; None for the active one."""
    label: str
    others: tuple[SessionPosition, ...] = ()
    """Places that may be meant as well, because the times of lines are not in order."""


def state_at(worktree: Worktree, name: FileName, moment: FileMoment) -> FileRevision:
    """Return the state of a file at a moment."""
    state = worktree.at(name, moment.place, moment.leaf)
    others = (worktree.at(name, place, moment.leaf).belief for place in moment.others)
    if all((each.certainty, each.raw) == (state.certainty, state.content) for each in others):
        return state
    return replace(state, belief=doubted(state.belief, OUT_OF_ORDER))


def last_known_in_full(worktree: Worktree, name: FileName, moment: FileMoment) -> FileMoment | None:
    """Return the last moment up to another one at which a whole file is known; None if none is."""
    for version in reversed(worktree.versions(name, moment.leaf, moment.place)):
        if version.content is not None:
            line = at_line(worktree, version.place.line, moment.leaf)
            # Behind a line with several calls, the state may be that of a later one.
            if state_at(worktree, name, line).content == version.content:
                return line
    return None


def parse_moment(worktree: Worktree, text: str | None, leaf: int | None = None) -> FileMoment:
    """Return the moment that a user means; without a text, the end of the branch.

    A number is a turn of the branch, `line:120` a line of the file, anything else a time.
    """
    if text is None or text == "last":
        return FileMoment(_end_of(worktree, leaf), leaf, "the end")
    if found := TURN.fullmatch(text):
        return at_turn(worktree, int(found[1]), leaf)
    if found := LINE.fullmatch(text):
        return at_line(worktree, int(found[1]), leaf)
    return _at_time(worktree, text, leaf)


def at_turn(worktree: Worktree, number: int, leaf: int | None = None) -> FileMoment:
    """Return the end of a turn."""
    session = worktree.session
    turns = session.turns if leaf is None else session.turns_to(leaf)
    if not 1 <= number <= len(turns):
        hint = f"turnlog show {quote(session.id)}"
        raise NotFound(f"{session.id} has {plural(len(turns), 'turn')}, not {number}", hint)
    turn = turns[number - 1]
    return FileMoment(worktree.place_of_turn(turn.nodes), leaf, f"turn {number}")


def at_line(worktree: Worktree, line: int, leaf: int | None = None) -> FileMoment:
    """Return the moment of a line, on the branch that it belongs to."""
    session = worktree.session
    if not 1 <= line <= session.last_line:
        hint = f"turnlog entries {quote(session.id)}"
        raise NotFound(f"{session.id} has {plural(session.last_line, 'line')}, not {line}", hint)
    branch = leaf if leaf is not None else leaf_at(session, line)
    return FileMoment(worktree.place_of_line(line), branch, f"line {line}")


def leaf_at(session: Session, line: int) -> int | None:
    """Return the leaf of a branch that contains a line; None if the active branch contains it."""
    node = session.node_at(line)
    if session.turn_at(line) is not None or not isinstance(node, ChainNode):
        return None
    rank = session.tree.rank_of(node.uuid)
    if rank is None:
        return None
    while rank in session.tree.children:
        rank = session.tree.children[rank][-1]
    return rank


def _at_time(worktree: Worktree, text: str, leaf: int | None) -> FileMoment:
    try:
        moment = parse_until(_dated(worktree.session, text))
    except UsageError:
        hint = f"turnlog files {quote(worktree.session.id)} --at 1"
        raise UsageError(f"{text!r} is not {SPELLINGS}", hint) from None
    if MINUTE.fullmatch(text):
        # Tables show minutes: a time copied from one includes what happened in that minute.
        moment += timedelta(seconds=60) - timedelta.resolution
    seconds = moment.timestamp()
    leaf = _leaf_of_time(worktree.session, seconds) if leaf is None else leaf
    nodes = list(_timed(_conversation(worktree.session, leaf)))
    earlier = [(time, line) for time, line in nodes if time <= seconds]
    later = (line for time, line in nodes if time > seconds)
    line, last = max(earlier, default=(0, 0))[1], max((line for _, line in earlier), default=0)
    # Sub-agents' lines lie between those of the session, ordered by milliseconds.
    place = SessionPosition(line, AMONG, int(seconds * 1000), 2**62)
    label = f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"
    first = next(later, last)
    if first >= last:
        return FileMoment(place, leaf, label)
    # After a clock was set back, a time may occur twice.
    others = (SessionPosition(first, BEFORE), SessionPosition(last, BEHIND))
    return FileMoment(place, leaf, label, others)


def _leaf_of_time(session: Session, seconds: float) -> int | None:
    """Return the leaf of the branch with the latest message at or before a time.

    Not the last line's: after a sync, the lines of two machines are not in order of time.
    """
    earlier = [each for each in _timed(session.tree.chain) if each[0] <= seconds]
    return leaf_at(session, max(earlier)[1]) if earlier else None


def _conversation(session: Session, leaf: int | None) -> list[ChainNode]:
    """Return the nodes of a branch, and those of sub-agents in the session's own file."""
    rank = session.tree.active_leaf if leaf is None else leaf
    aside = [node for node in session.nodes if isinstance(node, ChainNode) and node.is_sidechain]
    found = {node.index: node for node in (*session.branch_to(rank), *aside)}
    return [found[index] for index in sorted(found)]


def _timed(nodes: Iterable[ChainNode]) -> Iterator[tuple[float, int]]:
    """Yield the times and lines of nodes."""
    for node in nodes:
        seconds = seconds_of(node.time)
        if seconds is not None:
            yield seconds, node.line


def _dated(session: Session, text: str) -> str:
    """Prefix a time of day with the date on which a session was last active."""
    if not CLOCK.fullmatch(text):
        return text
    times = (parse_timestamp(node.time) for node in reversed(session.nodes))
    last = next((time for time in times if time), None)
    clock = f"0{text}" if text[1] == ":" else text
    return f"{last.astimezone():%Y-%m-%d}T{clock}" if last else text


def _end_of(worktree: Worktree, leaf: int | None) -> SessionPosition:
    if leaf is None:
        return END._replace(line=worktree.session.last_line)
    return worktree.place_of_turn(worktree.session.branch_to(leaf))
