"""KillShell: stop a background command."""

from typing import Annotated

from msgspec import Meta

from turnlog.agent.tools.bash_output import job_of
from turnlog.agent.workspace.access import Uses
from turnlog.agent.workspace.inputs import Input, reader_of, schema_of
from turnlog.agent.workspace.tool import Grant, Output, Tool, ToolError, ToolOutcome
from turnlog.agent.workspace.workspace import Workspace

DESCRIPTION = "Stop a command that runs in the background, with all that it started."


class KillShellInput(Input, frozen=True):
    """Input of KillShell."""

    shell_id: Annotated[str, Meta(description="The ID that Bash gave")]


def touches(given: KillShellInput, workspace: Workspace) -> list[Uses]:
    return [Uses()]


async def run(
    given: KillShellInput, workspace: Workspace, output: Output, grant: Grant
) -> ToolOutcome:
    job = job_of(given.shell_id, workspace)
    if job.status != "running":
        raise ToolError(f"The command {job.name} is no longer running: it is {job.status}")
    await workspace.shells.kill(job)
    text = f"Stopped the command {job.name} ({job.command})"
    return ToolOutcome(text, {"success": True, "message": text, "shell_id": job.name})


KILL_SHELL = Tool(
    "KillShell",
    DESCRIPTION,
    schema_of(KillShellInput),
    reader_of(KillShellInput),
    touches,
    run,
)
