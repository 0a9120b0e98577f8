"""Runs the command of a hook, and ends it with all that it started if it takes too long."""

import asyncio
import tempfile
import time
from pathlib import Path
from typing import IO

from msgspec import Struct

from turnlog.agent.shell.processes import end_process

MOST_OUTPUT = 1 << 20
"""Bytes that are read of what a hook prints."""


class HookCommand(Struct, frozen=True):
    """What is to be run, and how."""

    argv: tuple[str, ...]
    shown: str
    """As the settings have it."""
    cwd: Path
    environment: dict[str, str]
    stdin: bytes
    timeout: float


class HookRun(Struct, frozen=True):
    """A hook that was run."""

    event: str
    name: str
    """The event, and what it was about: `PreToolUse:Bash`."""
    command: str
    exit_code: int | None
    """None for one that was late; 127 for one that could not be started."""
    stdout: str
    stderr: str
    seconds: float
    timeout: float | None = None
    """The seconds it was given, if they were not enough."""


async def run_hook(event: str, name: str, command: HookCommand) -> HookRun:
    """Run a command to its end; one that is cancelled or late is killed with its children.

    What it reads and prints are files, not pipes: so neither a hook that does not read, nor a
    process that it leaves behind, can hold anything up.
    """
    started = time.monotonic()
    with _file() as given, _file() as out, _file() as err:
        given.write(command.stdin)
        given.seek(0)
        code, problem = await _run(command, given, out, err)
        seconds = time.monotonic() - started
        printed, told = _read(out), _read(err) or problem
    late = command.timeout if code is None else None
    return HookRun(event, name, command.shown, code, printed, told, seconds, late)


def _file() -> IO[bytes]:
    return tempfile.TemporaryFile()


async def _run(
    command: HookCommand, given: IO[bytes], out: IO[bytes], err: IO[bytes]
) -> tuple[int | None, str]:
    """The exit code, or none where it was late; and why it could not be started."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command.argv,
            stdin=given,
            stdout=out,
            stderr=err,
            cwd=command.cwd,
            env=command.environment,
            start_new_session=True,
        )
    except OSError as error:
        return 127, f"{command.argv[0]}: {error.strerror or error}"
    try:
        return await asyncio.wait_for(process.wait(), command.timeout), ""
    except TimeoutError:
        return None, ""
    finally:
        if process.returncode is None:
            await asyncio.shield(end_process(process))


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(MOST_OUTPUT).decode("utf-8", "replace")
