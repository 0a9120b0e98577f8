"""TaskCreate, TaskUpdate, TaskGet and TaskList: the task list that the model keeps.

Results are worded and recorded as by client 2.1.325 (observed).
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta

from turnlog.agent.workspace.access import Uses
from turnlog.agent.workspace.inputs import Input, reader_of, schema_of
from turnlog.agent.workspace.spilled_results import fit_text
from turnlog.agent.workspace.task_list import TaskListError, is_open, numbers_in
from turnlog.agent.workspace.tool import Grant, Output, Tool, ToolError, ToolOutcome
from turnlog.agent.workspace.workspace import Workspace
from turnlog.format.json_values import Fields, is_object

NAMES = frozenset("TaskCreate TaskGet TaskList TaskUpdate".split())
LEGACY = "TodoWrite"
"""The tool that the others replace."""
OPT_IN, WHICH = "CLAUDE_CODE_ENABLE_TODO_TOOLS", "CLAUDE_CODE_ENABLE_TASKS"
YES, NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
FIRST_WITHOUT = (4, 8)
"""From this version on, models track their work without a task list (2.1.325, observed)."""
CREATED, COMPLETED, DELETED = "TaskCreated", "completed", "deleted"
COMPLETING = "TaskCompleted"
UNKNOWN = "Task not found"
SPELLINGS = {"id": "taskId", "task_id": "taskId", "active_form": "activeForm"}
"""Names that models confuse; the client corrects them before it runs a call (documented)."""
SET = ("subject", "description", "activeForm", "owner")
"""Fields that an update replaces."""

Status = Literal["pending", "in_progress", "completed"]


class TaskCreateInput(Input, frozen=True, rename="camel"):
    """Input of TaskCreate."""

    subject: Annotated[str, Meta(description="The task in a few words")]
    description: Annotated[str, Meta(description="What to do")]
    active_form: Annotated[
        str | None, Meta(description='The same in the present continuous: "Running the tests"')
    ] = None
    metadata: Annotated[Fields | None, Meta(description="Anything to keep with the task")] = None


class TaskUpdateInput(Input, frozen=True, rename="camel"):
    """Input of TaskUpdate."""

    task_id: Annotated[str, Meta(description="The number of the task")]
    subject: Annotated[str | None, Meta(description="A new subject")] = None
    description: Annotated[str | None, Meta(description="A new description")] = None
    active_form: Annotated[str | None, Meta(description="A new text in the present continuous")] = (
        None
    )
    status: Annotated[Status | Literal["deleted"] | None, Meta(description="The new status")] = None
    add_blocks: Annotated[
        list[str] | None, Meta(description="Tasks that cannot start before this one is completed")
    ] = None
    add_blocked_by: Annotated[
        list[str] | None, Meta(description="Tasks that must be completed before this one starts")
    ] = None
    owner: Annotated[str | None, Meta(description="Who works on it")] = None
    metadata: Annotated[
        Fields | None, Meta(description="Entries to set; null removes an entry")
    ] = None


class TaskGetInput(Input, frozen=True, rename="camel"):
    """Input of TaskGet."""

    task_id: Annotated[str, Meta(description="The number of the task")]


class TaskListInput(Input, frozen=True):
    """Input of TaskList, which has no fields."""


def touches(given: Any, workspace: Workspace) -> list[Uses]:
    return [Uses()]


def is_tracking(name: str) -> bool:
    """Return whether a tool reads or changes a task list."""
    return name in NAMES or name == LEGACY


def offers_tracking(version: tuple[int, int]) -> bool:
    """Return whether models of a version are offered a task list.

    Models of unknown versions are taken for new ones, as in the client.
    """
    return (0, 0) < version < FIRST_WITHOUT


def demands_tracking(named: Iterable[str]) -> bool:
    """Return whether the user wants a task list with any model; `named` are requested tools."""
    return os.environ.get(OPT_IN, "").lower() in YES or any(map(is_tracking, named))


def chosen_tracking(environment: Mapping[str, str] = os.environ) -> frozenset[str]:
    """Return the names of the task list's tools; the legacy tool only if it is requested."""
    is_legacy = environment.get(WHICH, "").lower() in NO
    return frozenset({LEGACY}) if is_legacy else NAMES


async def create(
    given: TaskCreateInput, workspace: Workspace, output: Output, grant: Grant
) -> ToolOutcome:
    fields: Fields = {"subject": given.subject, "description": given.description}
    fields |= {"activeForm": given.active_form} if given.active_form is not None else {}
    fields |= {"status": "pending", "blocks": [], "blockedBy": []}
    fields |= {"metadata": given.metadata} if given.metadata is not None else {}
    task = await _at(workspace.tasks.create, fields)
    if why := await workspace.review_task(CREATED, _about(task)):
        # The hook has seen the number, so no later task may get it.
        await _at(workspace.tasks.remove, task["id"])
        raise ToolError(why)
    about = {name: task[name] for name in ("id", "subject", "description")}
    text = f"Task #{task['id']} created successfully: {given.subject}"
    return ToolOutcome(fit_text(text, workspace.folder), {"task": about})


async def update(
    given: TaskUpdateInput, workspace: Workspace, output: Output, grant: Grant
) -> ToolOutcome:
    number, tasks = given.task_id, workspace.tasks
    task = await _at(tasks.get, number)
    if task is None:
        return _not_updated(number, UNKNOWN)
    status = task.get("status")
    if given.status == DELETED:
        await _at(tasks.remove, number)
        return _updated(number, [DELETED], {"from": status, "to": DELETED})
    is_changed = given.status is not None and given.status != status
    is_done = is_changed and given.status == COMPLETED
    if is_done and (why := await workspace.review_task(COMPLETING, _about(task))):
        return _not_updated(number, why)
    changes = _changes(given, task) | ({"status": given.status} if is_changed else {})
    await _at(tasks.update, number, changes)
    blocks = [await _at(tasks.link, number, other) for other in given.add_blocks or ()]
    blocked = [await _at(tasks.link, other, number) for other in given.add_blocked_by or ()]
    linked = [name for name, made in (("blocks", blocks), ("blockedBy", blocked)) if any(made)]
    change = {"from": status, "to": given.status} if is_changed else None
    return _updated(number, [*changes, *linked], change)


async def get(
    given: TaskGetInput, workspace: Workspace, output: Output, grant: Grant
) -> ToolOutcome:
    task = await _at(workspace.tasks.get, given.task_id)
    if task is None:
        return ToolOutcome(UNKNOWN, {"task": None})
    named = ("id", "subject", "description", "status")
    about: Fields = {name: task.get(name) or "" for name in named}
    about |= {name: numbers_in(task, name) for name in ("blocks", "blockedBy")}
    rows = [
        f"Task #{task['id']}: {about['subject']}",
        f"Status: {about['status']}",
        f"Description: {about['description']}",
        *([f"Blocked by: {_hashed(about['blockedBy'])}"] if about["blockedBy"] else []),
        *([f"Blocks: {_hashed(about['blocks'])}"] if about["blocks"] else []),
    ]
    return ToolOutcome(fit_text("\n".join(rows), workspace.folder), {"task": about})


async def list_all(
    given: TaskListInput, workspace: Workspace, output: Output, grant: Grant
) -> ToolOutcome:
    tasks = await _at(workspace.tasks.all)
    still_open = {task["id"] for task in tasks if is_open(task)}
    listed = [_listed(task, still_open) for task in tasks]
    text = "\n".join(map(_row, listed)) or "No tasks found"
    return ToolOutcome(fit_text(text, workspace.folder), {"tasks": listed})


def _listed(task: Fields, still_open: set[str]) -> Fields:
    about: Fields = {name: task.get(name) or "" for name in ("id", "subject", "status")}
    about |= {"owner": task["owner"]} if "owner" in task else {}
    # A finished task no longer blocks others.
    return about | {"blockedBy": [n for n in numbers_in(task, "blockedBy") if n in still_open]}


def _row(task: Fields) -> str:
    owner = f" ({task['owner']})" if task.get("owner") else ""
    blocked = f" [blocked by {_hashed(task['blockedBy'])}]" if task["blockedBy"] else ""
    return f"#{task['id']} [{task['status']}] {task['subject']}{owner}{blocked}"


def _hashed(numbers: list[str]) -> str:
    return ", ".join(f"#{number}" for number in numbers)


def _changes(given: TaskUpdateInput, task: Fields) -> Fields:
    """Return the fields whose values an update changes."""
    values = (given.subject, given.description, given.active_form, given.owner)
    fields = dict(zip(SET, values, strict=True))
    changes = {name: new for name, new in fields.items() if new is not None}
    changes = {name: new for name, new in changes.items() if new != task.get(name)}
    if given.metadata is None:
        return changes
    before = task.get("metadata")
    merged: Fields = (before if is_object(before) else {}) | given.metadata
    removed = [key for key, value in given.metadata.items() if value is None]
    return changes | {"metadata": {key: merged[key] for key in merged if key not in removed}}


def _about(task: Fields) -> Fields:
    names = {"id": "task_id", "subject": "task_subject", "description": "task_description"}
    return {ours: task.get(name, "") for name, ours in names.items()}


def _updated(number: str, fields: list[str], change: Fields | None) -> ToolOutcome:
    data: Fields = {"success": True, "taskId": number, "updatedFields": fields}
    text = f"Updated task #{number} {', '.join(fields)}"
    return ToolOutcome(text, data | ({"statusChange": change} if change else {}))


def _not_updated(number: str, why: str) -> ToolOutcome:
    data: Fields = {"success": False, "taskId": number, "updatedFields": [], "error": why}
    return ToolOutcome(why, data)


async def _at(work: Callable[..., Any], *arguments: Any) -> Any:
    """Call a method of the task list in a thread: another process may hold its lock."""
    try:
        return await asyncio.to_thread(work, *arguments)
    except TaskListError as error:
        raise ToolError(f"The task list cannot be used: {error}") from error


def _repairing(read: Callable[[Fields], Any]) -> Callable[[Fields], Any]:
    """Return a reader that corrects the names of fields first."""

    def repair(value: Fields) -> Any:
        named = {SPELLINGS.get(name, name): each for name, each in value.items()}
        return read(named)

    return repair


def _read_creation(value: Fields) -> TaskCreateInput:
    # Without a description, the subject stands for it (2.1.325, observed).
    described = {"description": value["subject"]} if "subject" in value else {}
    return reader_of(TaskCreateInput)(described | value)


CREATE = Tool(
    "TaskCreate",
    "Add a task to the task list, which you and the user see. Use it for work of three steps or "
    "more, and when the user names several things to do. A new task is pending.",
    schema_of(TaskCreateInput),
    _repairing(_read_creation),
    touches,
    create,
)
UPDATE = Tool(
    "TaskUpdate",
    "Change a task of the task list. Set its status to in_progress when you start with it, to "
    "completed as soon as it is wholly done, and to deleted if it is no longer needed.",
    schema_of(TaskUpdateInput),
    _repairing(reader_of(TaskUpdateInput)),
    touches,
    update,
)
GET = Tool(
    "TaskGet",
    "Return a task of the task list with its description and the tasks that it waits for.",
    schema_of(TaskGetInput),
    _repairing(reader_of(TaskGetInput)),
    touches,
    get,
    is_parallel=True,
)
LIST = Tool(
    "TaskList",
    "Return all tasks of the task list with their status.",
    schema_of(TaskListInput),
    reader_of(TaskListInput),
    touches,
    list_all,
    is_parallel=True,
)
