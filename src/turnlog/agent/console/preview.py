"""What a call would do, before it is allowed: the diff of an edit, or all of a command."""

import json
from pathlib import Path

from turnlog.agent.files.patch import patch_of
from turnlog.agent.files.textfile import decode
from turnlog.conversation.calls import Detail
from turnlog.conversation.diffs import diff_of
from turnlog.format.values import Fields

EDITS = ("Edit", "Write", "NotebookEdit")
"""Tools that change files."""
LARGEST = 4 << 20
"""Bytes of a file that are compared with what it would become."""


def preview(tool: str, given: Fields) -> tuple[str, list[str]]:
    """What a call would do, as `diff` or `text`, in lines."""
    if tool == "Edit":
        return "diff", _edit(given)
    if tool == "Write":
        return "diff", _write(given)
    if tool == "Bash":
        lines = str(given.get("command", "")).split("\n")
        return "text", lines if len(lines) > 1 else []
    shown = {name: value for name, value in given.items() if name != "description"}
    if len(shown) <= 1:
        return "text", []
    return "text", json.dumps(shown, ensure_ascii=False, indent=2).split("\n")[1:-1]


def _edit(given: Fields) -> list[str]:
    old, new = str(given.get("old_string", "")), str(given.get("new_string", ""))
    text = _content(given)
    if old and old in text:
        return _diff(text, text.replace(old, new, -1 if given.get("replace_all") else 1), given)
    return diff_of(Detail(given))


def _write(given: Fields) -> list[str]:
    return _diff(_content(given), str(given.get("content", "")), given)


def _diff(old: str, new: str, given: Fields) -> list[str]:
    return diff_of(Detail(given, structured={"structuredPatch": patch_of(old, new)}))


def _content(given: Fields) -> str:
    """What the file holds; nothing if it cannot be told."""
    path = Path(str(given.get("file_path", ""))).expanduser()
    try:
        return decode(path.read_bytes()).text if path.stat().st_size <= LARGEST else ""
    except (OSError, ValueError):
        return ""
