"""The messages that a session pays for, including its sub-agents'; each counts exactly once."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from turnlog.conversation.messages import Message, larger_usage
from turnlog.conversation.session import Session
from turnlog.conversation.subagents import SubAgent


class Charges(NamedTuple):
    """Messages to charge, and the conversation they are part of."""

    session: Session
    """The session, or a sub-agent opened as one."""
    messages: list[Message]
    agent: SubAgent | None = None
    """The sub-agent if its entries are in a file of its own."""
    is_by_subagents: bool = False


def charges_of(session: Session) -> Iterator[Charges]:
    """Yield the messages of a session, then those of its sub-agents, without copies."""
    main = {node.index for node in session.tree.chain}
    said, repeated = _said_in(session)
    yield Charges(session, [m for m in said if any(node.index in main for node in m.nodes)])
    inside = [m for m in said if all(node.index not in main for node in m.nodes)]
    yield Charges(session, inside, is_by_subagents=True)
    # Sub-agents that start from a copy of the conversation repeat its messages in their own files.
    known = {message.id for message in said if message.id}
    for agent in session.subagents:
        if agent.root is None:
            opened = session.open_subagent(agent)
            found, further = _said_in(opened)
            counted = [message for message in found if message.id not in known]
            yield Charges(opened, counted, agent, is_by_subagents=True)
            known |= {message.id for message in found if message.id}
            repeated += further
    # A sub-agent's own file is more accurate than the progress lines that repeat its messages.
    only = {m.id: m for m in reversed(repeated) if m.id not in known}
    yield Charges(session, list(only.values()), is_by_subagents=True)


def _said_in(session: Session) -> tuple[list[Message], list[Message]]:
    """Return the messages of a file, and the sub-agent messages that only progress lines repeat."""
    said = {message.id or n: message for n, message in enumerate(session.messages)}
    only: list[Message] = []
    for message in session.repeated_messages:
        known = said.get(message.id or "")
        # Lines written while a message streams have lower counts: the largest is the final one.
        if known and message.id:
            said[message.id] = replace(known, usage=larger_usage(known.usage, message.usage))
        elif not message.is_synthetic:
            only.append(message)
    return [message for message in said.values() if not message.is_synthetic], only
