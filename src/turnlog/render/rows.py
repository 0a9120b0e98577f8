"""Turn a session into rows, the same for terminal, Markdown and web page.

Pure. Texts are masked here, so no front end can forget to mask them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from turnlog.conversation.call_titles import call_title
from turnlog.conversation.calls import Call, Detail
from turnlog.conversation.nodes import (
    SYNTHETIC,
    AssistantNode,
    BoundaryNode,
    ChainNode,
    UserNode,
)
from turnlog.conversation.prompts import (
    PromptKind,
    Round,
    full_text,
    ide_context,
    prompt_label,
    prompt_text,
    turn_marks,
)
from turnlog.conversation.session import Session
from turnlog.conversation.subagents import SubAgent
from turnlog.conversation.turn_figures import HIDDEN_NODES, cost_of_messages
from turnlog.conversation.turns import Turn
from turnlog.format.blocks import TextBlock, ThinkingBlock, local_command_text
from turnlog.format.entries import Assistant, User
from turnlog.format.fields import given
from turnlog.format.system import LocalCommand
from turnlog.render.images import ImageData, entry_images, result_images
from turnlog.render.json_views import usage_view
from turnlog.render.tool_views import body_of, outcome_of
from turnlog.render.tree_drawing import compaction_text
from turnlog.secrets import cut_texts, mask, mask_value
from turnlog.store.paths import Store


@dataclass(frozen=True)
class ViewOptions:
    """Options for what to show."""

    turn: int | None = None
    """Only this turn."""
    leaf: int | None = None
    """The branch that ends here; the active one by default."""
    line: int | None = None
    """The line to unfold."""
    full: bool = False
    """Show complete outputs and injected texts, not only prompts, answers and calls."""
    thinking: bool = True
    reveal: bool = False
    """Show secrets instead of masking them."""
    details: bool = False
    """Add details that only pages show: inputs, results and images."""
    store: Store | None = None
    """The session's store, which the resume command names unless the client reads it by default."""
    longest: int | None = None
    """Maximum characters of a text to mask, for lines as long as 300 MB; the rest is cut."""


@dataclass(frozen=True, slots=True)
class CallDetails:
    """Details of a call for pages: the same values as the JSON of a turn."""

    id: str
    input: Any
    result: str | None
    result_line: int | None
    agent_id: str | None
    whole_size: int | None = None
    """Characters of the result if it was cut."""
    images: list[ImageData] = field(default_factory=list[ImageData])


@dataclass(frozen=True, slots=True)
class PromptRow:
    """A prompt."""

    n: int
    kind: str
    text: str
    time: str | None
    is_open: bool = False
    """True to show the whole text."""
    mode: str | None = None
    """The permission mode, unless it is the default."""
    round: str = Round.NEW_ROUND
    """How its turn follows the one before."""
    line: int | None = field(default=None, compare=False)
    prompt: str | None = field(default=None, compare=False)
    """The recorded text; `text` is its readable form. Only with details."""
    images: list[ImageData] = field(default_factory=list[ImageData], compare=False)

    @property
    def marks(self) -> list[str]:
        """The round, kind and permission mode, if they are unusual."""
        return turn_marks(self.round, self.kind) + ([self.mode] if self.mode else [])


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """Text of the model, in Markdown."""

    text: str
    line: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ThoughtRow:
    """Thinking of the model."""

    text: str
    is_open: bool = False
    line: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class NoteRow:
    """An event: a compaction, an interruption, an error."""

    text: str
    is_error: bool = False
    is_open: bool = False
    line: int | None = field(default=None, compare=False)
    kind: str = field(default="note", compare=False)
    """`compaction` and `summary` for the two parts of a compaction, else `note`."""


@dataclass(frozen=True, slots=True)
class CallRow:
    """A call in one line, with a body that can be unfolded."""

    name: str
    title: str
    outcome: str
    is_error: bool
    duration_ms: int | None
    style: str
    """Style of the body: `diff` or `text`."""
    is_open: bool = False
    """True to show the whole body."""
    body: list[str] = field(default_factory=list[str])
    rows: "list[Row]" = field(default_factory=list["Row"])
    """Rows of the sub-agent that the call started."""
    line: int | None = field(default=None, compare=False)
    details: CallDetails | None = field(default=None, compare=False)
    is_rejected: bool = False
    """True if the user denied the call."""


@dataclass(frozen=True, slots=True)
class TurnEndRow:
    """The end of a turn, with its time, tokens and cost."""

    n: int
    working_ms: int | None
    elapsed_ms: int | None
    tokens: int
    cost_usd: float | None


DEFAULT_MODE = "default"
LOCAL_COMMAND = "system/local_command"
Row = PromptRow | AnswerRow | ThoughtRow | NoteRow | CallRow | TurnEndRow

NOTED = {
    PromptKind.INTERRUPTION: "interrupted by the user",
    PromptKind.COMPACT_SUMMARY: "summary of what came before",
}
WHOLE = frozenset({None, "end_turn", "tool_use", "stop_sequence", "pause_turn"})
"""Stop reasons of complete messages."""


def rows_of(
    session: Session, options: ViewOptions, shown: frozenset[Path] = frozenset()
) -> Iterator[Row]:
    """Yield the rows of a session; sub-agents whose files are in `shown` are skipped."""
    # Sub-agents that start from a copy of the same context contain each other's calls. Without
    # `shown`, A would show B, which would show A, and so on.
    own = [
        agent
        for agent in session.subagents
        if agent.path not in shown and session.find_call(agent.call_id)
    ]
    builder = RowBuilder(session, options, own, shown.union(agent.path for agent in own))
    for turn in chosen_turns(session, options):
        yield from builder.turn(turn)


def chosen_turns(session: Session, options: ViewOptions) -> Sequence[Turn]:
    """Return the turns to show: one of them, or all of a branch."""
    turns = session.turns if options.leaf is None else session.turns_to(options.leaf)
    # A slice, because a session opened with its node table builds turns lazily.
    return turns if options.turn is None else turns[max(0, options.turn - 1) : options.turn]


class RowBuilder:
    """Build the rows of turns, with secrets masked."""

    def __init__(
        self,
        session: Session,
        options: ViewOptions,
        agents: Iterable[SubAgent],
        shown: frozenset[Path],
    ) -> None:
        self.session = session
        self.options = options
        self.agents = {agent.call_id: agent for agent in agents}
        self.shown = shown

    def turn(self, turn: Turn) -> Iterator[Row]:
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
                    text = self.masked(f"the answer was cut off ({reason})")
                    yield NoteRow(text, is_error=True, line=node.line)
            elif isinstance(node, UserNode):
                yield from self._user_note(node)
            else:
                yield from self._note(node)
        yield _turn_end(turn)

    def _prompt(self, turn: Turn) -> Row:
        assert turn.prompt, "called for a turn that has a prompt"
        entry = self.session.entry(turn.prompt)
        text = prompt_label(entry) if isinstance(entry, User) else ""
        is_open = self._is_selected(turn.prompt)
        mode = turn.prompt.permission_mode
        mode = self.masked(mode) if mode and mode != DEFAULT_MODE else None
        return PromptRow(
            n=turn.n,
            kind=str(turn.kind),
            text=self.masked(text),
            time=turn.prompt.time,
            is_open=is_open,
            mode=mode,
            round=turn.round,
            line=turn.prompt.line,
            prompt=self._recorded(entry) if isinstance(entry, User) else None,
            images=entry_images(entry) if self.options.details and isinstance(entry, User) else [],
        )

    def _recorded(self, entry: User) -> str | None:
        return (
            self._named("prompt", self._cut(prompt_text(entry))) if self.options.details else None
        )

    def _ide_notes(self, node: ChainNode) -> Iterator[Row]:
        """Yield the context that the editor added to a prompt."""
        is_selected = self._is_selected(node)
        if not (self.options.full or is_selected):
            return
        entry = self.session.entry(node)
        for kind, text in ide_context(entry) if isinstance(entry, User) else ():
            masked = self.masked(f"{kind.replace('_', ' ')}: {text}")
            yield NoteRow(masked, is_open=is_selected or self.options.full, line=node.line)

    def _said(self, node: AssistantNode, calls: Sequence[Call]) -> Iterator[Row]:
        entry = self.session.entry(node)
        content = entry.content if isinstance(entry, Assistant) else []
        for block in [TextBlock(text=content)] if isinstance(content, str) else content:
            text = given(block.text) if isinstance(block, TextBlock) else None
            if text and text.strip():
                masked = self.masked(text)
                is_said = not node.is_error and node.model != SYNTHETIC
                note = masked if node.is_error else f"{masked} (written by the client)"
                if is_said:
                    yield AnswerRow(masked, line=node.line)
                else:
                    yield NoteRow(note, is_error=node.is_error, line=node.line)
            thought = given(block.thinking) if isinstance(block, ThinkingBlock) else None
            if thought and self.options.thinking:
                yield ThoughtRow(self.masked(thought), self._is_selected(node), line=node.line)
        yield from map(self._did, calls)

    def _did(self, call: Call) -> Row:
        detail = self._cut_detail(self.session.detail(call))
        # A page shows the result itself, so the same text need not be split and masked twice.
        style, body = body_of(
            call.name,
            detail,
            # Pages show the error separately, and also the change that a call attempted.
            is_error=call.is_error and not self.options.details,
            has_text=not self.options.details,
        )
        # Mask the arguments before the title is cut from them: half a secret is not recognized.
        # Name the field as in the JSON of a turn, because masking considers field names.
        given = self._named("input", detail.input)
        return CallRow(
            name=self.masked(call.name),
            title=self.masked(call_title(call.name, given)),
            outcome=self.masked(outcome_of(call.name, detail, call.is_error)),
            is_error=call.is_error,
            is_rejected=call.is_rejected,
            duration_ms=detail.duration_ms,
            style=style,
            is_open=self._is_selected(call.use) or self._is_selected(call.result),
            # Mask all lines at once: a private key spans many lines.
            body=self.masked("\n".join(body)).split("\n") if body else [],
            rows=list(self._agent_rows(call)),
            line=call.use.line,
            details=self._details(call, detail, given) if self.options.details else None,
        )

    def _details(self, call: Call, detail: Detail, given: Any) -> CallDetails:
        output = detail.output
        shown = self._cut(output)
        return CallDetails(
            id=call.id,
            input=given,
            result=self._named("result", shown),
            result_line=call.result.line if call.result else None,
            agent_id=self.agents[call.id].id if call.id in self.agents else call.agent_id,
            whole_size=None if output == shown else len(output or ""),
            images=result_images(self.session, call, detail.result),
        )

    def _agent_rows(self, call: Call) -> Iterator[Row]:
        agent = self.agents.get(call.id)
        # Pages load the rows of a sub-agent when it is unfolded.
        if agent and not self.options.details:
            inner = ViewOptions(
                full=self.options.full, thinking=self.options.thinking, reveal=self.options.reveal
            )
            yield from rows_of(self.session.open_subagent(agent), inner, self.shown)

    def _user_note(self, node: UserNode) -> Iterator[Row]:
        is_summary = node.prompt is PromptKind.COMPACT_SUMMARY
        is_full = self.options.full or self._is_selected(node)
        # Pages fold the summary, so include all of it.
        is_full = is_full or (self.options.details and is_summary)
        if node.prompt in HIDDEN_NODES and not (is_full and not node.results):
            return
        entry = self.session.entry(node)
        text = full_text(entry) if isinstance(entry, User) else ""
        text = prompt_label(entry) if isinstance(entry, User) and not is_full else text
        if node.prompt is PromptKind.COMMAND_OUTPUT:
            text = local_command_text(text)
            if not text:
                return
        label = NOTED.get(node.prompt, str(node.prompt).replace("_", " "))
        shown = f"{label}: {text}" if is_full or node.prompt not in NOTED else label
        kind = "summary" if is_summary else "note"
        is_open = self._is_selected(node)
        yield NoteRow(self.masked(shown), is_open=is_open, line=node.line, kind=kind)

    def _note(self, node: ChainNode) -> Iterator[Row]:
        if isinstance(node, BoundaryNode):
            cause = compaction_text(node)
            text = f"the conversation was compacted here{f' ({cause})' if cause else ''}"
            yield NoteRow(text, line=node.line, kind="compaction")
        elif node.kind == LOCAL_COMMAND:
            entry = self.session.entry(node)
            content = given(entry.content) if isinstance(entry, LocalCommand) else None
            if text := local_command_text(content) if isinstance(content, str) else "":
                text = self.masked(f"local command: {text}")
                yield NoteRow(text, is_open=self._is_selected(node), line=node.line)
        elif self.options.full and node.kind.startswith("attachment/"):
            yield NoteRow(self.masked(node.kind), line=node.line)

    def _is_selected(self, node: ChainNode | None) -> bool:
        return node is not None and node.line == self.options.line

    def _cut_detail(self, detail: Detail) -> Detail:
        if self.options.longest is None:
            return detail
        return replace(
            detail, input=self._cut(detail.input), structured=self._cut(detail.structured)
        )

    def _cut(self, value: Any) -> Any:
        """Cut texts to the longest length, without cutting a secret in half."""
        return value if self.options.longest is None else cut_texts(value, self.options.longest)

    def _named(self, name: str, value: Any) -> Any:
        return value if self.options.reveal else mask_value({name: value})[name]

    def masked(self, text: str) -> str:
        shown: str = self._cut(text)
        return shown if self.options.reveal else mask(shown)


def _turn_end(turn: Turn) -> TurnEndRow:
    said = [message for message in turn.messages if not message.is_synthetic]
    usage = usage_view(said)
    tokens = sum(getattr(usage, name) for name in usage.__struct_fields__)
    return TurnEndRow(turn.n, turn.working_ms, turn.elapsed_ms, tokens, cost_of_messages(said)[0])


def _cut_off(turn: Turn) -> dict[int, str]:
    """Return the stop reasons of messages that were cut off, by the index of their last line."""
    reasons = {m.nodes[-1].index: m.stop_reason for m in turn.messages if not m.is_synthetic}
    return {index: reason for index, reason in reasons.items() if reason not in WHOLE and reason}
