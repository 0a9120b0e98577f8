"""The debug log of a chat: a line for each request, hook, server, verdict and call.

Categories are loggers below `turnlog`: `api`, `hooks`, `mcp`, `permissions`, `session`, `tools`.
Prompts and answers are not logged, and whatever looks like a secret is masked.
"""

import logging
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from turnlog.errors import UsageError
from turnlog.format.private_files import create_private_folder, open_private
from turnlog.format.timestamps import stamp_of
from turnlog.secrets import mask
from turnlog.text import one_line

ROOT = "turnlog"
CATEGORIES = ("api", "hooks", "mcp", "permissions", "session", "tools")
OTHER = "!"
LONGEST = 2_000


class CategoryFilter(logging.Filter):
    """Filters lines by category: `api,hooks` selects categories, `!mcp` excludes one."""

    def __init__(self, text: str) -> None:
        super().__init__()
        names = [name.strip() for name in text.split(",") if name.strip()]
        if unknown := [name for name in names if name.lstrip(OTHER) not in CATEGORIES]:
            known = ", ".join(CATEGORIES)
            raise UsageError(
                f"--debug: no category {unknown[0]!r}: choose from {known}", "--debug=api"
            )
        self._wanted = {name for name in names if not name.startswith(OTHER)}
        self._unwanted = {name.lstrip(OTHER) for name in names if name.startswith(OTHER)}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line passes."""
        category = _category(record)
        is_wanted = not self._wanted or category in self._wanted
        return is_wanted and category not in self._unwanted


class LineFormatter(logging.Formatter):
    """Formats a line as the client does: time, level, category and text."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        time = stamp_of(datetime.fromtimestamp(record.created, UTC))
        text = one_line(mask(record.getMessage())).strip()[:LONGEST]
        return f"{time} [{record.levelname}] [{_category(record)}] {text}"


class FileHandler(logging.StreamHandler[TextIO]):
    """Writes lines to a file; a full disk must not disturb the chat."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Drop a line that cannot be written."""


def open_debug_log(path: Path, wanted: str) -> None:
    """Append a debug log to a file, readable by the user alone; `wanted` filters categories."""
    passing = CategoryFilter(wanted)
    try:
        create_private_folder(path.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        descriptor = open_private(path, flags, must_own=True)
    except OSError as error:
        raise UsageError(f"--debug-file {path}: {error.strerror}", "--debug-file FILE") from error
    file = os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace")
    handler = FileHandler(file)
    handler.setFormatter(LineFormatter())
    handler.addFilter(passing)
    logger = logging.getLogger(ROOT)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    # The root logger of the process prints to the terminal, on which a chat draws.
    logger.propagate = False


def _category(record: logging.LogRecord) -> str:
    return record.name.removeprefix(f"{ROOT}.")
