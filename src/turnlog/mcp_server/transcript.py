"""A transcript for models: few words per row, each with the line that it comes from."""

from collections.abc import Iterator

from turnlog.conversation.session import Session
from turnlog.mcp_server.citations import cite
from turnlog.render.rows import (
    AnswerRow,
    CallRow,
    NoteRow,
    PromptRow,
    Row,
    RowBuilder,
    ThoughtRow,
    ViewOptions,
)

FOLDED = 12
"""Lines of an output that are shown unless all are asked for; of a failed call, the last ones."""


def transcript_blocks(
    session: Session, first: int, last: int, options: ViewOptions
) -> Iterator[str]:
    """Yield the rows of some turns as texts, masked."""
    own = [agent for agent in session.subagents if session.find_call(agent.call_id)]
    # Sub-agents are named, not inlined: one may be longer than the session that started it.
    builder = RowBuilder(session, options, [], frozenset(agent.path for agent in own))
    agents = {agent.call_id: agent.id for agent in own}
    for turn in session.turns[first - 1 : last]:
        calls = {call.use.line: agents.get(call.id) for call in turn.calls if call.id in agents}
        for row in builder.turn(turn):
            text = _text(session, row, options)
            agent = calls.get(row.line or 0) if isinstance(row, CallRow) else None
            if text:
                yield f'{text}\n  sub-agent: read(ref="{agent}")' if agent else text


def _text(session: Session, row: Row, options: ViewOptions) -> str:
    match row:
        case PromptRow():
            return f"{cite(session.id, row.line, row.n, row.time)} prompt: {row.text}"
        case AnswerRow():
            return f":{row.line} answer: {row.text}"
        case ThoughtRow():
            return f":{row.line} thinking: {row.text}"
        case NoteRow():
            return (
                f":{row.line} note: {row.text if options.full or row.is_open else row.text[:400]}"
            )
        case CallRow():
            return _call(row, options.full)
        case _:
            return ""


def _call(row: CallRow, full: bool) -> str:
    failed = " FAILED" if row.is_error else " DENIED" if row.is_rejected else ""
    outcome = f" → {row.outcome}" if row.outcome else ""
    lines = [f":{row.line} {row.name} {row.title}{outcome}{failed}"]
    is_whole = full or row.is_open or row.style == "diff"
    # The end of a failed command's output names the error.
    body = row.body if is_whole or len(row.body) <= FOLDED else _folded(row)
    return "\n".join([*lines, *(f"  {line}" for line in body)])


def _folded(row: CallRow) -> list[str]:
    hidden = len(row.body) - FOLDED
    if row.is_error:
        return [f"… {hidden} lines before", *row.body[-FOLDED:]]
    return [*row.body[:FOLDED], f"… {hidden} more lines"]
