"""The JSON that commands print; its schema is generated from these types."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from msgspec import Struct

from turnlog.conversation.calls import Call
from turnlog.conversation.cost import understates_output
from turnlog.conversation.messages import Message, add_usage
from turnlog.conversation.nodes import BoundaryNode
from turnlog.conversation.prompts import (
    RESUMED_AFTER,
    ide_context,
    prompt_label,
    prompt_text,
    round_of,
)
from turnlog.conversation.session import Session
from turnlog.conversation.turn_figures import cost_of_messages
from turnlog.conversation.turns import Turn
from turnlog.format.entries import User
from turnlog.format.json_values import is_object
from turnlog.format.tools import CHANGING
from turnlog.secrets import mask, mask_value


class UsageView(Struct):
    """Tokens, each message counted once."""

    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int


class CallView(Struct):
    """A tool call and its result."""

    id: str
    name: str
    input: Any
    ok: bool | None
    """null if there is no result."""
    result: str | None
    duration_ms: int | None
    agent_id: str | None
    """Id of the sub-agent that the call started."""
    line: int
    uuid: str | None
    """uuid of the entry with the call."""
    result_line: int | None
    result_uuid: str | None
    """uuid of the entry with the result."""
    tool_use_result: Any
    """The tool's structured result, if the client recorded it."""


class MessageView(Struct):
    """A message of the model, possibly spread over several lines."""

    id: str | None
    model: str | None
    stop_reason: str | None
    synthetic: bool
    """Written by the client instead of the model."""
    lines: list[int]
    uuids: list[str | None]


class CompactionView(Struct):
    """A point where older entries were replaced by a summary."""

    line: int
    uuid: str | None
    time: str | None
    trigger: str | None
    """`manual` or `auto`."""
    pre_tokens: int | None
    """Tokens of the context before the compaction."""


class IdeContext(Struct):
    """Context that the editor added to a prompt."""

    kind: str
    text: str


class TurnView(Struct):
    """A prompt and everything up to the next one."""

    n: int
    line: int
    prompt_uuid: str | None
    prompt: str
    label: str
    """A readable form of the prompt: a command as typed, the summary of a notification."""
    kind: str | None
    permission_mode: str | None
    ide_context: list[IdeContext]
    round: str
    started: str | None
    ended: str | None
    working_ms: int | None
    """Working time measured by the client, without waiting for the user; else `elapsed_ms`."""
    elapsed_ms: int | None
    """Time from `started` to `ended`."""
    complete: bool
    models: list[str]
    message_ids: list[str]
    messages: list[MessageView]
    compactions: list[CompactionView]
    calls: list[CallView]
    usage: UsageView
    cost_usd: float | None
    """null if the price of a model is unknown."""
    unpriced: list[str]
    """Models without a known price."""
    output_understated: bool
    """True if the client version records too few output tokens."""
    files: list[str]
    """Files that its calls changed."""
    subagents: list[str]
    """Sub-agents that its calls started; their tokens are not included in `usage`."""


def turn_view(
    session: Session, turn: Turn, reveal: bool = False, resumed_after: timedelta = RESUMED_AFTER
) -> TurnView:
    """Return the JSON view of a turn."""
    # Answers that the client writes itself have no tokens, and `<synthetic>` as their model.
    said = [message for message in turn.messages if not message.is_synthetic]
    calls = [call_view(session, call, reveal) for call in turn.calls]
    cost, unpriced = cost_of_messages(said)
    return TurnView(
        n=turn.n,
        # A turn may have no prompt: 2.0.42 records none for sub-agents, and files may start
        # mid-turn.
        line=(turn.prompt or turn.nodes[0]).line,
        prompt_uuid=turn.prompt.uuid if turn.prompt else None,
        prompt=prompt_of(session, turn, reveal, prompt_text),
        label=prompt_of(session, turn, reveal, prompt_label),
        kind=turn.kind,
        permission_mode=turn.prompt.permission_mode if turn.prompt else None,
        ide_context=_ide_context(session, turn, reveal),
        round=round_of(turn.kind, turn.n, turn.idle_ms, resumed_after),
        started=turn.started,
        ended=turn.ended,
        working_ms=turn.working_ms,
        elapsed_ms=turn.elapsed_ms,
        complete=turn.is_complete,
        models=list(dict.fromkeys(message.model for message in said if message.model)),
        message_ids=[message.id for message in said if message.id],
        messages=list(map(_message_view, turn.messages)),
        compactions=[compaction_view(n) for n in turn.nodes if isinstance(n, BoundaryNode)],
        calls=calls,
        usage=usage_view(said),
        cost_usd=cost,
        unpriced=unpriced,
        output_understated=any(understates_output(m.nodes[0].version) for m in said),
        files=list(dict.fromkeys(path for call in calls if (path := changed_file(call)))),
        subagents=[call.agent_id for call in calls if call.agent_id],
    )


def call_view(session: Session, call: Call, reveal: bool = False) -> CallView:
    """Return the JSON view of a call."""
    detail = session.detail(call)
    output = detail.output
    return CallView(
        id=call.id,
        name=call.name,
        input=detail.input if reveal else mask_value(detail.input),
        ok=None if call.result is None else not call.is_error,
        result=output if reveal or output is None else mask(output),
        duration_ms=detail.duration_ms,
        agent_id=call.agent_id,
        line=call.use.line,
        uuid=call.use.uuid,
        result_line=call.result.line if call.result else None,
        result_uuid=call.result.uuid if call.result else None,
        tool_use_result=detail.structured if reveal else mask_value(detail.structured),
    )


def compaction_view(node: BoundaryNode) -> CompactionView:
    """Return the JSON view of a compaction."""
    return CompactionView(node.line, node.uuid, node.time, node.trigger, node.pre_tokens)


def _message_view(message: Message) -> MessageView:
    return MessageView(
        id=message.id,
        model=message.model,
        stop_reason=message.stop_reason,
        synthetic=message.is_synthetic,
        lines=[node.line for node in message.nodes],
        uuids=[node.uuid for node in message.nodes],
    )


def _ide_context(session: Session, turn: Turn, reveal: bool) -> list[IdeContext]:
    entry = session.entry(turn.prompt) if turn.prompt else None
    parts = ide_context(entry) if isinstance(entry, User) else []
    return [IdeContext(kind, text if reveal else mask(text)) for kind, text in parts]


def prompt_of(session: Session, turn: Turn, reveal: bool, text_of: Callable[[User], str]) -> str:
    """Return the prompt of a turn as extracted by `text_of`, with secrets masked."""
    entry = session.entry(turn.prompt) if turn.prompt else None
    text = text_of(entry) if isinstance(entry, User) else ""
    return text if reveal else mask(text)


def usage_view(messages: Sequence[Message]) -> UsageView:
    """Return the total tokens of messages."""
    return UsageView(**add_usage(message.usage for message in messages))


def changed_file(call: CallView) -> str | None:
    """Return the file that a call changed; None if it changed none."""
    if call.name not in CHANGING or not call.ok or not is_object(call.input):
        return None
    path = call.input.get("file_path") or call.input.get("notebook_path")
    return path if isinstance(path, str) else None
