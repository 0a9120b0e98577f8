"""A session as rows to show: pure, the same for terminal, Markdown and page."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from turnlog.conversation.calls import Call
from turnlog.conversation.nodes import (
    SYNTHETIC,
    AssistantNode,
    BoundaryNode,
    ChainNode,
    UserNode,
)
from turnlog.conversation.prompts import PromptKind, full_text, ide_context, prompt_label
from turnlog.conversation.session import Session
from turnlog.conversation.subagents import SubAgent
from turnlog.conversation.turns import Turn
from turnlog.format.blocks import TextBlock, ThinkingBlock, local_command_text
from turnlog.format.entries import Assistant, User
from turnlog.format.fields import given
from turnlog.format.system import LocalCommand
from turnlog.render.json_views import cost_of_messages, usage_view
from turnlog.render.tool_views import body_of, outcome_of, title_of
from turnlog.render.tree_drawing import compaction_text
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
class PromptRow:
    """What was asked."""

    n: int
    kind: str
    text: str
    time: str | None
    is_open: bool = False
    """Whether to unfold the text."""
    mode: str | None = None
    """The permission mode, unless it is the default."""


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """What the model answered, in Markdown."""

    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    text: str
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class NoteRow:
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
class TurnEndRow:
    """The end of a turn: what it took."""

    n: int
    working_ms: int | None
    elapsed_ms: int | None
    tokens: int
    cost_usd: float | None


DEFAULT_MODE = "default"
LOCAL_COMMAND = "system/local_command"
Row = PromptRow | AnswerRow | Thought | NoteRow | Did | TurnEndRow

NOTED = {
    PromptKind.INTERRUPTION: "interrupted by the user",
    PromptKind.COMPACT_SUMMARY: "summary of what came before",
}
WHOLE = frozenset({None, "end_turn", "tool_use", "stop_sequence", "pause_turn"})
"""Stop reasons of messages that are not cut off."""
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
    teller = _RowBuilder(session, options, own, told.union(agent.path for agent in own))
    if session.slug and options.turn is None and not told:
        yield NoteRow(teller.shown(f"session {session.id}: {session.slug}"))
    for turn in turns:
        if options.turn in (None, turn.n):
            yield from teller.tell(turn)


class _RowBuilder:
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
        cut_off = _cut_off(turn)
        for node in turn.nodes:
            if node is turn.prompt:
                yield self._prompt(turn)
                yield from self._ide_notes(node)
            elif isinstance(node, AssistantNode):
                yield from self._said(node, calls.get(node.index, []))
                if reason := cut_off.get(node.index):
                    yield NoteRow(self.shown(f"the answer was cut off ({reason})"), is_error=True)
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
        mode = turn.prompt.permission_mode
        mode = self.shown(mode) if mode and mode != DEFAULT_MODE else None
        return PromptRow(turn.n, str(turn.kind), self.shown(text), turn.prompt.time, is_open, mode)

    def _ide_notes(self, node: ChainNode) -> Iterator[Row]:
        """What the editor told the model along with a prompt."""
        is_wanted = self._is_wanted(node)
        if not (self.options.full or is_wanted):
            return
        entry = self.session.entry(node)
        for kind, text in ide_context(entry) if isinstance(entry, User) else ():
            shown = self.shown(f"{kind.replace('_', ' ')}: {text}")
            yield NoteRow(shown, is_open=is_wanted or self.options.full)

    def _said(self, node: AssistantNode, calls: Sequence[Call]) -> Iterator[Row]:
        entry = self.session.entry(node)
        content = entry.content if isinstance(entry, Assistant) else []
        for block in [TextBlock(text=content)] if isinstance(content, str) else content:
            text = given(block.text) if isinstance(block, TextBlock) else None
            if text and text.strip():
                shown = self.shown(text)
                is_said = not node.is_error and node.model != SYNTHETIC
                told = shown if node.is_error else f"{shown} (written by the client)"
                yield AnswerRow(shown) if is_said else NoteRow(told, is_error=node.is_error)
            thought = given(block.thinking) if isinstance(block, ThinkingBlock) else None
            if thought and self.options.thinking:
                yield Thought(self.shown(thought), self._is_wanted(node))
        yield from map(self._did, calls)

    def _did(self, call: Call) -> Row:
        detail = self.session.detail(call)
        style, body = body_of(call.name, detail)
        given = detail.input if self.options.reveal else mask_value(detail.input)
        return Did(
            name=self.shown(call.name),
            title=self.shown(title_of(call.name, replace(detail, input=given))),
            outcome=self.shown(outcome_of(call.name, detail)),
            is_error=call.is_error,
            duration_ms=detail.duration_ms,
            style=style,
            is_open=self._is_wanted(call.use) or self._is_wanted(call.result),
            body=self.shown("\n".join(body)).split("\n") if body else [],
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
        yield NoteRow(self.shown(shown), is_open=self._is_wanted(node))

    def _note(self, node: ChainNode) -> Iterator[Row]:
        if isinstance(node, BoundaryNode):
            told = compaction_text(node)
            yield NoteRow(f"the conversation was compacted here{f' ({told})' if told else ''}")
        elif node.kind == LOCAL_COMMAND:
            entry = self.session.entry(node)
            held = given(entry.content) if isinstance(entry, LocalCommand) else None
            if text := local_command_text(held) if isinstance(held, str) else "":
                yield NoteRow(self.shown(f"local command: {text}"), is_open=self._is_wanted(node))
        elif self.options.full and node.kind.startswith("attachment/"):
            yield NoteRow(self.shown(node.kind))

    def _is_wanted(self, node: ChainNode | None) -> bool:
        return node is not None and node.line == self.options.line

    def shown(self, text: str) -> str:
        return text if self.options.reveal else mask(text)


def _ended(turn: Turn) -> TurnEndRow:
    said = [message for message in turn.messages if not message.is_synthetic]
    usage = usage_view(said)
    tokens = sum(getattr(usage, name) for name in usage.__struct_fields__)
    return TurnEndRow(turn.n, turn.working_ms, turn.elapsed_ms, tokens, cost_of_messages(said)[0])


def _cut_off(turn: Turn) -> dict[int, str]:
    """Return the last lines of messages that did not end by themselves, with the reason."""
    reasons = {m.nodes[-1].index: m.stop_reason for m in turn.messages if not m.is_synthetic}
    return {index: reason for index, reason in reasons.items() if reason not in WHOLE and reason}
