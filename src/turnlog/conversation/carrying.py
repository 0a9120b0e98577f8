"""Carrying cost: what each part of a conversation cost, summed over all requests that carried it.

Every request pays for its whole context again. Its cost is distributed over the items that it
carried, by estimated tokens; the costs of all items add up to the cost of the session. Linear in
the number of entries, apart from a binary search for each request.
"""

from collections.abc import Iterator
from itertools import islice

from msgspec import Struct

from turnlog.conversation.carried_items import (
    CarriedItem,
    ItemKey,
    ItemReader,
    MessageItems,
    TurnRef,
)
from turnlog.conversation.carried_path import CarriedPath
from turnlog.conversation.charges import charges_of
from turnlog.conversation.cost import unpriced_models
from turnlog.conversation.messages import Message
from turnlog.conversation.nodes import AssistantNode, BoundaryNode, ChainNode, UserNode
from turnlog.conversation.prompts import ASKING
from turnlog.conversation.request_costs import prompt_tokens, request_cost
from turnlog.conversation.session import Session
from turnlog.conversation.subagents import SubAgent
from turnlog.conversation.tree import Tree, is_compaction

Payments = dict[int, Message]
"""The messages to charge, by the index of each of their nodes."""


class Carrying(Struct):
    """The items of a session with their costs."""

    items: list[CarriedItem]
    requests: int
    """Messages with a price."""
    unpriced: list[str]
    """Models without a price; their messages are excluded."""

    @property
    def cost(self) -> float:
        return sum(item.cost for item in self.items)


def carrying_of(session: Session, excluded: frozenset[str] = frozenset()) -> Carrying:
    """Return what each part of a session and its sub-agents cost.

    `excluded` has the ids of messages that are charged to another session, which contains them too.
    """
    ledger = _Ledger()
    inside = [agent for agent in session.subagents if agent.root is not None]
    for charges in charges_of(session):
        counted = [m for m in charges.messages if m.id is None or m.id not in excluded]
        payments = {node.index: message for message in counted for node in message.nodes}
        if charges.agent or not charges.is_by_subagents:
            _Walk(ledger, charges.session, payments, charges.agent).run()
        elif counted:
            for agent in inside:
                _Walk(ledger, session.open_subagent(agent), payments, agent).run()
            inside = []
        # Messages without a place in a tree: repeated by progress entries, or without a uuid.
        for message in counted:
            if ledger.begin(message):
                ledger.charge(message, CarriedPath(), ledger.system(None, None), None)
    return ledger.close()


class _Ledger:
    """The items of all conversations of a session, and which messages were charged."""

    def __init__(self) -> None:
        self.items: dict[ItemKey, CarriedItem] = {}
        self.conversations = 0
        self.agents: dict[str, SubAgent] = {}
        self.fillers: list[tuple[CarriedItem, CarriedItem]] = []
        """Items for unexplained tokens, each with the system item that their cost is added to."""
        self._charged: set[int] = set()
        self._messages: list[Message] = []
        """Keeps charged messages alive, so that no two have the same `id()`."""
        self._requests = 0
        self._unpriced: set[str] = set()

    def begin(self, message: Message) -> bool:
        """Mark a message as charged; return False if it was charged before."""
        if id(message) in self._charged:
            return False
        self._charged.add(id(message))
        self._messages.append(message)
        return True

    def system(self, turn: TurnRef | None, agent: str | None) -> CarriedItem:
        """Return the item for the system prompt and tool definitions of a turn or sub-agent."""
        key = ("system", agent or (f"line {turn.line}" if turn else ""))
        if key not in self.items:
            item = CarriedItem("system", 0, agent=agent, turn=None if agent else turn)
            item.time = turn.time if turn else None
            self.items[key] = item
        return self.items[key]

    def charge(
        self, message: Message, path: CarriedPath, system: CarriedItem, items: MessageItems | None
    ) -> None:
        """Distribute the cost of a message: its prompt over the path, its output over its items."""
        cost = request_cost(message)
        if cost is None:
            self._unpriced |= unpriced_models(message.model, message.usage) or {"unknown"}
            return
        self._requests += 1
        for zones in cost.prompts:
            path.spread(zones, system)
        output = items.output if items else []
        services = [(item, 1.0) for item in items.services] if items else []
        if not output:
            key = ("answer", message.id or f"message {id(message)}")
            answer = self.items.setdefault(key, CarriedItem("answer", 0))
            answer.line, answer.time = message.nodes[0].line, message.started
            answer.turn, answer.agent = answer.turn or system.turn, system.agent
            output = [(answer, 1.0)]
        _share(cost.output, output)
        _share(cost.services, services or output)

    def close(self) -> Carrying:
        """Return the result; assign the items of sub-agents to the turns that started them."""
        for filler, system in self.fillers:
            system.carried += filler.carried
        turns: dict[str, TurnRef | None] = {}
        for item in self.items.values():
            if item.agent and item.turn is None:
                item.turn = self._turn_of_agent(item.agent, turns)
        used = [item for item in self.items.values() if item.cost or item.sent]
        return Carrying(used, self._requests, sorted(self._unpriced))

    def _turn_of_agent(self, name: str, turns: dict[str, TurnRef | None]) -> TurnRef | None:
        """Return the turn of the call that started a sub-agent, directly or through others."""
        passed: list[str] = []
        agent, found = self.agents.get(name), None
        while agent and agent.id not in turns and agent.id not in passed:
            passed.append(agent.id)
            call = self.items.get(("call", agent.call_id or ""))
            found = call.turn if call else None
            agent = self.agents.get(call.agent) if call and call.agent and not found else None
        if agent:
            found = turns.get(agent.id)
        turns.update(dict.fromkeys([*passed, name], found))
        return found


def _share(cost: float, items: list[tuple[CarriedItem, float]]) -> None:
    """Distribute a cost over items by their weights."""
    total = sum(weight for _, weight in items)
    for item, weight in items:
        item.own += cost * (weight / total if total else 1 / len(items))


class _Walk:
    """A depth-first walk over the tree of one conversation, charging each message on its path."""

    def __init__(
        self, ledger: _Ledger, session: Session, payments: Payments, agent: SubAgent | None
    ) -> None:
        ledger.conversations += 1
        self._ledger = ledger
        self._tree: Tree = session.tree
        self._payments = payments
        self._agent = agent.id if agent else None
        if agent:
            ledger.agents[agent.id] = agent
        self._read = ItemReader(ledger.items, session, ledger.conversations, self._agent)
        self._said = {node.index: message for message in session.messages for node in message.nodes}
        self._asked: set[int] = set()
        """Messages whose request was seen, by the index of their first node."""
        self._turns = {} if agent else self._numbered_turns(session)
        self._path = CarriedPath()
        self._preserved: dict[int, list[int]] = {}
        """Ranks of messages that the current compaction preserved, by the rank that they follow."""

    def run(self) -> None:
        """Charge every message in the tree."""
        starts = {rank for rank in range(len(self._tree.chain)) if self._is_start(rank)}
        turn: TurnRef | None = None
        for start in sorted(starts):
            self._preserved = self._preserved_at(start)
            turn = self._walk(start, starts, turn)
            self._path.restore((0, 0))

    def _is_start(self, rank: int) -> bool:
        """Return whether a node is the first one in the context of later requests."""
        tree = self._tree
        return tree.parents[rank] < 0 or rank in tree.cuts or is_compaction(tree.chain[rank])

    def _walk(self, start: int, starts: set[int], turn: TurnRef | None) -> TurnRef | None:
        """Visit the descendants of a node; return the turn that was last visited."""
        children = self._tree.children
        last = turn
        # Each step is a node, and the state to restore before entering it: that of its parent.
        todo = [(start, self._path.state, turn)]
        while todo:
            rank, state, turn = todo.pop()
            self._path.restore(state)
            last = turn = self._enter(rank, turn)
            below = [child for child in children.get(rank, ()) if child not in starts]
            state = self._path.state
            todo += [(child, state, turn) for child in reversed(below)]
        return last

    def _enter(self, rank: int, turn: TurnRef | None) -> TurnRef | None:
        node = self._tree.chain[rank]
        turn = self._turn_at(node, turn)
        if isinstance(node, AssistantNode):
            self._ask(node, turn)
        self._push(node, turn)
        for kept in self._preserved.get(rank, ()):
            self._push(self._tree.chain[kept], turn)
        return turn

    def _ask(self, node: AssistantNode, turn: TurnRef | None) -> None:
        """Charge the request of a message when its first line is reached."""
        message = self._said[node.index]
        first = message.nodes[0].index
        if first in self._asked:
            return
        self._asked.add(first)
        paid = self._payments.get(node.index)
        prompt = prompt_tokens(paid or message)
        system = self._ledger.system(turn, self._agent)
        if prompt and not message.is_synthetic:
            filler = self._path.measure(prompt)
            if filler:
                self._ledger.fillers.append((filler, system))
        if paid and self._ledger.begin(paid):
            items = self._read.messages.get(node.index)
            self._ledger.charge(paid, self._path, system, items)

    def _push(self, node: ChainNode, turn: TurnRef | None) -> None:
        """Add the items of a node to the path; for a message, the items of all its lines."""
        for item in self._items_of(node):
            # The turn where an item first came up; copies on other branches do not change it.
            if item.turn is None and not self._agent:
                item.turn = turn
            self._path.push(item)

    def _items_of(self, node: ChainNode) -> Iterator[CarriedItem]:
        # The results of parallel calls are dead ends of the tree, yet part of the conversation. So
        # a message brings all its lines and results along when its first line is reached; at its
        # other lines, the path contains them already.
        spoken = self._read.messages.get(node.index)
        if spoken and not any(item.is_on_path for item in islice(spoken.items, 1)):
            yield from spoken.items
        yield from self._read.by_node.get(node.index, ())

    def _turn_at(self, node: ChainNode, turn: TurnRef | None) -> TurnRef | None:
        if known := self._turns.get(node.index):
            return known
        if self._agent or not isinstance(node, UserNode) or node.prompt not in ASKING:
            return turn
        return self._turn_ref(turn.n + 1 if turn else 1, node)

    def _numbered_turns(self, session: Session) -> dict[int, TurnRef]:
        """Return the turns of the active branch, by the index of each of their nodes."""
        found: dict[int, TurnRef] = {}
        for turn in session.turns:
            ref = self._turn_ref(turn.n, turn.prompt or turn.nodes[0])
            found.update((node.index, ref) for node in turn.nodes)
        return found

    def _turn_ref(self, n: int, node: ChainNode) -> TurnRef:
        items = self._read.by_node.get(node.index) or [CarriedItem("prompt", 0)]
        return TurnRef(n, node.line, items[0].title, node.time)

    def _preserved_at(self, start: int) -> dict[int, list[int]]:
        """Return the messages that the compaction at a node preserved, by the node before them."""
        tree = self._tree
        boundary = tree.chain[start]
        preserved = boundary.preserved if isinstance(boundary, BoundaryNode) else None
        if preserved is None:
            return {}
        anchor = tree.rank_of(preserved.anchor_uuid or None)
        ranks = [tree.rank_of(uuid) for uuid in preserved.uuids or []]
        known = [rank for rank in ranks if rank is not None]
        # If one of them is missing, the client sends none of them (observed: 2.1.325).
        return {anchor: known} if anchor is not None and len(known) == len(ranks) else {}
