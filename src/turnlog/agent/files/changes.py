"""Files that tools change: backed up, replaced at once, and known to the model from then on."""

import asyncio
from pathlib import Path
from typing import Any

from turnlog.agent.files.named import refusals, remember, require_file, require_seen
from turnlog.agent.files.patch import patch_of
from turnlog.agent.files.textfile import SAMPLE, TextFile, decode, is_binary, replace_content
from turnlog.agent.session.kept import told_size
from turnlog.agent.tool import ToolError
from turnlog.agent.workspace import Workspace

KEPT = 200_000
"""Characters of a file that the session keeps along with a change of it."""
LARGEST = 64 << 20
"""Bytes of a file that can be changed."""


def load_text(path: Path, workspace: Workspace) -> TextFile | None:
    """A file that is to be changed, if the model knows it; None for one that is not there."""
    with refusals("read", path):
        if not path.exists():
            return None
        require_file(path)
        require_seen(path, workspace)
        if path.stat().st_size > LARGEST:
            raise ToolError(f"{path} is larger than {told_size(LARGEST)}; use a command in Bash")
        raw = path.read_bytes()
    if is_binary(raw[:SAMPLE]):
        raise ToolError(f"{path} is a binary file")
    return decode(raw)


async def change_text(
    path: Path, kept: TextFile | None, text: str, workspace: Workspace
) -> dict[str, Any]:
    """Give a file another text; what the session keeps of that.

    The comparison comes first: once the file is written, nothing can be cancelled any more.
    """
    original = kept.text if kept else None
    patch = [] if original is None else await asyncio.to_thread(patch_of, original, text)
    if kept:
        require_seen(path, workspace)
    write_text(path, text, kept or TextFile(""), workspace)
    return {
        "filePath": str(path),
        "structuredPatch": patch,
        "originalFile": original if original is None or len(original) <= KEPT else None,
        "userModified": False,
    }


def write_text(path: Path, text: str, kept: TextFile, workspace: Workspace) -> None:
    """Write a text in the way a file is kept."""
    try:
        payload = kept.encode(text)
    except UnicodeEncodeError as error:
        wrong = error.object[error.start : error.end]
        raise ToolError(f"{path} is kept as {error.encoding}, which has no {wrong!r}") from error
    with refusals("write", path):
        workspace.before_change(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_content(path, payload)
        remember(path, workspace)
