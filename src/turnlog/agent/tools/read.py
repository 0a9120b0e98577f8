"""Read: return a file as text, image, PDF or notebook."""

import asyncio
from collections.abc import Callable, Iterator
from io import BufferedReader, TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from turnlog.agent.tools.files.file_targets import refusals, remember, require_file
from turnlog.agent.tools.files.notebooks import read_notebook
from turnlog.agent.tools.files.pdf import read_pdf
from turnlog.agent.tools.files.pinned_files import Pinned, open_file, pin
from turnlog.agent.tools.files.text_files import SAMPLE, coding_of, is_binary
from turnlog.agent.workspace.access import Reads
from turnlog.agent.workspace.image_blocks import read_image
from turnlog.agent.workspace.inputs import Input, reader_of, schema_of
from turnlog.agent.workspace.read_state import state_of
from turnlog.agent.workspace.tool import Grant, Output, Tool, ToolError, ToolOutcome
from turnlog.agent.workspace.workspace import Workspace

LINES = 2_000
WIDEST = 2_000
MOST = 100_000
"""Maximum characters returned by one call."""

DESCRIPTION = f"""\
Read a file of this machine. Text comes with line numbers, in the form of `cat -n`; up to \
{LINES:,} lines from the start unless offset and limit say otherwise, and lines are cut after \
{WIDEST:,} characters. Images (PNG, JPEG, GIF, WebP), large ones in a smaller size, and PDF files \
are shown to you, notebooks (.ipynb) as cells with their outputs. For a directory use Glob or \
`ls`. A file has to be read before it can be changed with Edit or Write."""


class ReadInput(Input, frozen=True):
    """Input of Read."""

    file_path: Annotated[str, Meta(description="Absolute path of the file")]
    offset: Annotated[
        int | None, Meta(description="Line to start at, counted from 1; for long files")
    ] = None
    limit: Annotated[int | None, Meta(description="How many lines to read; for long files")] = None
    pages: Annotated[
        str | None,
        Meta(description='Pages of a PDF, such as "3" or "1-5", at most 20; all without it'),
    ] = None


class FileLines(Struct, frozen=True):
    """A range of lines of a file."""

    lines: list[str]
    total: int
    """Total number of lines of the file."""
    is_cut: bool
    """True if the range was truncated."""


def touches(given: ReadInput, workspace: Workspace) -> list[Reads]:
    return [Reads(workspace.path_of(given.file_path))]


async def run(given: ReadInput, workspace: Workspace, output: Output, grant: Grant) -> ToolOutcome:
    path = workspace.path_of(given.file_path)
    require_file(path)
    with refusals("read", path):
        return await asyncio.to_thread(_read, pin(path, grant), given, workspace)


def _read(pinned: Pinned, given: ReadInput, workspace: Workspace) -> ToolOutcome:
    with open_file(pinned) as file:
        # Taken before reading: if the file changes meanwhile, what the model has seen counts as
        # outdated.
        state = state_of(file)
        read = READERS.get(pinned.path.suffix.lower(), _read_text)
        outcome = read(pinned.path, file, given, workspace.folder)
        remember(pinned, file, workspace, state)
    return outcome


def _read_text(path: Path, file: BufferedReader, given: ReadInput, folder: Path) -> ToolOutcome:
    head = file.read(SAMPLE)
    if is_binary(head):
        raise ToolError(f"{path} is a binary file; look at it with a command in Bash")
    coding = coding_of(head, len(head) < SAMPLE)
    start = max(given.offset or 1, 1)
    limit = LINES if given.limit is None else max(given.limit, 1)
    file.seek(len(coding.mark))
    text = TextIOWrapper(file, coding.name, "replace", newline="\n")
    part = _take(_lines(text), start, limit)
    text.detach()  # otherwise the file would be closed together with the wrapper
    return ToolOutcome(_numbered(part, start), _described(path, part, start))


def _lines(text: TextIOWrapper) -> Iterator[str]:
    """Yield lines without their endings, each truncated to the maximum length."""
    # Read in bounded pieces: a line may be as long as the file, as in minified code.
    while line := text.readline(WIDEST + 2):
        rest = line
        while rest and not rest.endswith("\n"):
            rest = text.readline(SAMPLE)
        line = line.removesuffix("\n").removesuffix("\r")
        yield line if len(line) <= WIDEST else f"{line[:WIDEST]}... [line is longer]"


def _take(lines: Iterator[str], start: int, limit: int) -> FileLines:
    skipped = sum(1 for _ in islice(lines, start - 1))
    taken: list[str] = []
    room = MOST
    total = skipped
    # Lines beyond the limit are only counted, to report their number.
    for line in lines:
        total += 1
        if len(taken) < limit and room > 0 and len(taken) == total - skipped - 1:
            taken.append(line)
            room -= len(line) + 8
    return FileLines(taken, total, room <= 0 and len(taken) < min(limit, total - skipped))


def _numbered(part: FileLines, start: int) -> str:
    if not part.total:
        return "The file is empty."
    if not part.lines:
        return f"The file has {part.total:,} lines; line {start:,} is past its end."
    text = "\n".join(f"{number:>6}→{line}" for number, line in enumerate(part.lines, start))
    after = start + len(part.lines)
    if part.is_cut:
        text += f"\n\n[Cut here: too long for one call. Read on with offset {after}.]"
    elif after <= part.total:
        text += f"\n\n[The file has {part.total:,} lines. Read on with offset {after}.]"
    return text


def _described(path: Path, part: FileLines, start: int) -> dict[str, object]:
    file: dict[str, object] = {
        "filePath": str(path),
        "content": "\n".join(part.lines),
        "numLines": len(part.lines),
        "startLine": start,
        "totalLines": part.total,
    }
    if part.is_cut:
        file["truncatedByTokenCap"] = True
    return {"type": "text", "file": file}


READERS: dict[str, Callable[[Path, BufferedReader, ReadInput, Path], ToolOutcome]] = {
    ".ipynb": lambda path, file, given, folder: read_notebook(path, file),
    ".pdf": lambda path, file, given, folder: read_pdf(path, file, given.pages, folder),
    ".png": lambda path, file, given, folder: read_image(path, file),
    ".jpg": lambda path, file, given, folder: read_image(path, file),
    ".jpeg": lambda path, file, given, folder: read_image(path, file),
    ".gif": lambda path, file, given, folder: read_image(path, file),
    ".webp": lambda path, file, given, folder: read_image(path, file),
}
"""Readers by file extension; all others are read as text. The last argument is the session's
folder."""

READ = Tool(
    "Read",
    DESCRIPTION,
    schema_of(ReadInput),
    reader_of(ReadInput),
    touches,
    run,
    is_parallel=True,
)
