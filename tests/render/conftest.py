"""Sessions built from the lines that a test states, and rows of its calls."""

from typing import Any

from conversation.conftest import Opened, opened
from turnlog.render.rows import CallRow

__all__ = ["Opened", "did", "opened"]


def did(title: str, **fields: Any) -> CallRow:
    """Return the row of a call; a test states only what matters to it."""
    usual: dict[str, Any] = {"name": "Bash", "outcome": "", "is_error": False, "style": "text"}
    stated: dict[str, Any] = {"title": title, "duration_ms": None, **fields}
    return CallRow(**(usual | stated))
