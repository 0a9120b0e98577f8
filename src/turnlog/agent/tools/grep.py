"""Grep: search file contents with ripgrep."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, field

from turnlog.agent.tools.files.file_targets import refusals
from turnlog.agent.tools.files.pinned_files import Pinned, pin
from turnlog.agent.tools.files.ripgrep import SearchScope, scope_of, search
from turnlog.agent.tools.glob import newest
from turnlog.agent.workspace.access import Reads
from turnlog.agent.workspace.inputs import Input, reader_of, schema_of
from turnlog.agent.workspace.spilled_results import fit_text
from turnlog.agent.workspace.tool import Grant, Output, Tool, ToolError, ToolOutcome
from turnlog.agent.workspace.workspace import Workspace

MOST = 250
"""Default number of lines or files returned."""
ALL = 100_000
"""Maximum number of lines or files returned."""
WIDEST = 500
WHOLE_NAMES = "--glob=!*\n*"
"""Skips files and directories with a line break in their names. ripgrep would print such a name on
two lines, and the permission rules would be checked against half of it."""
SEPARATOR = "--"
BINARY = re.compile(
    r"(.*):( (?:WARNING: stopped searching binary file after match|binary file matches) .*)"
)
"""A message about a binary file; unlike in a match, no NUL follows the name."""

DESCRIPTION = f"""\
Search the content of files with ripgrep. pattern is a regular expression in ripgrep's syntax \
(braces of code must be escaped: `interface\\{{\\}}`). output_mode is files_with_matches (paths, \
those changed last first; the default), content (lines, with -A, -B, -C and -n) or count (matches \
of each file). Narrow it down with path, glob or type. At most {MOST} lines or files come back \
unless head_limit says otherwise. Files that git ignores are left out."""


class GrepInput(Input, frozen=True):
    """Input of Grep."""

    pattern: Annotated[str, Meta(description="Regular expression to search for")]
    path: Annotated[
        str | None, Meta(description="File or directory to search; by default the current one")
    ] = None
    glob: Annotated[str | None, Meta(description='Only these files, such as "*.js"')] = None
    type: Annotated[
        str | None, Meta(description="Only files of this type: js, py, rust, go ...")
    ] = None
    output_mode: Annotated[
        Literal["files_with_matches", "content", "count"], Meta(description="What to return")
    ] = "files_with_matches"
    lines_before: Annotated[
        int | None, Meta(description="Lines to show before each match; for content")
    ] = field(default=None, name="-B")
    lines_after: Annotated[
        int | None, Meta(description="Lines to show after each match; for content")
    ] = field(default=None, name="-A")
    lines_around: Annotated[
        int | None, Meta(description="Lines to show before and after each match; for content")
    ] = field(default=None, name="-C")
    line_numbers: Annotated[bool, Meta(description="Show line numbers; for content")] = field(
        default=True, name="-n"
    )
    ignore_case: Annotated[bool, Meta(description="Ignore case")] = field(default=False, name="-i")
    head_limit: Annotated[
        int | None, Meta(description="How many lines or files to return; 0 for all")
    ] = None
    multiline: Annotated[
        bool, Meta(description="Let the pattern match across lines, also with dots")
    ] = False


def touches(given: GrepInput, workspace: Workspace) -> list[Reads]:
    return [Reads(workspace.path_of(given.path or "."))]


async def run(given: GrepInput, workspace: Workspace, output: Output, grant: Grant) -> ToolOutcome:
    place = workspace.path_of(given.path or ".")
    if not place.exists():
        raise ToolError(f"Path does not exist: {place}")
    limit = MOST if given.head_limit is None else given.head_limit or ALL
    if given.output_mode == "files_with_matches":
        return await _files(given, pin(place, grant), limit, workspace)
    return await _lines(given, pin(place, grant), limit, workspace)


async def _files(given: GrepInput, pinned: Pinned, limit: int, workspace: Workspace) -> ToolOutcome:
    arguments = [*_options(given), "--files-with-matches", "--null"]
    names, count = await newest(arguments, pinned, workspace, limit)
    data = {"mode": given.output_mode, "filenames": names, "numFiles": len(names)}
    if not names:
        return ToolOutcome("No files found", data)
    if count > limit:
        names.append(f"({count - limit:,} older ones left out)")
        data["appliedLimit"] = limit
    return ToolOutcome(
        "\n".join([f"Found {count} {'file' if count == 1 else 'files'}", *names]), data
    )


async def _lines(given: GrepInput, pinned: Pinned, limit: int, workspace: Workspace) -> ToolOutcome:
    shape = _context(given) if given.output_mode == "content" else ["--count-matches"]
    arguments = [*_options(given), *shape, "--with-filename", "--no-heading", "--null", WHOLE_NAMES]
    with refusals("search", pinned.path), scope_of(pinned) as scope:
        lines = await _matches(arguments, scope, limit, workspace)
    is_cut = len(lines) > limit
    del lines[limit:]
    data = _described(given, lines) | ({"appliedLimit": limit} if is_cut else {})
    if not lines:
        return ToolOutcome("No matches found", data)
    text = "\n".join(lines) + (f"\n\n[Only the first {limit:,} are shown.]" if is_cut else "")
    return ToolOutcome(fit_text(text, workspace.folder), data)


async def _matches(
    arguments: list[str], scope: SearchScope, limit: int, workspace: Workspace
) -> list[str]:
    """Return the matching lines that may be shown, up to one more than the limit."""
    lines: list[str] = []
    readable: dict[Path, bool] = {}
    is_apart = False
    async with aclosing(search(arguments, scope)) as found:
        async for line in found:
            # Print separators only between shown lines. One next to a hidden line would reveal that
            # a denied file matches: searching for `KEY=a`, `KEY=b` … would find out its value.
            is_apart |= bool(lines) and line == SEPARATOR
            name, text = _parse(line)
            if text is None:
                continue
            path = scope.path_of(name)
            if path not in readable:
                # A project may bring thousands of rules; comparing them must not block the chat.
                readable[path] = await asyncio.to_thread(workspace.may_read, path, scope.path)
            if not readable[path]:
                continue
            lines += [SEPARATOR] if is_apart else []
            lines.append(_shown(path, workspace.cwd, text))
            is_apart = False
            if len(lines) > limit:
                break
    return lines


def _parse(line: str) -> tuple[str, str | None]:
    """Split a line into file name and text; the text is None if the line belongs to no file."""
    name, mark, text = line.partition("\0")
    if mark:
        return name, text
    found = BINARY.fullmatch(line)
    return (found[1], found[2]) if found else ("", None)


def _shown(path: Path, cwd: Path, line: str) -> str:
    """Format a line like grep: the file name first, a hyphen for context lines."""
    name = path.relative_to(cwd) if path.is_relative_to(cwd) else path
    numbered = re.match(r"\d+([:-])", line)
    return f"{name}{numbered[1] if numbered else ':'}{line}"


def _described(given: GrepInput, lines: list[str]) -> dict[str, object]:
    data: dict[str, object] = {"mode": given.output_mode, "filenames": []}
    if given.output_mode == "content":
        return data | {"numFiles": 0, "content": "\n".join(lines), "numLines": len(lines)}
    counts = [int(line.rpartition(":")[2]) for line in lines]
    matches = {"numFiles": len(lines), "numMatches": sum(counts)}
    return data | {"content": "\n".join(lines)} | matches


def _options(given: GrepInput) -> Iterator[str]:
    """Return the ripgrep options that select what to search."""
    # Joined by `=`, so that a pattern such as `--pre=sh` is not taken for an option.
    yield f"--regexp={given.pattern}"
    if given.ignore_case:
        yield "--ignore-case"
    if given.multiline:
        yield from ("--multiline", "--multiline-dotall")
    if given.type:
        yield f"--type={given.type}"
    # Commas and spaces separate globs, except for commas in braces: `*.{ts,tsx}, *.js`.
    for pattern in re.findall(r"(?:\{[^}]*\}|[^\s,{])+", given.glob or ""):
        yield f"--glob={pattern}"


def _context(given: GrepInput) -> Iterator[str]:
    """Return the ripgrep options for context and line numbers."""
    yield "--line-number" if given.line_numbers else "--no-line-number"
    yield from (f"--max-columns={WIDEST}", "--max-columns-preview")
    for name, count in (
        ("before-context", given.lines_before),
        ("after-context", given.lines_after),
        ("context", given.lines_around),
    ):
        if count:
            yield f"--{name}={count}"


GREP = Tool(
    "Grep",
    DESCRIPTION,
    schema_of(GrepInput),
    reader_of(GrepInput),
    touches,
    run,
    is_parallel=True,
)
