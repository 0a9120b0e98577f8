"""Grep: files by what they hold, with ripgrep."""

import os
import re
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, field

from turnlog.agent.access import Reads
from turnlog.agent.files.ripgrep import pieces
from turnlog.agent.inputs import Input, reader_of, schema_of
from turnlog.agent.session.kept import fit_text
from turnlog.agent.tool import Outcome, Output, Tool, ToolError
from turnlog.agent.tools.glob import newest
from turnlog.agent.workspace import Workspace

MOST = 250
"""Lines or files that come back unless another number is asked for."""
ALL = 100_000
"""Lines or files that come back when all are asked for."""
WIDEST = 500

DESCRIPTION = f"""\
Search the content of files with ripgrep. pattern is a regular expression in ripgrep's syntax \
(braces of code must be escaped: `interface\\{{\\}}`). output_mode is files_with_matches (paths, \
those changed last first; the default), content (lines, with -A, -B, -C and -n) or count (matches \
of each file). Narrow it down with path, glob or type. At most {MOST} lines or files come back \
unless head_limit says otherwise. Files that git ignores are left out."""


class GrepInput(Input, frozen=True):
    """What to search for."""

    pattern: Annotated[str, Meta(description="Regular expression to search for")]
    path: Annotated[
        str | None, Meta(description="File or directory to search; the current one without it")
    ] = None
    glob: Annotated[str | None, Meta(description='Only these files, such as "*.js"')] = None
    type: Annotated[
        str | None, Meta(description="Only files of this type: js, py, rust, go ...")
    ] = None
    output_mode: Annotated[
        Literal["files_with_matches", "content", "count"], Meta(description="What comes back")
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
    ignore_case: Annotated[bool, Meta(description="Take upper and lower case as the same")] = field(
        default=False, name="-i"
    )
    head_limit: Annotated[
        int | None, Meta(description="How many lines or files come back; 0 for all")
    ] = None
    multiline: Annotated[
        bool, Meta(description="Let the pattern, and its dots, match over line ends")
    ] = False


def touches(given: GrepInput, workspace: Workspace) -> list[Reads]:
    return [Reads(workspace.path_of(given.path or "."))]


async def run(given: GrepInput, workspace: Workspace, output: Output) -> Outcome:
    place = workspace.path_of(given.path or ".")
    if not place.exists():
        raise ToolError(f"Path does not exist: {place}")
    limit = MOST if given.head_limit is None else given.head_limit or ALL
    if given.output_mode == "files_with_matches":
        return await _files(given, place, limit, workspace)
    return await _lines(given, place, limit, workspace)


async def _files(given: GrepInput, place: Path, limit: int, workspace: Workspace) -> Outcome:
    folder, target = (place, ".") if place.is_dir() else (place.parent, place.name)
    arguments = [*_options(given), "--files-with-matches", "--null", "--", target]
    names, count = await newest(arguments, folder, workspace, limit)
    data = {"mode": given.output_mode, "filenames": names, "numFiles": len(names)}
    if not names:
        return Outcome("No files found", data)
    if count > limit:
        names.append(f"({count - limit:,} older ones left out)")
        data["appliedLimit"] = limit
    return Outcome("\n".join([f"Found {count} {'file' if count == 1 else 'files'}", *names]), data)


async def _lines(given: GrepInput, place: Path, limit: int, workspace: Workspace) -> Outcome:
    inside = place.is_relative_to(workspace.cwd)
    target = os.path.relpath(place, workspace.cwd) if inside else str(place)
    shape = _context(given) if given.output_mode == "content" else ["--count-matches"]
    arguments = [*_options(given), *shape, "--with-filename", "--no-heading", "--null"]
    lines: list[str] = []
    async with aclosing(pieces([*arguments, "--", target], workspace.cwd)) as found:
        async for line in found:
            name, mark, told = line.partition("\0")
            if mark and not workspace.may_read(workspace.cwd / name):
                continue
            if len(lines) == limit:
                lines.append("")
                break
            lines.append(_shown(name, told) if mark else line)
    is_cut = len(lines) > limit
    del lines[limit:]
    data = _described(given, lines) | ({"appliedLimit": limit} if is_cut else {})
    if not lines:
        return Outcome("No matches found", data)
    text = "\n".join(lines) + (f"\n\n[Only the first {limit:,} are shown.]" if is_cut else "")
    return Outcome(fit_text(text, workspace.folder), data)


def _shown(name: str, told: str) -> str:
    """A line as grep shows it: behind its file, a hyphen marks what is only around a match."""
    numbered = re.match(r"\d+([:-])", told)
    return f"{name.removeprefix('./')}{numbered[1] if numbered else ':'}{told}"


def _described(given: GrepInput, lines: list[str]) -> dict[str, object]:
    data: dict[str, object] = {"mode": given.output_mode, "filenames": []}
    if given.output_mode == "content":
        return data | {"numFiles": 0, "content": "\n".join(lines), "numLines": len(lines)}
    counts = [int(line.rpartition(":")[2]) for line in lines]
    matches = {"numFiles": len(lines), "numMatches": sum(counts)}
    return data | {"content": "\n".join(lines)} | matches


def _options(given: GrepInput) -> Iterator[str]:
    """What is searched for and where, for ripgrep."""
    yield f"--regexp={given.pattern}"
    if given.ignore_case:
        yield "--ignore-case"
    if given.multiline:
        yield from ("--multiline", "--multiline-dotall")
    if given.type:
        yield f"--type={given.type}"
    for pattern in re.findall(r"(?:\{[^}]*\}|[^\s,{])+", given.glob or ""):
        yield f"--glob={pattern}"


def _context(given: GrepInput) -> Iterator[str]:
    """How lines are shown."""
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
