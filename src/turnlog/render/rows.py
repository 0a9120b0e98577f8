"""A session as rows to show: pure, the same for terminal, Markdown and page."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from turnlog.conversation.calls import Call
from turnlog.conversation.nodes import AssistantNode, BoundaryNode, ChainNode, UserNode
from turnlog.conversation.prompts import PromptKind, full_text, prompt_label
from turnlog.conversation.session import Session
from turnlog.conversation.subagents import SubAgent
from turnlog.conversation.turns import Turn
from turnlog.format.blocks import TextBlock, ThinkingBlock
from turnlog.format.entries import Assistant, User
from turnlog.format.fields import given
from turnlog.format.timestamps import parse_timestamp
from turnlog.render.tools import body_of, outcome_of, title_of
from turnlog.render.views import cost_of_messages, usage_view
from turnlog.secrets import mask, mask_value


@dataclass(frozen=True)
class ViewOptions:
    """What to show."""

    turn: int | None = None
    """Only this turn."""
    leaf: int | None = None
    """The branch that ends here; the active one by default."""
    line: int | None = None
    """What is in this line is unfolded."""
    full: bool = False
    """Whole outputs and injected texts, not only what was said and done."""
    thinking: bool = True
    reveal: bool = False
    """Show secrets."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What was asked."""

    n: int
    kind: str
    text: str
    time: str | None
    is_open: bool = False
    """Whether to unfold the text."""


@dataclass(frozen=True, slots=True)
class Said:
    """What the model answered, in Markdown."""

    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    text: str
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """Something that happened: a compaction, an interruption, an error."""

    text: str
    is_error: bool = False
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Did:
    """A call, on one line, and what may be unfolded below it."""

    name: str
    title: str
    outcome: str
    is_error: bool
    duration_ms: int | None
    style: str
    """How to show the body: `diff` or `text`."""
    is_open: bool = False
    """Whether to unfold the body."""
    body: list[str] = field(default_factory=list[str])
    rows: "list[Row]" = field(default_factory=list["Row"])
    """What the sub-agent said and did that the call started."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a turn: what it took."""

    n: int
    seconds: float | None
    tokens: int
    cost_usd: float | None


Row = Prompt | Said | Thought | Note | Did | Ended

NOTED = {
    PromptKind.INTERRUPTION: "interrupted by the user",
    PromptKind.COMPACT_SUMMARY: "summary of what came before",
}
HIDDEN_NODES = frozenset({PromptKind.META, PromptKind.TOOL_RESULT})


def rows_of(
    session: Session, options: ViewOptions, told: frozenset[Path] = frozenset()
) -> Iterator[Row]:
    """The rows of a session; files of sub-agents that are told already are not told again.

    Without that, sub-agents that started with a copy of one context would tell each other.
    """
    turns = session.turns if options.leaf is None else session.turns_to(options.leaf)
    calls = {call.id for call in session.calls}
    own = [
        agent for agent in session.subagents if agent.call_id in calls and agent.path not in told
    ]
    teller = _Teller(session, options, own, told.union(agent.path for agent in own))
    for turn in turns:
        if options.turn in (None, turn.n):
            yield from teller.tell(turn)


class _Teller:
    """Tells a turn, keeping at hand the entries and calls that it needs."""

    def __init__(
        self,
        session: Session,
        options: ViewOptions,
        agents: Iterable[SubAgent],
        told: frozenset[Path],
    ) -> None:
        self.session = session
        self.options = options
        self.agents = {agent.call_id: agent for agent in agents}
        self.told = told

    def tell(self, turn: Turn) -> Iterator[Row]:
        calls: dict[int, list[Call]] = {}
        for call in turn.calls:
            calls.setdefault(call.use.index, []).append(call)
        for node in turn.nodes:
            if node is turn.prompt:
                yield self._prompt(turn)
            elif isinstance(node, AssistantNode):
                yield from self._said(node, calls.get(node.index, []))
            elif isinstance(node, UserNode):
                yield from self._user_note(node)
            else:
                yield from self._note(node)
        yield _ended(turn)

    def _prompt(self, turn: Turn) -> Row:
        assert turn.prompt, "called for a turn that has a prompt"
        entry = self.session.entry(turn.prompt)
        text = prompt_label(entry) if isinstance(entry, User) else ""
        is_open = self._is_wanted(turn.prompt)
        return Prompt(turn.n, str(turn.kind), self._shown(text), turn.prompt.time, is_open)

    def _said(self, node: AssistantNode, calls: Sequence[Call]) -> Iterator[Row]:
        entry = self.session.entry(node)
        content = entry.content if isinstance(entry, Assistant) else []
        for block in [TextBlock(text=content)] if isinstance(content, str) else content:
            text = given(block.text) if isinstance(block, TextBlock) else None
            if text and text.strip():
                shown = self._shown(text)
                yield Note(shown, is_error=True) if node.is_error else Said(shown)
            thought = given(block.thinking) if isinstance(block, ThinkingBlock) else None
            if thought and self.options.thinking:
                yield Thought(self._shown(thought), self._is_wanted(node))
        yield from map(self._did, calls)

    def _did(self, call: Call) -> Row:
        detail = self.session.detail(call)
        style, body = body_of(call.name, detail)
        given = detail.input if self.options.reveal else mask_value(detail.input)
        return Did(
            name=self._shown(call.name),
            title=self._shown(title_of(call.name, replace(detail, input=given))),
            outcome=self._shown(outcome_of(call.name, detail)),
            is_error=call.is_error,
            duration_ms=detail.duration_ms,
            style=style,
            is_open=self._is_wanted(call.use) or self._is_wanted(call.result),
            body=self._shown("\n".join(body)).split("\n") if body else [],
            rows=list(self._agent_rows(call)),
        )

    def _agent_rows(self, call: Call) -> Iterator[Row]:
        agent = self.agents.get(call.id)
        if agent:
            inner = ViewOptions(
                full=self.options.full, thinking=self.options.thinking, reveal=self.options.reveal
            )
            yield from rows_of(self.session.open_subagent(agent), inner, self.told)

    def _user_note(self, node: UserNode) -> Iterator[Row]:
        is_full = self.options.full or self._is_wanted(node)
        if node.prompt in HIDDEN_NODES and not (is_full and not node.results):
            return
        entry = self.session.entry(node)
        text = full_text(entry) if isinstance(entry, User) else ""
        text = prompt_label(entry) if isinstance(entry, User) and not is_full else text
        label = NOTED.get(node.prompt, str(node.prompt).replace("_", " "))
        shown = f"{label}: {text}" if is_full or node.prompt not in NOTED else label
        yield Note(self._shown(shown), is_open=self._is_wanted(node))

    def _note(self, node: ChainNode) -> Iterator[Row]:
        if isinstance(node, BoundaryNode):
            yield Note("the conversation was compacted here")
        elif self.options.full and node.kind.startswith("attachment/"):
            yield Note(self._shown(node.kind))

    def _is_wanted(self, node: ChainNode | None) -> bool:
        return node is not None and node.line == self.options.line

    def _shown(self, text: str) -> str:
        return text if self.options.reveal else mask(text)


def _ended(turn: Turn) -> Ended:
    said = [message for message in turn.messages if not message.is_synthetic]
    usage = usage_view(said)
    tokens = sum(getattr(usage, name) for name in usage.__struct_fields__)
    start, end = parse_timestamp(turn.started), parse_timestamp(turn.ended)
    seconds = (end - start).total_seconds() if start and end else None
    return Ended(turn.n, seconds, tokens, cost_of_messages(said)[0])
