"""Format calls and results, with one function per tool in a table."""

import difflib
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from turnlog.conversation.call_titles import todo_list
from turnlog.conversation.calls import Detail
from turnlog.format.json_values import Fields, as_object, is_array, is_object

LONG = 1_000_000
BOXES = {"completed": "☑", "in_progress": "◐"}


def body_of(
    name: str, detail: Detail, is_error: bool = False, has_text: bool = True
) -> tuple[str, list[str]]:
    """Return the style (`diff` or `text`) and the lines of a call's body.

    A failed call has its error instead of a diff. Without `has_text`, only a diff has lines.
    """
    is_change = name in ("Edit", "MultiEdit", "Write", "NotebookEdit")
    # A failed call did not make the change that its diff would show.
    if is_change and not is_error and (lines := diff_of(detail)):
        return "diff", lines
    if not has_text:
        return "text", []
    if name == "AskUserQuestion" and (answers := _answers(detail)):
        return "text", answers
    if name == "ExitPlanMode" and isinstance(plan := as_object(detail.structured).get("plan"), str):
        return "text", plan.strip("\n").splitlines()
    if name == "TodoWrite" and is_object(detail.input):
        return "text", _todos(detail.input)
    return "text", (detail.output or "").splitlines()


def outcome_of(name: str, detail: Detail, is_error: bool = False) -> str:
    """Return the outcome of a call in a word or two."""
    structured = as_object(detail.structured)
    if detail.denial:
        return f"denied ({detail.denial})"
    if detail.is_interrupted:
        return "interrupted"
    outcome = _any_outcome if is_error else OUTCOMES.get(name, _any_outcome)
    return outcome(structured, detail)


def _answers(detail: Detail) -> list[str]:
    answers = as_object(as_object(detail.structured).get("answers"))
    return [f"{asked} → {answer}" for asked, answer in answers.items()]


def _todos(given: Fields) -> list[str]:
    rows = todo_list(given)
    return [f"{BOXES.get(str(todo.get('status')), '☐')} {todo.get('content', '')}" for todo in rows]


def _any_outcome(structured: Fields, detail: Detail) -> str:
    if detail.result is None:
        return "no result"
    count = _count_lines(detail.result)
    return _counted(count, "line") if count > 1 else ""


def _count_lines(text: str) -> int:
    # Splitting a text of 300 MB creates millions of objects; line breaks other than `\n` do not
    # matter there.
    if len(text) > LONG:
        return text.count("\n") + (not text.endswith("\n"))
    return len(text.splitlines())


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


def _question_outcome(structured: Fields, detail: Detail) -> str:
    return "answered" if as_object(structured.get("answers")) else _any_outcome(structured, detail)


def _plan_outcome(structured: Fields, detail: Detail) -> str:
    return "approved" if "plan" in structured else _any_outcome(structured, detail)


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
    "AskUserQuestion": _question_outcome,
    "ExitPlanMode": _plan_outcome,
}


def diff_of(detail: Detail) -> list[str]:
    """Return the diff of a call's change, line by line; empty if it is unknown."""
    structured = as_object(detail.structured)
    patch = structured.get("structuredPatch")
    if is_array(patch) and patch:
        return list(_patch_lines(patch))
    # Old clients record no patch; then the arguments show what was replaced, but not where.
    given = as_object(detail.input)
    edits = given.get("edits") if is_array(given.get("edits")) else [given]
    return [line for edit in edits or [] if is_object(edit) for line in _edit_lines(edit)]


def _patch_lines(patch: list[Any]) -> Iterator[str]:
    for hunk in patch:
        if is_object(hunk):
            start = f"-{hunk.get('oldStart')},{hunk.get('oldLines')}"
            yield f"@@ {start} +{hunk.get('newStart')},{hunk.get('newLines')} @@"
            lines = hunk.get("lines")
            yield from map(str, lines if is_array(lines) else [])


def _edit_lines(edit: dict[str, Any]) -> Iterator[str]:
    old = str(edit.get("old_string") or "").splitlines()
    new = str(edit.get("new_string") or edit.get("content") or edit.get("new_source") or "")
    lines = difflib.unified_diff(old, new.splitlines(), lineterm="", n=3)
    yield from islice(lines, 2, None)  # skip the file names: --- and +++
