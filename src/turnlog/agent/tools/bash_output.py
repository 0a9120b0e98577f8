"""BashOutput: return new output of a background command."""

from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta

from turnlog.agent.tools.files.ripgrep import matching_lines
from turnlog.agent.workspace.access import Uses
from turnlog.agent.workspace.inputs import Input, reader_of, schema_of
from turnlog.agent.workspace.shell.background_tasks import BackgroundCommand
from turnlog.agent.workspace.tool import Grant, Output, Tool, ToolError, ToolOutcome
from turnlog.agent.workspace.workspace import Workspace

MOST = 30_000
"""Maximum bytes returned by one call; if there are more, the last ones are returned."""

DESCRIPTION = """\
See what a command in the background printed since the last look at it, and whether it still runs. \
With filter, only lines that match a regular expression are returned; the others are skipped."""


class BashOutputInput(Input, frozen=True):
    """Input of BashOutput."""

    bash_id: Annotated[str, Meta(description="The ID that Bash returned")]
    filter: Annotated[str | None, Meta(description="Regular expression that lines must match")] = (
        None
    )


def touches(given: BashOutputInput, workspace: Workspace) -> list[Uses]:
    return [Uses()]


async def run(
    given: BashOutputInput, workspace: Workspace, output: Output, grant: Grant
) -> ToolOutcome:
    job = job_of(given.bash_id, workspace)
    # Read before the output: a command that ends in between would otherwise be reported as ended
    # without its last lines.
    status, code = job.status, job.running.code
    before = job.tail.offset
    text = job.tail.more(MOST)
    skipped = job.tail.offset - before - MOST
    text = await matching_lines(text, given.filter) if given.filter else text
    text = text.rstrip("\n")
    parts = [f"<status>{status}</status>"]
    if code is not None:
        parts.append(f"<exit_code>{code}</exit_code>")
    if skipped > 0:
        parts.append(f"{skipped:,} bytes more are in {job.running.printed}")
    if text:
        parts.append(f"<stdout>\n{text}\n</stdout>")
    return ToolOutcome("\n\n".join(parts), _described(job, status, text))


def job_of(name: str, workspace: Workspace) -> BackgroundCommand:
    """Return a background command by its id."""
    jobs = workspace.shells.jobs.values()
    commands = {job.name: job for job in jobs if isinstance(job, BackgroundCommand)}
    if name not in commands:
        there = ", ".join(commands) or "none"
        raise ToolError(f"No background command has the ID {name}; available: {there}")
    return commands[name]


def _described(job: BackgroundCommand, status: str, text: str) -> dict[str, object]:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return {
        "shellId": job.name,
        "command": job.command,
        "status": status,
        "exitCode": job.running.code,
        "stdout": text,
        "stderr": "",
        "stdoutLines": len(text.splitlines()),
        "stderrLines": 0,
        "timestamp": now.replace("+00:00", "Z"),
    }


BASH_OUTPUT = Tool(
    "BashOutput",
    DESCRIPTION,
    schema_of(BashOutputInput),
    reader_of(BashOutputInput),
    touches,
    run,
    is_parallel=True,
)
