"""Render a transcript for models: few words per row, each with its line in the file."""

from collections.abc import Iterator
from typing import NamedTuple

from turnlog.conversation.session import Session
from turnlog.mcp_server.answers import estimate_tokens
from turnlog.mcp_server.citations import cite
from turnlog.render.rows import (
    AnswerRow,
    CallRow,
    NoteRow,
    PromptRow,
    Row,
    RowBuilder,
    ThoughtRow,
    TurnEndRow,
    ViewOptions,
)

REACHED, BEFORE = 4_000, 1_500
"""A turn is shown from its start if a line is at most REACHED tokens into it; otherwise, from about
BEFORE tokens before the line."""
FOLDED = 12
"""Lines shown of an output unless `full` is set; the last ones for a failed call."""


class TranscriptRow(NamedTuple):
    """A row of a transcript as text."""

    line: int
    text: str


def transcript_rows(
    session: Session, first: int, last: int, options: ViewOptions
) -> Iterator[TranscriptRow]:
    """Yield the rows of some turns as texts, masked."""
    own = [agent for agent in session.subagents if session.find_call(agent.call_id)]
    # Sub-agents are named, not inlined: one may be longer than the session that started it.
    builder = RowBuilder(session, options, [], frozenset(agent.path for agent in own))
    # A sub-agent is named at its call; if that is on another branch or stripped, it is left out.
    agents = {agent.call_id: agent.id for agent in own}
    for turn in session.turns[first - 1 : last]:
        calls = {call.use.line: agents.get(call.id) for call in turn.calls if call.id in agents}
        for row in builder.turn(turn):
            if isinstance(row, TurnEndRow):
                continue
            text = _text(session, row, options)
            agent = calls.get(row.line or 0) if isinstance(row, CallRow) else None
            if text:
                text += f'\n  sub-agent: read(ref="{agent}")' if agent else ""
                yield TranscriptRow(row.line or 0, text)


def rows_around(rows: list[TranscriptRow], line: int) -> list[TranscriptRow]:
    """Return the first row, which is the prompt, and all rows from shortly before a line.

    Return all rows if the line is so near the start that one answer includes it anyway.
    """
    place = max((number for number, row in enumerate(rows) if row.line <= line), default=0)
    if sum(estimate_tokens(row.text) for row in rows[: place + 1]) <= REACHED:
        return rows
    start, tokens = place, 0
    while start > 1 and (tokens := tokens + estimate_tokens(rows[start - 1].text)) <= BEFORE:
        start -= 1
    return rows[:1] + rows[start:] if start else rows


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
