"""Glob: find files by name pattern, most recently changed first."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from heapq import heappush, heappushpop
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from turnlog.agent.tools.files.file_targets import refusals
from turnlog.agent.tools.files.pinned_files import Pinned, pin
from turnlog.agent.tools.files.ripgrep import SearchScope, scope_of, search
from turnlog.agent.workspace.access import Reads
from turnlog.agent.workspace.inputs import Input, reader_of, schema_of
from turnlog.agent.workspace.tool import Grant, Output, Tool, ToolError, ToolOutcome
from turnlog.agent.workspace.workspace import Workspace
from turnlog.store.paths import expand_user

MOST = 100
BATCH = 100
"""Number of files compared with rules in one batch."""

DESCRIPTION = f"""\
Find files by a pattern such as "**/*.py" or "src/**/*.{{ts,tsx}}", in any directory below path. \
The paths of at most {MOST} files come back, those changed last first. Files that git ignores are \
found too. To find files by what they hold use Grep."""


class GlobInput(Input, frozen=True):
    """Input of Glob."""

    pattern: Annotated[str, Meta(description="The pattern that names must match")]
    path: Annotated[
        str | None, Meta(description="Directory to search; by default the current one")
    ] = None


def touches(given: GlobInput, workspace: Workspace) -> list[Reads]:
    return [Reads(_place(given, workspace)[0])]


async def run(given: GlobInput, workspace: Workspace, output: Output, grant: Grant) -> ToolOutcome:
    started = time.monotonic()
    place, pattern = _place(given, workspace)
    if not place.is_dir():
        raise ToolError(f"Directory does not exist: {place}")
    arguments = ["--files", "--no-ignore", "--null", f"--glob={pattern}"]
    names, count = await newest(arguments, pin(place, grant), workspace)
    data = {
        "filenames": names,
        "durationMs": int((time.monotonic() - started) * 1000),
        "numFiles": len(names),
        "truncated": count > MOST,
    }
    if not names:
        return ToolOutcome("No files found", data)
    rest = [f"({count - MOST:,} older ones left out; ask more exactly)"] if count > MOST else []
    return ToolOutcome("\n".join(names + rest), data)


async def newest(
    arguments: list[str], pinned: Pinned, workspace: Workspace, most: int = MOST
) -> tuple[list[str], int]:
    """Return the files that ripgrep lists, newest first, and their total number."""
    heap: list[tuple[int, str]] = []
    count = 0
    with refusals("search", pinned.path), scope_of(pinned) as scope:
        async for path in _readable(search(arguments, scope, b"\0"), scope, workspace):
            count += 1
            item = (_changed(path), str(path))
            # A heap of the newest files, as a search may find millions.
            heappush(heap, item) if len(heap) < most else heappushpop(heap, item)
    return [name for _, name in sorted(heap, key=lambda item: (-item[0], item[1]))], count


async def _readable(
    found: AsyncGenerator[str], scope: SearchScope, workspace: Workspace
) -> AsyncGenerator[Path]:
    """Yield the files that the permission rules let a search show.

    Files are checked in batches in a thread: thousands of rules must not block the chat, and a
    thread for each file would take longer than the check.
    """

    def chosen(paths: list[Path]) -> list[Path]:
        return [path for path in paths if workspace.may_read(path, scope.path)]

    pending: list[Path] = []
    async with aclosing(found) as names:
        async for name in names:
            pending.append(scope.path_of(name))
            if len(pending) == BATCH:
                for path in await asyncio.to_thread(chosen, pending):
                    yield path
                pending = []
    for path in await asyncio.to_thread(chosen, pending):
        yield path


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _place(given: GlobInput, workspace: Workspace) -> tuple[Path, str]:
    """Split a pattern into the directory to search and the rest."""
    place, pattern = workspace.path_of(given.path or "."), given.pattern
    # Permission is decided for the directory that is searched: the part before the first wildcard.
    if pattern.startswith(("/", "~/")):
        parts = expand_user(pattern).parts
        plain = next((n for n, part in enumerate(parts) if set(part) & set("*?[{")), len(parts) - 1)
        place, pattern = workspace.path_of(str(Path(*parts[:plain]))), "/".join(parts[plain:])
    return place, pattern.removeprefix("./")


GLOB = Tool(
    "Glob",
    DESCRIPTION,
    schema_of(GlobInput),
    reader_of(GlobInput),
    touches,
    run,
    is_parallel=True,
)
