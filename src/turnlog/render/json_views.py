"""The JSON that commands print: stable, documented, with a schema generated from these types."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from msgspec import Struct

from turnlog.conversation.calls import Call
from turnlog.conversation.cost import cost_of, understates_output, unpriced_models
from turnlog.conversation.messages import Message, add_usage
from turnlog.conversation.nodes import BoundaryNode
from turnlog.conversation.prompts import RESUMED_AFTER, ide_context, prompt_label, prompt_text
from turnlog.conversation.session import Session
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
    """A tool call and what came back."""

    id: str
    name: str
    input: Any
    ok: bool | None
    """null while there is no result."""
    result: str | None
    duration_ms: int | None
    agent_id: str | None
    """The sub-agent that the call started."""
    line: int
    uuid: str | None
    """The entry with the call."""
    result_line: int | None
    result_uuid: str | None
    """The entry with the result."""
    tool_use_result: Any
    """The result as the tool gave it, where the client kept it."""


class MessageView(Struct):
    """An answer: all its lines."""

    id: str | None
    model: str | None
    stop_reason: str | None
    synthetic: bool
    """Written by the client in the place of an answer."""
    lines: list[int]
    uuids: list[str | None]


class CompactionView(Struct):
    """Where older entries were replaced by a summary."""

    line: int
    uuid: str | None
    time: str | None
    trigger: str | None
    """`manual` or `auto`."""
    pre_tokens: int | None
    """Tokens of the context before it."""


class IdeContext(Struct):
    """What the editor told the model along with a prompt."""

    kind: str
    text: str


class TurnView(Struct):
    """A prompt and all that followed on it."""

    n: int
    line: int
    prompt_uuid: str | None
    prompt: str
    label: str
    """The prompt as a person would put it: a command as it was typed, a notification's summary."""
    kind: str | None
    permission_mode: str | None
    ide_context: list[IdeContext]
    round: str
    started: str | None
    ended: str | None
    working_ms: int | None
    """As the client measured it, without waiting for the user; else `elapsed_ms`."""
    elapsed_ms: int | None
    """From `started` to `ended`."""
    complete: bool
    models: list[str]
    message_ids: list[str]
    messages: list[MessageView]
    compactions: list[CompactionView]
    calls: list[CallView]
    usage: UsageView
    cost_usd: float | None
    """null where a model has no known price."""
    unpriced: list[str]
    """The models without a known price."""
    output_understated: bool
    """The client's version is known to record too few output tokens."""
    files: list[str]
    """The files that its calls changed."""
    subagents: list[str]
    """The sub-agents that its calls started; their tokens are not in `usage`."""


def turn_view(
    session: Session, turn: Turn, reveal: bool = False, resumed_after: timedelta = RESUMED_AFTER
) -> TurnView:
    """Return a turn as JSON shows it."""
    said = [message for message in turn.messages if not message.is_synthetic]
    calls = [call_view(session, call, reveal) for call in turn.calls]
    cost, unpriced = cost_of_messages(said)
    return TurnView(
        n=turn.n,
        line=(turn.prompt or turn.nodes[0]).line,
        prompt_uuid=turn.prompt.uuid if turn.prompt else None,
        prompt=prompt_of(session, turn, reveal, prompt_text),
        label=prompt_of(session, turn, reveal, prompt_label),
        kind=turn.kind,
        permission_mode=turn.prompt.permission_mode if turn.prompt else None,
        ide_context=_ide_context(session, turn, reveal),
        round=turn.round_after(resumed_after),
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
    """A call as JSON shows it."""
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
    """Return a compaction as JSON shows it."""
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
    told = ide_context(entry) if isinstance(entry, User) else []
    return [IdeContext(kind, text if reveal else mask(text)) for kind, text in told]


def prompt_of(session: Session, turn: Turn, reveal: bool, told: Callable[[User], str]) -> str:
    """What was asked in a turn, told one way or another."""
    entry = session.entry(turn.prompt) if turn.prompt else None
    text = told(entry) if isinstance(entry, User) else ""
    return text if reveal else mask(text)


def usage_view(messages: Sequence[Message]) -> UsageView:
    """The tokens of some messages."""
    return UsageView(**add_usage(message.usage for message in messages))


def cost_of_messages(messages: Sequence[Message]) -> tuple[float | None, list[str]]:
    """What messages cost, and the models among them that have no known price."""
    unpriced = {name for m in messages for name in unpriced_models(m.model, m.usage)}
    costs = [cost_of(m.model, m.usage, m.started) for m in messages]
    known = [cost for cost in costs if cost is not None]
    return (round(sum(known), 6) if len(known) == len(costs) else None), sorted(unpriced)


def changed_file(call: CallView) -> str | None:
    """The file that a call changed, if it did."""
    if call.name not in CHANGING or not call.ok or not is_object(call.input):
        return None
    path = call.input.get("file_path") or call.input.get("notebook_path")
    return path if isinstance(path, str) else None
