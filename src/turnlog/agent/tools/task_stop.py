"""TaskStop: stop a background command or agent; KillShell: stop a background command."""

from typing import Annotated

from msgspec import Meta

from turnlog.agent.tools.bash_output import job_of
from turnlog.agent.tools.task_output import task_of
from turnlog.agent.workspace.access import Uses
from turnlog.agent.workspace.inputs import Input, reader_of, schema_of
from turnlog.agent.workspace.shell.background_tasks import BackgroundTask
from turnlog.agent.workspace.tool import Grant, Output, Tool, ToolError, ToolOutcome
from turnlog.agent.workspace.workspace import Workspace


class TaskStopInput(Input, frozen=True):
    """Input of TaskStop."""

    task_id: Annotated[str, Meta(description="The ID of the background command or agent")]


class KillShellInput(Input, frozen=True):
    """Input of KillShell."""

    shell_id: Annotated[str, Meta(description="The ID that Bash gave")]


def touches(given: TaskStopInput | KillShellInput, workspace: Workspace) -> list[Uses]:
    return [Uses()]


async def stop_task(
    given: TaskStopInput, workspace: Workspace, output: Output, grant: Grant
) -> ToolOutcome:
    text = await _stop(task_of(given.task_id, workspace), workspace)
    return ToolOutcome(text, {"message": text, "task_id": given.task_id})


async def stop_command(
    given: KillShellInput, workspace: Workspace, output: Output, grant: Grant
) -> ToolOutcome:
    text = await _stop(job_of(given.shell_id, workspace), workspace)
    return ToolOutcome(text, {"success": True, "message": text, "shell_id": given.shell_id})


async def _stop(task: BackgroundTask, workspace: Workspace) -> str:
    """Stop a task and everything that it started; return a message for the model."""
    if task.status != "running":
        raise ToolError(f"Task {task.name} is not running: it is {task.status}")
    await workspace.shells.kill(task)
    return f"Stopped task {task.name} ({task.title})"


TASK_STOP = Tool(
    "TaskStop",
    "Stop a background command or agent.",
    schema_of(TaskStopInput),
    reader_of(TaskStopInput),
    touches,
    stop_task,
)
KILL_SHELL = Tool(
    "KillShell",
    "Stop a command that runs in the background, with all that it started.",
    schema_of(KillShellInput),
    reader_of(KillShellInput),
    touches,
    stop_command,
)
