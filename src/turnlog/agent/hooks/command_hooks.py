"""Run command hooks in a process group; a hook that times out is killed with its children."""

import asyncio
import os
import tempfile
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from turnlog.agent.hooks.hook_events import EVENTS
from turnlog.agent.hooks.payload import SessionFacts
from turnlog.agent.hooks.runs import MOST_OUTPUT, Firing, HookRun, encode_payload
from turnlog.agent.workspace.project_environment import is_routing, without_credentials
from turnlog.agent.workspace.shell.processes import end_process
from turnlog.format.json_values import is_array, is_object
from turnlog.format.private_files import create_private_folder
from turnlog.store.paths import Store

PROJECT = "CLAUDE_PROJECT_DIR"
EFFORT = "CLAUDE_EFFORT"
POWERSHELL = ("pwsh", "-NoProfile", "-NonInteractive", "-Command")


class HookCommand(Struct, frozen=True):
    """A command to run, with its input and environment."""

    argv: tuple[str, ...]
    shown: str
    """The command as written in the settings."""
    cwd: Path
    environment: dict[str, str]
    stdin: bytes
    timeout: float
    project: Path | None = None
    """The directory to run in if `cwd` cannot be entered."""


def command_of(firing: Firing, facts: SessionFacts) -> HookCommand:
    """Return the command of a hook."""
    text = firing.text("command")
    return HookCommand(
        argv=_argv(firing, facts),
        shown=text,
        cwd=facts.cwd,
        environment=_environment(firing, facts),
        stdin=encode_payload(firing.payload) + b"\n",
        timeout=firing.timeout,
        project=facts.project,
    )


async def run_command(event: str, name: str, command: HookCommand) -> HookRun:
    """Run a command; kill it with its children on cancellation or timeout.

    Its stdin, stdout and stderr are files, not pipes: neither a hook that never reads its input nor
    a process that it leaves behind can block turnlog.
    """
    started = time.monotonic()
    with _file() as given, _file() as out, _file() as err:
        given.write(command.stdin)
        given.seek(0)
        code, problem = await _run(command, given, out, err)
        seconds = time.monotonic() - started
        (stdout, is_cut), (stderr, _) = _read(out), _read(err)
    late = command.timeout if code is None else None
    about = (event, name, command.shown, code, stdout, stderr or problem, seconds, late)
    return HookRun(*about, is_cut=is_cut)


def _argv(firing: Firing, facts: SessionFacts) -> tuple[str, ...]:
    text, arguments = firing.text("command"), firing.handler.get("args")
    if is_array(arguments):
        # There is no shell to expand the variable.
        project = str(facts.project)
        words = (str(each) for each in (text, *arguments))
        return tuple(word.replace(f"${{{PROJECT}}}", project) for word in words)
    if firing.handler.get("shell") == "powershell":
        return (*POWERSHELL, text.replace(f"${{{PROJECT}}}", f"${{env:{PROJECT}}}"))
    return ("/bin/sh", "-c", text)


def _environment(firing: Firing, facts: SessionFacts) -> dict[str, str]:
    # OTEL_* variables configure the agent's exporter: an instrumented hook would mix its own spans
    # with the agent's.
    inherited = firing.environment | facts.variables
    passed = {name: value for name, value in inherited.items() if not name.startswith("OTEL_")}
    added = {
        PROJECT: str(facts.project),
        "CLAUDE_CODE_SESSION_ID": facts.session_id,
        "CLAUDE_CODE_ENTRYPOINT": facts.entrypoint,
        "CLAUDECODE": "1",
    }
    effort = firing.payload.get("effort")
    if is_object(effort):
        added[EFFORT] = str(effort.get("level"))
    if EVENTS[firing.event].leaves_variables and facts.env_file:
        create_private_folder(facts.env_file.parent)
        added["CLAUDE_ENV_FILE"] = str(facts.env_file)
    return passed | added


def _file() -> IO[bytes]:
    return tempfile.TemporaryFile()


async def _run(
    command: HookCommand, given: IO[bytes], out: IO[bytes], err: IO[bytes]
) -> tuple[int | None, str]:
    """Return the exit code (None on timeout), and why the command could not be started."""
    try:
        process = await _start(command, given, out, err)
    except OSError as error:
        return 127, f"{command.argv[0]}: {error.strerror or error}"
    try:
        return await asyncio.wait_for(process.wait(), command.timeout), ""
    except TimeoutError:
        return None, ""
    finally:
        if process.returncode is None:
            # Shielded, so that a second interruption does not leave children of the hook behind.
            await asyncio.shield(end_process(process))


async def _start(
    command: HookCommand, given: IO[bytes], out: IO[bytes], err: IO[bytes]
) -> asyncio.subprocess.Process:
    """Start a command in the current directory, or in the project if that fails.

    A call may have removed or locked the current directory. If the hook did not run then, it could
    deny nothing, and `chmod 0 .` would be enough to disable it.
    """

    def start(cwd: Path) -> Coroutine[Any, Any, asyncio.subprocess.Process]:
        return asyncio.create_subprocess_exec(
            *command.argv,
            stdin=given,
            stdout=out,
            stderr=err,
            cwd=cwd,
            env=command.environment,
            start_new_session=True,
        )

    try:
        return await start(command.cwd)
    except OSError:
        if command.project is None:
            raise
        return await start(command.project)


def _read(file: IO[bytes]) -> tuple[str, bool]:
    """Return the output up to the limit, and whether it was truncated."""
    file.seek(0)
    return file.read(MOST_OUTPUT).decode("utf-8", "replace"), bool(file.read(1))


# The script's own output goes to stderr; only `env -0` writes to stdout. It separates variables by
# NUL, as a value may contain line breaks, but no NUL.
READ = 'set -a; . "$0" >&2; env -0'
PATIENCE = 10.0
OWN = frozenset({"_", "PWD", "OLDPWD", "SHLVL"})
"""Variables that every shell sets."""


def fresh_env_file(store: Store, session_id: str) -> Path:
    """Return the file for hooks to write variables to, after deleting a previous one."""
    path = store.root / "session-env" / session_id / "hooks.sh"
    path.unlink(missing_ok=True)
    return path


async def left_variables(path: Path) -> dict[str, str]:
    """Return the variables that a shell script sets; empty if it fails."""
    if not path.is_file():
        return {}
    argv = ("/bin/sh", "-c", READ, str(path))
    environment = without_credentials(os.environ)
    command = HookCommand(argv, str(path), path.parent, environment, b"", PATIENCE)
    run = await run_command("SessionStart", "SessionStart", command)
    pairs = [pair.partition("=") for pair in run.stdout.split("\0") if "=" in pair]
    # A project's hook could set ANTHROPIC_BASE_URL, and `claude` or curl would then send the API
    # key there.
    found = {name: value for name, _, value in pairs if name not in OWN and not is_routing(name)}
    is_new = {name for name, value in found.items() if os.environ.get(name) != value}
    return {name: found[name] for name in sorted(is_new)} if run.exit_code == 0 else {}
