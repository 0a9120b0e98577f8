"""turnlog agents: chats that run in the background."""

import sys
import time

import click

from turnlog.cli.arguments import json_option
from turnlog.cli.output import echo_json, plain, width
from turnlog.cli.tables import Column, Table, with_rows
from turnlog.cli.terminal import Look, dim, echo, echo_plain
from turnlog.errors import UsageError
from turnlog.format.portable import HAS_FOLDER_DESCRIPTORS
from turnlog.text import short_duration

COLUMNS = (
    Column("id", is_whole=True),
    Column("status", is_whole=True),
    Column("for", is_number=True, look="dim"),
    Column("name", width=32),
    Column("directory", expendable=1, look="dim"),
    Column("session", expendable=2, look="dim"),
    Column("pid", is_number=True, expendable=3, look="dim"),
)
LOOKS: dict[str, Look] = {"running": "green", "ended": "dim", "killed": "red"}
NONE = "No chats are running in the background (try: turnlog chat --bg PROMPT)"
job_argument = click.argument("job", metavar="ID")


@click.group("agents", invoke_without_command=True)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List chats that run in the background.

    `turnlog chat --bg PROMPT` starts one: a chat in a terminal of its own, which keeps running when
    yours is closed. If it has a question, it waits for an answer. ID is the id that --bg prints,
    its start, or a part of the chat's name.

    A chat that has ended is listed until `turnlog agents rm` removes it. A chat is "killed" if it
    could not record its end: its process was killed, or the machine was restarted.

    \b
    Examples:
      turnlog chat --bg "Make the tests pass"
      turnlog agents
      turnlog agents attach 1f0c
    """
    # Also for subcommands, whose imports would fail on Windows: it has no termios.
    if not HAS_FOLDER_DESCRIPTORS:
        raise UsageError("background chats need Linux, macOS or WSL", "wsl turnlog agents")
    if ctx.invoked_subcommand:
        return
    from turnlog.agent.background.background_jobs import list_jobs

    jobs = list_jobs()
    if as_json:
        echo_json([job.fields for job in jobs])
        return
    if not jobs:
        echo(dim(NONE), err=True)
        return
    rows = [
        [
            job.state.id,
            job.status,
            short_duration(float(int((job.state.ended or time.time()) - job.state.started))),
            plain(job.state.name),
            plain(job.state.cwd),
            job.state.session,
            str(job.state.pid or "") if job.is_running else "",
        ]
        for job in jobs
    ]
    table = Table(with_rows(COLUMNS, rows), width())
    echo(table.head())
    for row in rows:
        echo(table.row(row, {"status": LOOKS[row[1]]}).rstrip())


@command.command("attach")
@job_argument
def attach(job: str) -> None:
    """Open a background chat in this terminal; Ctrl-\\ leaves it running.

    A chat that has ended is resumed with `turnlog chat --resume`.

    \b
    Examples:
      turnlog agents attach 1f0c
    """
    from turnlog.agent.background.attachment import attach_to
    from turnlog.agent.background.background_jobs import find_job

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("attaching needs a terminal", f"turnlog agents logs {job}")
    found = find_job(job)
    if attach_to(found):
        echo(f"{found.state.id} keeps running: turnlog agents attach {found.state.id}", err=True)


@command.command("stop")
@job_argument
@json_option
def stop(job: str, as_json: bool) -> None:
    """End a background chat; its session stays and can be resumed.

    The process that runs the chat is asked to end it. No signal is sent to a process id, which
    might belong to another process by now.

    \b
    Examples:
      turnlog agents stop 1f0c
    """
    from turnlog.agent.background.attachment import stop_job
    from turnlog.agent.background.background_jobs import find_job

    ended = stop_job(find_job(job))
    if as_json:
        echo_json(ended.fields)
        return
    echo(f"{ended.state.id} has ended: turnlog chat --resume {ended.state.session}")


@command.command("logs")
@job_argument
@json_option
def logs(job: str, as_json: bool) -> None:
    """Print the screen of a background chat.

    Up to 2,000 rows above it are printed, too.

    \b
    Examples:
      turnlog agents logs 1f0c | tail -20
    """
    from turnlog.agent.background.attachment import output_of
    from turnlog.agent.background.background_jobs import find_job
    from turnlog.agent.background.wrapped_secrets import mask_wrapped

    found = find_job(job)
    text = mask_wrapped(output_of(found))
    if as_json:
        echo_json(found.fields | {"output": text})
        return
    echo_plain(text.rstrip("\n"))


@command.command("rm")
@job_argument
@json_option
def rm(job: str, as_json: bool) -> None:
    """Remove an ended background chat from the list.

    Its session stays.

    \b
    Examples:
      turnlog agents rm 1f0c
    """
    from turnlog.agent.background.background_jobs import find_job, remove_job

    found = find_job(job)
    remove_job(found)
    if as_json:
        echo_json(found.fields)
        return
    echo(f"Removed {found.state.id}; its session stays: {found.state.session}")
