"""How each tool's call and result is shown: one table of functions."""

import json
from collections.abc import Callable
from typing import Any

from turnlog.conversation.calls import Detail
from turnlog.format.fields import is_array, is_object
from turnlog.render.diffs import diff_of

Fields = dict[str, Any]
BOXES = {"completed": "☑", "in_progress": "◐"}


def title_of(name: str, detail: Detail) -> str:
    """A call on one line, without the tool's name."""
    given = detail.input if is_object(detail.input) else {}
    return TITLES.get(name, _any_title)(given)


def body_of(name: str, detail: Detail) -> tuple[str, list[str]]:
    """What a call did, as `diff` or `text`, in lines."""
    if name in ("Edit", "MultiEdit", "Write", "NotebookEdit") and (lines := diff_of(detail)):
        return "diff", lines
    if name == "TodoWrite" and is_object(detail.input):
        return "text", _todos(detail.input)
    return "text", (detail.output or "").splitlines()


def outcome_of(name: str, detail: Detail) -> str:
    """How a call went, in a word or two."""
    structured = detail.structured if is_object(detail.structured) else {}
    if detail.denial:
        return f"denied ({detail.denial})"
    if detail.is_interrupted:
        return "interrupted"
    return OUTCOMES.get(name, _any_outcome)(structured, detail)


def _any_title(given: Fields) -> str:
    known = ("file_path", "path", "pattern", "query", "url", "description", "subject", "skill")
    for name in known:
        if isinstance(given.get(name), str):
            return given[name]
    return json.dumps(given, ensure_ascii=False) if given else ""


def _read_title(given: Fields) -> str:
    start, limit = (_number(given.get(name)) for name in ("offset", "limit"))
    lines = f":{start or 1}-{(start or 1) + limit - 1}" if limit else f":{start}-" if start else ""
    return f"{given.get('file_path', '')}{lines}"


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _grep_title(given: Fields) -> str:
    place = given.get("path") or given.get("glob")
    return f"{given.get('pattern', '')}{f' in {place}' if place else ''}"


def _agent_title(given: Fields) -> str:
    kind = given.get("subagent_type")
    return f"{given.get('description', '')}{f' ({kind})' if kind else ''}"


def _todos(given: Fields) -> list[str]:
    rows = _todo_list(given)
    return [f"{BOXES.get(str(todo.get('status')), '☐')} {todo.get('content', '')}" for todo in rows]


def _todo_list(given: Fields) -> list[Fields]:
    todos = given.get("todos")
    return [todo for todo in todos if is_object(todo)] if is_array(todos) else []


def _any_outcome(structured: Fields, detail: Detail) -> str:
    if detail.result is None:
        return "no result"
    count = len(detail.result.splitlines())
    return f"{count} lines" if count > 1 else ""


def _bash_outcome(structured: Fields, detail: Detail) -> str:
    if structured.get("backgroundTaskId"):
        return "in the background"
    return _any_outcome(structured, detail)


def _read_outcome(structured: Fields, detail: Detail) -> str:
    file = structured.get("file")
    if is_object(file) and isinstance(file.get("numLines"), int):
        return f"{file['numLines']} lines"
    return str(structured.get("type") or "") or _any_outcome(structured, detail)


def _edit_outcome(structured: Fields, detail: Detail) -> str:
    lines = diff_of(detail)
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    return f"+{added} -{removed}" if lines else _any_outcome(structured, detail)


def _found_outcome(structured: Fields, detail: Detail) -> str:
    for name, word in (("numLines", "lines"), ("numFiles", "files")):
        if isinstance(structured.get(name), int):
            return f"{structured[name]} {word}"
    return _any_outcome(structured, detail)


def _agent_outcome(structured: Fields, detail: Detail) -> str:
    if structured.get("status") == "async_launched":
        return "in the background"
    tokens = structured.get("totalTokens")
    return f"{tokens:,} tokens" if isinstance(tokens, int) else _any_outcome(structured, detail)


TITLES: dict[str, Callable[[Fields], str]] = {
    "Bash": lambda given: str(given.get("command", "")),
    "Read": _read_title,
    "Grep": _grep_title,
    "Glob": lambda given: str(given.get("pattern", "")),
    "Task": _agent_title,
    "Agent": _agent_title,
    "TodoWrite": lambda given: f"{len(_todo_list(given))} items",
}

OUTCOMES: dict[str, Callable[[Fields, Detail], str]] = {
    "Bash": _bash_outcome,
    "Read": _read_outcome,
    "Edit": _edit_outcome,
    "MultiEdit": _edit_outcome,
    "Write": _edit_outcome,
    "Grep": _found_outcome,
    "Glob": _found_outcome,
    "Task": _agent_outcome,
    "Agent": _agent_outcome,
    "TodoWrite": lambda structured, detail: "",
}
