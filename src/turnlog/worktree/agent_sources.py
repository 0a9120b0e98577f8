"""The session and its sub-agents as sources of evidence, with the places of their lines."""

from collections.abc import Iterator
from dataclasses import dataclass

from turnlog.conversation.calls import Call
from turnlog.conversation.session import Session
from turnlog.conversation.subagents import SubAgent
from turnlog.worktree.background_tasks import TaskEnds, is_left_running
from turnlog.worktree.places import END, START, AgentClock, MainClock, PlaceSpan, Placing


@dataclass(frozen=True, slots=True)
class Source:
    """A session or one of its sub-agents, and the function that gives the places of its lines."""

    session: Session
    place: Placing
    agent: SubAgent | None = None
    call: Call | None = None
    """The call that started the sub-agent."""
    doubt: PlaceSpan | None = None
    """The range in which it worked if its order among the session's lines is not certain."""


def sources_of(session: Session, clock: MainClock) -> list[Source]:
    """Return the session, and then each of its sub-agents."""
    return [Source(session, clock.place), *_agents(session, clock)]


def _agents(session: Session, clock: MainClock) -> Iterator[Source]:
    ends = TaskEnds(session, clock.place)
    for agent in session.subagents:
        opened = session.open_subagent(agent)
        call = session.find_call(agent.call_id)
        # The sub-agent's lines are in the session's own file, so they already have places.
        if agent.root is not None:
            yield Source(opened, clock.place, agent, call)
            continue
        own = AgentClock(clock, opened.nodes, _span_of(session, clock, call, ends))
        yield Source(opened, own.place, agent, call, own.doubt)


def _span_of(session: Session, clock: MainClock, call: Call | None, ends: TaskEnds) -> PlaceSpan:
    """Return the range of places in which the agent that a call started can have worked."""
    if call is None:
        return START, END
    if call.result is None or is_left_running(session, call):
        return clock.place(call.use), ends.last_end(call)
    return clock.place(call.use), clock.place(call.result)
