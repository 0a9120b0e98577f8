"""How much of a session an export contains: prompts, answers, calls, or everything."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import StrEnum
from typing import Any

from turnlog.render.rows import AnswerRow, CallRow, NoteRow, PromptRow, Row, TurnEndRow
from turnlog.render.terminal_text import FOLDED


class Depth(StrEnum):
    """Each depth contains the ones before it."""

    PROMPTS = "prompts"
    ANSWERS = "answers"
    """Answers of the model and events, such as compactions."""
    CALLS = "calls"
    """Thinking and tool calls, with diffs and the first lines of errors."""
    FULL = "full"
    """Complete inputs and outputs, and texts that the client injected."""


SHALLOW = {
    Depth.PROMPTS: (PromptRow, TurnEndRow),
    Depth.ANSWERS: (PromptRow, AnswerRow, NoteRow, TurnEndRow),
}


def rows_at(rows: Iterable[Row], depth: Depth) -> Iterator[Row]:
    """Yield the rows that belong to a depth, without the texts that are deeper."""
    if depth in SHALLOW:
        yield from (row for row in rows if isinstance(row, SHALLOW[depth]))
    elif depth is Depth.CALLS:
        yield from (_folded(row) if isinstance(row, CallRow) else row for row in rows)
    else:
        yield from rows


def _folded(row: CallRow) -> CallRow:
    """Return a call without its output; the diff of a change and the start of an error stay."""
    body = row.body if row.style == "diff" or row.is_open else row.body[: FOLDED * row.is_error]
    return replace(row, body=body, rows=list(rows_at(row.rows, Depth.CALLS)))


def view_at(view: dict[str, Any], depth: Depth) -> dict[str, Any]:
    """Return the JSON of a turn without what is deeper than a depth; the fields stay the same."""
    if depth is Depth.FULL:
        return view
    if depth is Depth.CALLS:
        return view | {"calls": [_shallow_call(call) for call in view["calls"]]}
    without: dict[str, Any] = {"calls": [], "files": [], "ide_context": [], "subagents": []}
    return view | without | ({"messages": []} if depth is Depth.PROMPTS else {})


def _shallow_call(call: dict[str, Any]) -> dict[str, Any]:
    result = call["result"] if call["ok"] is False else None
    return call | {"result": result, "tool_use_result": None}
