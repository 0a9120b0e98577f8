"""Bash: run a shell command, in the foreground or in the background."""

import asyncio
import re
import tempfile
from functools import partial
from pathlib import Path
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from turnlog.agent.workspace.access import Basis, Runs
from turnlog.agent.workspace.git_operations import git_operation
from turnlog.agent.workspace.inputs import Input, reader_of, schema_of
from turnlog.agent.workspace.shell.background_tasks import BackgroundCommand, ForegroundCall
from turnlog.agent.workspace.shell.bubblewrap import FAILURE, wrapper_of
from turnlog.agent.workspace.shell.command_environment import (
    CONFINED,
    UNCONFIRMED,
    environment_of,
    shell_of,
    shell_setup,
)
from turnlog.agent.workspace.shell.git_environment import UnguardedError, guard_git, steady_git
from turnlog.agent.workspace.shell.processes import (
    Flood,
    Launch,
    RunningCommand,
    end,
    exit_status,
    follow,
    launch,
)
from turnlog.agent.workspace.spilled_results import (
    EXTRACT,
    extract,
    new_output_name,
    results_folder,
)
from turnlog.agent.workspace.tool import Grant, Output, Tool, ToolError, ToolOutcome
from turnlog.agent.workspace.workspace import Workspace
from turnlog.errors import UsageError
from turnlog.format.json_values import Fields

TIMEOUT = 120_000
LONGEST = 600_000
LIMIT = 30_000
"""Maximum characters of output sent to the model in full."""

MOVED = (
    "Command was manually backgrounded by user with ID: {name}. Output is being written to: {path}."
)
MOVED_FOR_MESSAGE = (
    "Command was moved to the background (ID: {name}) so that a message that arrived while it was "
    "running can reach you; it was not interrupted. Output is being written to: {path}. You are "
    "told when it ends, so do not start it again; TaskStop stops it."
)
STAYS = (
    "Session cwd remains {cwd}; directory changes made by the backgrounded command do not apply "
    "to subsequent commands."
)
CHANGES_DIRECTORY = re.compile(r"(?<![\w./-])(?:cd|pushd|popd|chdir)(?![\w./-])")

DESCRIPTION = f"""\
Run a command in bash. The directory is kept from one call to the next, variables are not. \
Commands that need no permission see only basic variables such as HOME, LANG and PATH. What \
the command prints comes back, both streams together; more than {LIMIT:,} characters are kept in a \
file of which you get the start and the end. The command has no input, so it must not ask for any. \
It is stopped after timeout milliseconds ({TIMEOUT:,} unless given, at most {LONGEST:,}). With \
run_in_background it goes on by itself, and you are told when it ends: see what it printed with \
BashOutput, stop it with KillShell. Quote paths with spaces. To read, change or find files use \
Read, Edit, Glob and Grep instead."""


class BashInput(Input, frozen=True):
    """Input of Bash."""

    command: Annotated[str, Meta(description="The command")]
    description: Annotated[str | None, Meta(description="What it does, in five to ten words")] = (
        None
    )
    timeout: Annotated[float | None, Meta(description="Milliseconds after which to stop it")] = None
    run_in_background: Annotated[bool, Meta(description="Do not wait until it ends")] = False


def touches(given: BashInput, workspace: Workspace) -> list[Runs]:
    running = workspace.activity.running
    return [Runs(given.command, given.run_in_background, running)]


async def run(given: BashInput, workspace: Workspace, output: Output, grant: Grant) -> ToolOutcome:
    name = new_output_name()
    # In a thread, as it lists git's configuration and looks up the sandbox's patterns on the disk.
    wanted = await asyncio.to_thread(_prepare, given.command, name, workspace, grant)
    if not given.run_in_background:
        with workspace.activity.during(grant.footprint):
            return await _run_to_end(wanted, given, workspace, output, grant)
    return await _leave_running(wanted, given, workspace, grant)


async def _leave_running(
    wanted: Launch, given: BashInput, workspace: Workspace, grant: Grant
) -> ToolOutcome:
    """Start a command in the background."""
    running, name = await _start(wanted), wanted.printed.stem
    _watch(running, given, workspace, grant)
    text = (
        f"Command running in background with ID: {name}. Output is being written to: "
        f"{running.printed}. You are told when it ends; see what is new with BashOutput."
    )
    return ToolOutcome(text, _described("") | {"backgroundTaskId": name})


def _in_background(given: BashInput, workspace: Workspace, grant: Grant) -> Runs:
    """Return the access of a running command as if it ran in the background, next to others."""
    others = list(workspace.activity.running)
    others.remove(grant.footprint)
    return Runs(given.command, in_background=True, running=tuple(others))


def _watch(
    running: RunningCommand, given: BashInput, workspace: Workspace, grant: Grant
) -> BackgroundCommand:
    """Let a command continue in the background."""
    job = workspace.shells.add(
        running.printed.stem,
        given.command,
        running,
        given.description or given.command,
        grant.call_id,
    )
    # Until it ends, other commands need permission to move its directories.
    number = workspace.activity.begin(grant.footprint)
    job.watch.add_done_callback(lambda _: workspace.activity.end(number))
    return job


async def _run_to_end(
    wanted: Launch, given: BashInput, workspace: Workspace, output: Output, grant: Grant
) -> ToolOutcome:
    """Run a command and wait until it ends or the user moves it to the background."""
    running = await _start(wanted)
    limit = min(given.timeout or TIMEOUT, LONGEST) / 1000
    is_unconfirmed = grant.basis in UNCONFIRMED
    judged = partial(_in_background, given, workspace, grant) if is_unconfirmed else None
    with running.left_in, workspace.shells.movable(judged) as call:
        trouble = await _wait(running, limit, output, call)
        if trouble is None:
            job = _watch(running, given, workspace, grant)
            return _moved(job, workspace, call.is_for_message)
        moved = _move(running, workspace)
        has_failed = bool(wanted.wrapper) and bool(running.code) and not running.has_started
    text, data = _read(running, given.command)
    # bubblewrap worked when it was tried, but may fail later, as when namespaces run out. The shell
    # had not started, so nothing runs twice. A sandbox that the settings require is never skipped.
    if has_failed and text.startswith(FAILURE) and not workspace.confinement.is_on:
        return await _run_bare(wanted, text, limit, workspace, output)
    return _outcome(running, text, data, [note for note in (trouble, moved) if note])


def _moved(job: BackgroundCommand, workspace: Workspace, is_for_message: bool) -> ToolOutcome:
    """Return the result of a command that the user moved to the background (2.1.325, observed)."""
    text = (MOVED_FOR_MESSAGE if is_for_message else MOVED).format(
        name=job.name, path=job.output_file
    )
    why = "backgroundedToDeliverMessage" if is_for_message else "backgroundedByUser"
    data: Fields = _described("") | {"backgroundTaskId": job.name, why: True}
    if CHANGES_DIRECTORY.search(job.command):
        hint = STAYS.format(cwd=workspace.cwd)
        return ToolOutcome(f"{text}\n{hint}", data | {"backgroundCwdHint": hint})
    return ToolOutcome(text, data)


async def _run_bare(
    wanted: Launch, why: str, limit: float, workspace: Workspace, output: Output
) -> ToolOutcome:
    """Run a command without the sandbox, which failed before the command's shell was started."""
    running = await _start(replace(wanted, wrapper=()))
    with running.left_in:
        # Not movable: it was allowed because of the sandbox, so it must not outlive this call.
        trouble = await _wait(running, limit, output, ForegroundCall()) or ""
        moved = _move(running, workspace)
    text, data = _read(running, wanted.command)
    notes = [trouble, moved, f"The command ran without a sandbox, which failed to start: {why}"]
    return _outcome(running, text, data, [note for note in notes if note])


def _prepare(written: str, name: str, workspace: Workspace, grant: Grant) -> Launch:
    """Choose the environment and sandbox of a command by the basis of its grant."""
    cwd = _directory(workspace, grant)
    command = written if grant.command is None else grant.command
    folders, basis = workspace.folders, grant.basis
    environment = environment_of(basis, workspace.environment, folders)
    shell = shell_of(basis, folders)
    try:
        if basis in CONFINED or (basis is Basis.RULE and grant.guards_git):
            environment |= guard_git(command, cwd, environment)
        elif basis is Basis.RULE or grant.steadies_git:
            environment |= steady_git()
        temporary = Path(tempfile.gettempdir())
        wrapper = wrapper_of(basis, workspace.confinement, folders, temporary)
        # bubblewrap's own environment can be read inside, so `--unsetenv` would hide nothing.
        for hidden in workspace.confinement.variables if wrapper else ():
            environment.pop(hidden, None)
    except (UnguardedError, UsageError) as error:
        raise ToolError(f"The command cannot be run: {error}") from error
    printed = results_folder(workspace.folder) / f"{name}.txt"
    setup = shell_setup(basis, shell)
    return Launch(command, cwd, printed, environment, shell, setup, wrapper)


def _directory(workspace: Workspace, grant: Grant) -> Path:
    """Return the command's working directory; raise unless permission was decided for it."""
    before = workspace.cwd
    # The directory may have been replaced since the verdict: `cat x` would read another `x`.
    found = workspace.settle()
    if grant.directory not in (None, found):
        workspace.cwd = workspace.root
        raise ToolError(
            f"The command was not run: the working directory {before} was moved, removed or "
            f"replaced. Shell cwd was reset to {workspace.root}"
        )
    return workspace.cwd


async def _start(wanted: Launch) -> RunningCommand:
    try:
        return await launch(wanted)
    except (OSError, ValueError) as error:
        raise ToolError(f"The command cannot be run: {error}") from error


async def _wait(
    running: RunningCommand, seconds: float, output: Output, call: ForegroundCall
) -> str | None:
    """Wait for a command, killing it on timeout; return what went wrong, or an empty string.

    Returns None if the user moved it to the background, where it continues.
    """
    following = asyncio.create_task(follow(running, output))
    is_moved = False
    try:
        async with asyncio.timeout(seconds):
            is_moved = await call.outlasts(following)
        if is_moved:
            return None
        await following
        return ""
    except TimeoutError:
        return f"Command timed out after {seconds:g} s and was stopped"
    except Flood:
        return "Command printed more than 1 GB and was stopped"
    finally:
        following.cancel()
        # Also when the turn is interrupted: nothing may keep running in the background by accident.
        if running.code is None and not is_moved:
            await end(running)


def _move(running: RunningCommand, workspace: Workspace) -> str:
    """Adopt the directory that the command ended in; outside the project, reset it with a note."""
    place = running.directory()
    if place is None:
        return ""
    # Resolve it: the command may have written the path to the descriptor itself. It could name a
    # link that leads out of the project, or a directory by another name than prompts show.
    resolved = place.resolve()
    if workspace.holds(resolved):
        workspace.cwd = resolved
        return ""
    workspace.cwd = workspace.root
    return f"Shell cwd was reset to {workspace.root}"


def _read(running: RunningCommand, command: str) -> tuple[str, Fields]:
    """Return the output of a command, for the model and for the session."""
    path = running.printed
    size = path.stat().st_size
    with path.open("rb") as file:
        # A character takes up to four bytes.
        text = file.read(4 * LIMIT).decode("utf-8", "replace")
        if size <= 4 * LIMIT and len(text) <= LIMIT:
            path.unlink()
            return text.rstrip("\n"), _described(text.rstrip("\n"), command)
        file.seek(max(0, size - 4 * LIMIT))
        tail = file.read(4 * LIMIT).decode("utf-8", "replace")
    stdout = f"{text[: LIMIT // 2]}\n...\n{tail[-(LIMIT // 2) :]}"
    data = {"persistedOutputPath": str(path), "persistedOutputSize": size}
    return extract(path, size, text[:EXTRACT], tail[-EXTRACT:]), _described(stdout, command) | data


def _described(stdout: str, command: str = "") -> Fields:
    done = git_operation(command, stdout)
    return {
        "stdout": stdout,
        "stderr": "",
        "interrupted": False,
        "isImage": False,
        "noOutputExpected": False,
    } | ({"gitOperation": done} if done else {})


def _outcome(running: RunningCommand, text: str, data: Fields, notes: list[str]) -> ToolOutcome:
    failed = running.code != 0
    if failed:
        notes.insert(0, f"Exit code {exit_status(running.code)}")
    if text.startswith("<persisted-output>"):  # must stay at the start, where readers look for it
        parts = [text, *notes]
    else:
        parts = [*notes, text] if failed else [text, *notes]
    whole = "\n".join(part for part in parts if part)
    return ToolOutcome(whole, f"Error: {whole}" if failed else data, is_error=failed)


BASH = Tool("Bash", DESCRIPTION, schema_of(BashInput), reader_of(BashInput), touches, run)
