"""One-line titles of tool calls, without the tool's name, from one table of functions."""

import json
from collections.abc import Callable
from typing import Any

from turnlog.format.json_values import Fields, as_object, objects_in


def call_title(name: str, given: object) -> str:
    """Return the arguments of a call as a title; a shell command may span several lines."""
    return TITLES.get(name, _any_title)(as_object(given))


def todo_list(given: Fields) -> list[Fields]:
    """Return the items of a todo list."""
    return objects_in(given.get("todos"))


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
    scope = given.get("path") or given.get("glob")
    return f"{given.get('pattern', '')}{f' in {scope}' if scope else ''}"


def _agent_title(given: Fields) -> str:
    kind = given.get("subagent_type")
    return f"{given.get('description', '')}{f' ({kind})' if kind else ''}"


def _question_title(given: Fields) -> str:
    questions = given.get("questions")
    asked = objects_in(questions)
    return " · ".join(str(each.get("question", "")) for each in asked)


def _plan_title(given: Fields) -> str:
    lines = [line.strip("# ") for line in str(given.get("plan") or "").splitlines()]
    return next(filter(None, lines), "")


TITLES: dict[str, Callable[[Fields], str]] = {
    "Bash": lambda given: str(given.get("command", "")),
    "Read": _read_title,
    "Grep": _grep_title,
    "Glob": lambda given: str(given.get("pattern", "")),
    "Task": _agent_title,
    "Agent": _agent_title,
    "AskUserQuestion": _question_title,
    "ExitPlanMode": _plan_title,
    "TodoWrite": lambda given: f"{len(todo_list(given))} items",
}
