"""Depth of an export: prompts, answers, calls, or everything."""

from collections.abc import Iterable
from enum import StrEnum

from turnlog.format.json_values import Fields
from turnlog.render.rows import AnswerRow, NoteRow, PromptRow, Row, TurnEndRow


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


def rows_at(rows: Iterable[Row], depth: Depth) -> Iterable[Row]:
    """Return the rows that belong to a depth; renderers decide whether to fold outputs."""
    shown = SHALLOW.get(depth)
    return rows if shown is None else (row for row in rows if isinstance(row, shown))


def view_at(view: Fields, depth: Depth) -> Fields:
    """Return the JSON of a turn; fields that are deeper than a depth are emptied, not removed."""
    if depth is Depth.FULL:
        return view
    if depth is Depth.CALLS:
        return view | {"calls": [_shallow_call(call) for call in view["calls"]]}
    without: Fields = {"calls": [], "files": [], "ide_context": [], "subagents": []}
    return view | without | ({"messages": []} if depth is Depth.PROMPTS else {})


def _shallow_call(call: Fields) -> Fields:
    result = call["result"] if call["ok"] is False else None
    return call | {"result": result, "tool_use_result": None}


PAGE_TYPES = {
    Depth.PROMPTS: frozenset({"prompt", "compaction", "end"}),
    Depth.ANSWERS: frozenset({"prompt", "answer", "note", "summary", "compaction", "end"}),
}
"""Types of rows on pages, for the two shallowest depths."""


def page_at(page: Fields, depth: Depth) -> Fields:
    """Return the page of a turn without the details that are deeper than a depth."""
    if depth is Depth.FULL:
        return page
    if depth is Depth.CALLS:
        rows = [_shallow_row(row) for row in page["rows"]]
    else:
        rows = [row for row in page["rows"] if row["type"] in PAGE_TYPES[depth]]
    return page | {"rows": rows, "total": len(rows)}


def _shallow_row(row: Fields) -> Fields:
    if row["type"] != "call":
        return row
    result = row["result"] if row["is_error"] or row.get("is_rejected") else None
    return row | {"result": result, "images": []}
