"""TodoWrite: replace the to-do list."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, to_builtins

from turnlog.agent.workspace.access import Uses
from turnlog.agent.workspace.inputs import Input, reader_of, schema_of
from turnlog.agent.workspace.tool import Grant, Output, Tool, ToolOutcome
from turnlog.agent.workspace.workspace import Workspace

DESCRIPTION = """\
Keep a list of the steps of a task that takes several, for you and the user to see. Each call \
gives the whole list. Set a step to in_progress when you start with it, one at a time, and to \
completed as soon as it is done."""


class Todo(Struct, frozen=True, kw_only=True, rename="camel"):
    """An item of the to-do list."""

    content: Annotated[str, Meta(min_length=1, description='What to do: "Run the tests"')]
    status: Literal["pending", "in_progress", "completed"]
    active_form: Annotated[
        str,
        Meta(min_length=1, description='The same in the present continuous: "Running the tests"'),
    ]


class TodoWriteInput(Input, frozen=True):
    """Input of TodoWrite."""

    todos: Annotated[list[Todo], Meta(description="All steps, including completed ones")]


def touches(given: TodoWriteInput, workspace: Workspace) -> list[Uses]:
    return [Uses()]


async def run(
    given: TodoWriteInput, workspace: Workspace, output: Output, grant: Grant
) -> ToolOutcome:
    old, new = workspace.todos, to_builtins(given.todos)
    workspace.todos = new
    return ToolOutcome(
        "The list has been updated. Go on with it.", {"oldTodos": old, "newTodos": new}
    )


TODO_WRITE = Tool(
    "TodoWrite",
    DESCRIPTION,
    schema_of(TodoWriteInput),
    reader_of(TodoWriteInput),
    touches,
    run,
)
