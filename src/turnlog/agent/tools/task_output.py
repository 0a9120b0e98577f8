"""TaskOutput: the output of a background command or agent, once it has ended."""

import asyncio
from typing import Annotated

from msgspec import Meta

from turnlog.agent.workspace.access import Uses
from turnlog.agent.workspace.inputs import Input, reader_of, schema_of
from turnlog.agent.workspace.shell.background_tasks import BackgroundAgent, BackgroundTask
from turnlog.agent.workspace.tool import Grant, Output, Tool, ToolError, ToolOutcome
from turnlog.agent.workspace.workspace import Workspace
from turnlog.format.json_values import Fields
from turnlog.format.regular_files import read_regular

LONGEST = 600_000
"""Maximum milliseconds that a call may wait."""
MOST = 30_000
"""Maximum characters of output that are returned; longer output loses its start."""
LARGEST = 1 << 26


class TaskOutputInput(Input, frozen=True):
    """Input of TaskOutput."""

    task_id: Annotated[str, Meta(description="The ID of the background command or agent")]
    block: Annotated[bool, Meta(description="Wait until it has ended")] = True
    timeout: Annotated[int, Meta(description="Milliseconds to wait", ge=0, le=LONGEST)] = 30_000


def touches(given: TaskOutputInput, workspace: Workspace) -> list[Uses]:
    return [Uses()]


async def read_output(
    given: TaskOutputInput, workspace: Workspace, output: Output, grant: Grant
) -> ToolOutcome:
    job = task_of(given.task_id, workspace)
    if given.block:
        # Neither a timeout nor an interruption of `wait` cancels the task.
        await asyncio.wait({job.watch}, timeout=given.timeout / 1000)
    status = "timeout" if given.block and job.status == "running" else "success"
    printed = await asyncio.to_thread(_printed, job)
    kind = "local_agent" if isinstance(job, BackgroundAgent) else "local_bash"
    rows = [
        f"<retrieval_status>{status}</retrieval_status>",
        f"<task_id>{job.name}</task_id>",
        f"<task_type>{kind}</task_type>",
        f"<status>{job.status}</status>",
        *([f"<output>\n{printed}\n</output>"] if printed else []),
    ]
    about: Fields = {"task_id": job.name, "task_type": kind, "status": job.status}
    about |= {"description": job.title, "output": printed}
    return ToolOutcome("\n\n".join(rows), {"retrieval_status": status, "task": about})


def task_of(name: str, workspace: Workspace) -> BackgroundTask:
    """Return a background command or agent by its id."""
    if name not in workspace.shells.jobs:
        raise ToolError(f"No task found with ID: {name}")
    return workspace.shells.jobs[name]


def _printed(job: BackgroundTask) -> str:
    """Return the end of a command's output, or an agent's report."""
    if isinstance(job, BackgroundAgent):
        return job.report
    return read_regular(job.output_file, LARGEST).decode("utf-8", "replace")[-MOST:].strip("\n")


TASK_OUTPUT = Tool(
    "TaskOutput",
    "Return the output of a background command or agent, by default once it has ended.",
    schema_of(TaskOutputInput),
    reader_of(TaskOutputInput),
    touches,
    read_output,
    is_parallel=True,
)
