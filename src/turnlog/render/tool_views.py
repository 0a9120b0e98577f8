"""How each tool's call and result is shown: one table of functions."""

from collections.abc import Callable

from turnlog.conversation.call_titles import call_title, todo_list
from turnlog.conversation.calls import Detail
from turnlog.conversation.diffs import diff_of
from turnlog.format.json_values import Fields, is_object

BOXES = {"completed": "☑", "in_progress": "◐"}


def title_of(name: str, detail: Detail) -> str:
    """A call on one line, without the tool's name."""
    return call_title(name, detail.input)


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


def _todos(given: Fields) -> list[str]:
    rows = todo_list(given)
    return [f"{BOXES.get(str(todo.get('status')), '☐')} {todo.get('content', '')}" for todo in rows]


def _any_outcome(structured: Fields, detail: Detail) -> str:
    if detail.result is None:
        return "no result"
    count = len(detail.result.splitlines())
    return _counted(count, "line") if count > 1 else ""


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _bash_outcome(structured: Fields, detail: Detail) -> str:
    if structured.get("backgroundTaskId"):
        return "in the background"
    return _any_outcome(structured, detail)


def _read_outcome(structured: Fields, detail: Detail) -> str:
    file = structured.get("file")
    if is_object(file) and isinstance(file.get("numLines"), int):
        return _counted(file["numLines"], "line")
    return str(structured.get("type") or "") or _any_outcome(structured, detail)


def _edit_outcome(structured: Fields, detail: Detail) -> str:
    lines = diff_of(detail)
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    return f"+{added} -{removed}" if lines else _any_outcome(structured, detail)


def _found_outcome(structured: Fields, detail: Detail) -> str:
    for name, word in (("numLines", "line"), ("numFiles", "file")):
        if isinstance(structured.get(name), int):
            return _counted(structured[name], word)
    return _any_outcome(structured, detail)


def _agent_outcome(structured: Fields, detail: Detail) -> str:
    if structured.get("status") == "async_launched":
        return "in the background"
    tokens = structured.get("totalTokens")
    return f"{tokens:,} tokens" if isinstance(tokens, int) else _any_outcome(structured, detail)


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
