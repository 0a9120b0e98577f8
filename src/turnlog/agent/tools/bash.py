"""Bash: run a shell command, in the foreground or in the background."""

import asyncio
import re
from pathlib import Path
from typing import Annotated

from msgspec import Meta, field
from msgspec.structs import replace

from turnlog.agent.workspace.access import Basis, Runs
from turnlog.agent.workspace.git_operations import git_operation
from turnlog.agent.workspace.inputs import Input, reader_of, schema_of
from turnlog.agent.workspace.sandbox.bubblewrap import NoSandbox, enclose
from turnlog.agent.workspace.sandbox.masks import TooManyMasks
from turnlog.agent.workspace.sandbox.profile import Profile
from turnlog.agent.workspace.sandbox.quarantine import protected_files, quarantine
from turnlog.agent.workspace.shell.background_tasks import BackgroundCommand, ForegroundCall
from turnlog.agent.workspace.shell.command_environment import environment_of, shell_of
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
UNCOVERED = (
    "Command was stopped, and its output dropped: {path}, which its sandbox covers, was replaced "
    "meanwhile"
)
REFUSED_WRITE = re.compile(
    # Node reports the wrong error for directories.
    r"^.*(?:Read-only file system|EROFS|ENOENT: no such file or directory, mkdir).*$",
    re.M | re.I,
)
SEVERAL = re.compile(r"[|;\n]")
"""Separators of commands, of which the exit code is that of the last one: `make | tail`."""
NO_NETWORK = re.compile(
    r"could not resolve|name resolution|name or service not known|network is unreachable"
    r"|ENETUNREACH|EAI_AGAIN|ENOTFOUND|no route to host|could not connect to|failed to connect"
    r"|operation not permitted.*socket|connection refused",
    re.I,
)
MAX_REASON = 200
CHANGES_DIRECTORY = re.compile(r"(?<![\w./-])(?:cd|pushd|popd|chdir)(?![\w./-])")

DESCRIPTION = f"""\
Run a command in bash. The directory is kept from one call to the next, variables are not. \
Commands that need no permission run in a sandbox: without network, without writing outside of \
the project, and with an empty /tmp. What \
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
    dangerously_disable_sandbox: Annotated[
        bool,
        Meta(description="Ask the user to run it without a sandbox, if it cannot work in one"),
    ] = field(default=False, name="dangerouslyDisableSandbox")


def touches(given: BashInput, workspace: Workspace) -> list[Runs]:
    is_bare = given.dangerously_disable_sandbox and workspace.confinement.allows_bare
    return [Runs(given.command, given.run_in_background, is_bare)]


async def run(given: BashInput, workspace: Workspace, output: Output, grant: Grant) -> ToolOutcome:
    name = new_output_name()
    # In a thread, as it looks up the files on the disk that the sandbox covers.
    wanted = await asyncio.to_thread(_prepare, given.command, name, workspace, grant)
    if not given.run_in_background:
        return await _run_to_end(wanted, given, workspace, output, grant)
    return await _leave_running(wanted, given, workspace, grant)


async def _leave_running(
    wanted: Launch, given: BashInput, workspace: Workspace, grant: Grant
) -> ToolOutcome:
    """Start a command in the background."""
    before = await asyncio.to_thread(protected_files, grant.profile)
    running, name = await _start(wanted), wanted.printed.stem
    _watch(running, given, workspace, grant, before)
    text = (
        f"Command running in background with ID: {name}. Output is being written to: "
        f"{running.printed}. You are told when it ends; see what is new with BashOutput."
    )
    return ToolOutcome(text, _described("") | {"backgroundTaskId": name})


def _watch(
    running: RunningCommand,
    given: BashInput,
    workspace: Workspace,
    grant: Grant,
    before: frozenset[Path],
) -> BackgroundCommand:
    """Let a command continue in the background."""

    def sweep() -> None:
        if notes := _sweep(running, grant, before):
            with running.printed.open("a") as file:
                file.write("\n".join(("", *notes, "")))

    return workspace.shells.add(
        running.printed.stem,
        given.command,
        running,
        given.description or given.command,
        grant.call_id,
        sweep,
    )


def _sweep(running: RunningCommand, grant: Grant, before: frozenset[Path]) -> list[str]:
    """Move away what a command created for programs to run later; return a line about each."""
    # A file that lost its cover was there before: another process has replaced it.
    return quarantine(protected_files(grant.profile) - before - {Path(running.lost)})


async def _run_to_end(
    wanted: Launch, given: BashInput, workspace: Workspace, output: Output, grant: Grant
) -> ToolOutcome:
    """Run a command and wait until it ends or the user moves it to the background."""
    before = await asyncio.to_thread(protected_files, grant.profile)
    running = await _start(wanted)
    limit = min(given.timeout or TIMEOUT, LONGEST) / 1000
    with running.left_in, workspace.shells.movable() as call:
        try:
            trouble = await _wait(running, limit, output, call)
        except asyncio.CancelledError:  # the turn was interrupted
            _sweep(running, grant, before)
            raise
        if trouble is None:
            job = _watch(running, given, workspace, grant, before)
            return _moved(job, workspace, call.is_for_message)
        moved = _move(running, workspace)
    text, data = _read(running, given.command)
    notes = [trouble, moved, UNCOVERED.format(path=running.lost) if running.lost else ""]
    notes += [f"Its output could not be saved: {running.unsaved}"] if running.unsaved else []
    notes += await asyncio.to_thread(_sweep, running, grant, before)
    outcome = _outcome(running, text, data, [note for note in notes if note])
    is_narrow = grant.basis is Basis.READ and not running.lost
    wants = _wants(text, given.command, running.code or 0) if is_narrow else ""
    return replace(outcome, wants=wants) if wants else outcome


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


def _wants(text: str, command: str, code: int) -> str:
    """Return what a command printed that its read-only sandbox refused; empty if nothing."""
    found = REFUSED_WRITE.search(text)
    if found and (code or SEVERAL.search(command)):
        return f"it writes: {found[0].strip()[:MAX_REASON]}"
    return "it needs the network" if code and NO_NETWORK.search(text) else ""


def _prepare(written: str, name: str, workspace: Workspace, grant: Grant) -> Launch:
    """Choose the environment and sandbox of a command by the basis of its grant."""
    cwd, folders = _directory(workspace, grant), workspace.folders
    # What the user types is sandboxed only if the settings say so.
    typed = Profile(Basis.USER, tuple(folders), settings=workspace.confinement)
    profile = grant.profile or typed
    try:
        enclosure = enclose(profile)
    except (NoSandbox, TooManyMasks, UsageError) as error:
        raise ToolError(f"The command cannot be run: {error}") from error
    environment = environment_of(profile, workspace.environment)
    printed = results_folder(workspace.folder) / f"{name}.txt"
    return Launch(written, cwd, printed, environment, shell_of(profile, folders), enclosure)


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
    failed = running.code != 0 or bool(running.unsaved)
    if running.code != 0:
        notes.insert(0, f"Exit code {exit_status(running.code)}")
    if text.startswith("<persisted-output>"):  # must stay at the start, where readers look for it
        parts = [text, *notes]
    else:
        parts = [*notes, text] if failed else [text, *notes]
    whole = "\n".join(part for part in parts if part)
    return ToolOutcome(whole, f"Error: {whole}" if failed else data, is_error=failed)


BASH = Tool("Bash", DESCRIPTION, schema_of(BashInput), reader_of(BashInput), touches, run)
