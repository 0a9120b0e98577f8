"""Figures of a session file that is being written, updated line by line.

Memory hardly grows with the file: only sums, the newest messages and a hash of each older
message's id are kept.
"""

from collections import OrderedDict, deque
from typing import NamedTuple

from turnlog.conversation.cost import cost_of
from turnlog.conversation.messages import Message, join_messages
from turnlog.conversation.models import compaction_limit, window_holding
from turnlog.conversation.nodes import (
    SYNTHETIC,
    AssistantNode,
    BoundaryNode,
    Node,
    UserNode,
    node_of,
)
from turnlog.conversation.prompts import ASKING, PromptKind
from turnlog.conversation.request_costs import prompt_tokens
from turnlog.format.blocks import Usage
from turnlog.format.decode import decode_line
from turnlog.format.entries import Assistant, ChainEntry
from turnlog.format.fields import given
from turnlog.format.jsonl import Line
from turnlog.format.state import PermissionMode
from turnlog.format.timestamps import seconds_of

NEWEST = 32
"""Number of newest messages that may still grow, because lines of parallel sub-agents alternate."""
HOUR = 3600.0
MINUTE = 60.0
SHORTEST = 300.0
"""Minimum number of seconds to compute a cost per hour from: one answer is not a trend."""
TURNS = 10
"""Number of turns to estimate the growth of the context from."""


SILENT = frozenset({PromptKind.META, PromptKind.COMMAND_OUTPUT, PromptKind.COMPACT_SUMMARY})
"""User lines that do not show whether the model or the user is next: they may come at any time."""


class TurnSize(NamedTuple):
    """The size of the context during a turn."""

    first: int
    last: int


class LiveFigures:
    """Running totals over the lines of one file."""

    def __init__(self) -> None:
        self.last: Node | None = None
        """The last entry that shows whether the model or the user is next."""
        self.changed: float | None = None
        """The newest timestamp, in seconds."""
        self.mode: str | None = None
        """The permission mode."""
        self.model: str | None = None
        self.version: str | None = None
        self.context = 0
        """Tokens in the context, according to the newest answer."""
        self.unanswered: dict[str, str] = {}
        """Calls without a result, by id, with the names of their tools."""
        self.turn_sizes: deque[TurnSize] = deque(maxlen=TURNS)
        self.activity: deque[tuple[float, float]] = deque(maxlen=TURNS * 4)
        """Start and end of the newest turns, in seconds since 1970."""
        self.unpriced = False
        """True if a message has no known price."""
        self._is_new_turn = True
        self._unnamed: str | None = None
        """A name for the message that the last lines belong to, if it has no id."""
        self._open: OrderedDict[str, list[AssistantNode]] = OrderedDict()
        self._closed: set[int] = set()
        self._cost = 0.0
        self._by_minute: dict[int, float] = {}
        self._open_costs: list[tuple[int, float]] | None = None

    def add(self, line: Line) -> None:
        """Update the figures with the next line."""
        self._open_costs = None
        for entry in decode_line(line).entries:
            if isinstance(entry, PermissionMode):
                self.mode = given(entry.permission_mode) or self.mode
            if isinstance(entry, ChainEntry):
                self._add(node_of(0, line, 0, entry))
            if not isinstance(entry, Assistant):
                self._unnamed = None

    def cost(self) -> float:
        """Return the cost of all messages so far in dollars."""
        return self._cost + sum(cost for _, cost in self._costs_of_open())

    def cost_since(self, moment: float) -> float:
        """Return the cost of the messages since a moment, to the minute."""
        minute = int(moment // MINUTE)
        closed = sum(cost for at, cost in self._by_minute.items() if at >= minute)
        return closed + sum(cost for at, cost in self._costs_of_open() if at >= minute)

    @property
    def window(self) -> int | None:
        """The size of the context window; None before the first answer."""
        if self.model is None:
            return None
        return window_holding(self.model, self.context)

    def turns_left(self) -> int | None:
        """Estimate the turns until the next compaction from the growth of the context so far."""
        sizes, window = self.turn_sizes, self.window
        if not sizes or window is None:
            return None
        # After a compaction the context may have shrunk: then there is no trend to follow.
        growth = (sizes[-1].last - sizes[0].first) / len(sizes)
        if growth <= 0:
            return None
        return max(0, int((compaction_limit(window) - self.context) / growth))

    def _add(self, node: Node) -> None:
        moment = seconds_of(node.time) or 0.0
        self.changed = max(self.changed or 0.0, moment) or None
        if isinstance(node, UserNode | AssistantNode) and moment:
            self._note_activity(node, moment)
        if isinstance(node, UserNode):
            self._add_user(node)
        elif isinstance(node, AssistantNode):
            self._add_answer(node)
        elif isinstance(node, BoundaryNode):
            self.last = node
            # Sizes from before a compaction say nothing about the growth after it.
            self.turn_sizes.clear()
        elif node.kind == "system/turn_duration":
            self.last = node

    def _note_activity(self, node: Node, moment: float) -> None:
        is_prompt = isinstance(node, UserNode) and node.prompt in ASKING
        if is_prompt or not self.activity:
            self.activity.append((moment, moment))
        elif not (isinstance(node, UserNode) and node.prompt in SILENT):
            start, end = self.activity[-1]
            self.activity[-1] = start, max(end, moment)

    def _add_user(self, node: UserNode) -> None:
        if node.prompt not in SILENT:
            self.last = node
        self.mode = node.permission_mode or self.mode
        for result in node.results:
            self.unanswered.pop(result.call_id, None)
        if node.prompt in ASKING or node.prompt is PromptKind.INTERRUPTION:
            # Calls without a result before an interruption or a new prompt will never get one.
            self.unanswered.clear()
            self._is_new_turn = True

    def _add_answer(self, node: AssistantNode) -> None:
        self.last = node
        self.version = node.version or self.version
        self.unanswered |= {call.id: call.name for call in node.calls}
        if node.is_error or node.model in (None, SYNTHETIC):
            return
        self.model = node.model
        if node.usage and (tokens := _context(node, node.usage)):
            self._measure(tokens)
        self._keep(node)

    def _measure(self, tokens: int) -> None:
        self.context = tokens
        if self._is_new_turn or not self.turn_sizes:
            self.turn_sizes.append(TurnSize(tokens, tokens))
            self._is_new_turn = False
        else:
            self.turn_sizes[-1] = self.turn_sizes[-1]._replace(last=tokens)

    def _keep(self, node: AssistantNode) -> None:
        # Consecutive lines without an id form one message, as in `join_messages`.
        name = node.message_id or self._unnamed or f"line {node.offset}"
        self._unnamed = None if node.message_id else name
        if name in self._open:
            self._open[name].append(node)
        elif hash(name) not in self._closed:
            self._open[name] = [node]
            if len(self._open) > NEWEST:
                self._close(*self._open.popitem(last=False))

    def _close(self, name: str, nodes: list[AssistantNode]) -> None:
        self._closed.add(hash(name))
        for message in join_messages(nodes):
            cost, minute = self._price(message), _minute_of(message)
            self._cost += cost
            self._by_minute[minute] = self._by_minute.get(minute, 0.0) + cost
        if len(self._by_minute) > 3 * HOUR / MINUTE:
            newest = sorted(self._by_minute)[-int(2 * HOUR / MINUTE) :]
            self._by_minute = {minute: self._by_minute[minute] for minute in newest}

    def _costs_of_open(self) -> list[tuple[int, float]]:
        """Return the minutes and costs of the messages that may still grow."""
        if self._open_costs is None:
            open_ = [each for nodes in self._open.values() for each in join_messages(nodes)]
            self._open_costs = [(_minute_of(each), self._price(each)) for each in open_]
        return self._open_costs

    def _price(self, message: Message) -> float:
        cost = cost_of(message.model, message.usage, message.started)
        self.unpriced = self.unpriced or cost is None
        return cost or 0.0


def _context(node: AssistantNode, usage: Usage) -> int:
    """Return the tokens of a request and its answer, with which the next request starts."""
    return prompt_tokens(Message((node,), usage)) + (given(usage.output_tokens) or 0)


def _minute_of(message: Message) -> int:
    return int((seconds_of(message.started) or 0.0) // MINUTE)


def cost_per_hour(recent: float, started: float | None, now: float) -> float:
    """Return the cost per hour: that of the last hour, scaled up if a session is younger."""
    # In whole minutes: otherwise the rate would change, and redraw the screen, with every poll.
    lived = (now - started) // MINUTE * MINUTE if started is not None else HOUR
    return recent * HOUR / min(max(lived, SHORTEST), HOUR)
