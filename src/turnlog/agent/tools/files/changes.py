"""Change files: back up, replace atomically, and remember the new content as read."""

import asyncio
import os
from typing import Any

from turnlog.agent.tools.files.file_targets import refusals, remember, require_file, require_read
from turnlog.agent.tools.files.patch import patch_of
from turnlog.agent.tools.files.pinned_files import Pinned, open_file, open_folder, open_in
from turnlog.agent.tools.files.text_files import (
    SAMPLE,
    TextFile,
    decode,
    is_binary,
    replace_content,
)
from turnlog.agent.workspace.spilled_results import size_text
from turnlog.agent.workspace.tool import ToolError
from turnlog.agent.workspace.workspace import Workspace

KEPT = 200_000
"""Maximum characters of the original file recorded with a change."""
LARGEST = 64 << 20
"""Maximum size of a file that can be changed, in bytes."""


def load_text(pinned: Pinned, workspace: Workspace) -> TextFile | None:
    """Read a file before a change; None if it does not exist.

    Raises `ToolError` if the model has not read it.
    """
    path = pinned.path
    with refusals("read", path):
        if not pinned.target.exists():
            return None
        require_file(path)
        with open_file(pinned) as file:
            require_read(pinned, file, workspace)
            if os.fstat(file.fileno()).st_size > LARGEST:
                size = size_text(LARGEST)
                raise ToolError(f"{path} is larger than {size}; use a command in Bash")
            file.seek(0)
            raw = file.read()
    if is_binary(raw[:SAMPLE]):
        raise ToolError(f"{path} is a binary file")
    return decode(raw)


async def change_text(
    pinned: Pinned, current: TextFile | None, text: str, workspace: Workspace
) -> dict[str, Any]:
    """Replace the text of a file; return the data that the session records.

    The diff is computed first, so that no cancellation comes between the write and its record.
    """
    original = current.text if current else None
    patch = [] if original is None else await asyncio.to_thread(patch_of, original, text)
    write_text(pinned, text, current, workspace)
    return {
        "filePath": str(pinned.path),
        "structuredPatch": patch,
        "originalFile": original if original is None or len(original) <= KEPT else None,
        "userModified": False,
    }


def write_text(pinned: Pinned, text: str, current: TextFile | None, workspace: Workspace) -> None:
    """Write a text with the encoding and line endings of `current`, the present content if any."""
    path = pinned.path
    try:
        payload = (current or TextFile("")).encode(text)
    except UnicodeEncodeError as error:
        wrong = error.object[error.start : error.end]
        raise ToolError(f"{path} is encoded as {error.encoding}, which lacks {wrong!r}") from error
    # The folder stays open from the last check to the replacement, so nobody can swap it for a
    # symlink in between.
    with refusals("write", path), open_folder(pinned, creates=True) as folder:
        _require_unchanged(pinned, folder, current, workspace)
        # Back up after the last check that can refuse, and before the first byte is written.
        workspace.before_change(path)
        replace_content(folder, pinned.target.name, payload)
        # The model knows what it has written and may change it again without reading it.
        with open_in(pinned, folder) as file:
            remember(pinned, file, workspace)


def _require_unchanged(
    pinned: Pinned, folder: int, current: TextFile | None, workspace: Workspace
) -> None:
    """Raise if the file appeared or changed while the user was asked for permission."""
    try:
        with open_in(pinned, folder) as file:
            if current is None:
                raise pinned.changed
            require_read(pinned, file, workspace)
    except FileNotFoundError:
        if current is not None:
            raise pinned.changed from None
