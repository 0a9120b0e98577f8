"""Save results that are too long for the model beside the session; the model gets an extract.

The extract starts with the same line as the client's, so that readers find the saved file.
"""

import secrets
import string
from pathlib import Path

from turnlog.format.json_values import Fields
from turnlog.format.private_files import create_private_folder, write_private
from turnlog.store.paths import TOOL_RESULTS

LIMIT = 50_000
"""Maximum characters of a result that the model gets in full."""
EXTRACT = 2_000
"""Characters that an extract shows of the start of a result, and of its end."""
EXTRACT_START = "<persisted-output>\nOutput too large ("
LETTERS = string.ascii_lowercase + string.digits


def results_folder(folder: Path) -> Path:
    """Return the folder for long results of a session, creating it if necessary."""
    place = folder / TOOL_RESULTS
    create_private_folder(place)
    return place


def fit_text(text: str, folder: Path, limit: int = LIMIT) -> str:
    """Return a short result in full; save a long one in a file and return an extract."""
    if len(text) <= limit:
        return text
    path = results_folder(folder) / f"{new_output_name()}.txt"
    payload = text.encode("utf-8", "replace")
    write_private(path, payload)
    return extract(path, len(payload), text[:EXTRACT], text[-EXTRACT:])


def fit_blocks(blocks: list[Fields], folder: Path) -> list[Fields]:
    """Return the blocks of a result, with long texts replaced by extracts."""
    return [
        block | {"text": fit_text(block["text"], folder)} if block["type"] == "text" else block
        for block in blocks
    ]


def extract(path: Path, size: int, head: str, tail: str) -> str:
    """Return the extract of a result that is saved in a file."""
    return (
        f"{EXTRACT_START}{size_text(size)}). "
        f"Full output saved to: {path}\n\n"
        f"Its start:\n{head}\n...\n\nIts end:\n{tail}\n</persisted-output>"
    )


def is_extract(text: str) -> bool:
    """Return whether a result was too long and is only an extract."""
    return text.startswith(EXTRACT_START)


def size_text(size: int) -> str:
    """Return a size in the client's format.

    >>> size_text(228894)
    '223.5KB'
    """
    amount, unit = float(size), "bytes"
    for larger in ("KB", "MB", "GB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.1f}{unit}".replace(".0", "")


def new_output_name() -> str:
    """Return a name for a saved output or a background command, in the client's form."""
    return "b" + "".join(secrets.choice(LETTERS) for _ in range(8))
