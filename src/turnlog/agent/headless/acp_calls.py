"""Convert tool calls to the ACP form: title, kind, locations, diffs and output."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from acp.helpers import (
    ToolCallContentVariant,
    image_block,
    text_block,
    tool_content,
    tool_diff_content,
)
from acp.schema import ToolCallLocation, ToolKind

from turnlog.agent.workspace.workspace import Workspace
from turnlog.conversation.call_titles import call_title
from turnlog.format.json_values import Fields, is_array, is_object
from turnlog.format.regular_files import read_regular

KINDS: dict[str, ToolKind] = {
    "Read": "read",
    "Edit": "edit",
    "MultiEdit": "edit",
    "Write": "edit",
    "NotebookEdit": "edit",
    "Bash": "execute",
    "BashOutput": "execute",
    "KillShell": "execute",
    "Grep": "search",
    "Glob": "search",
    "WebFetch": "fetch",
    "WebSearch": "fetch",
    "Agent": "think",
    "Task": "think",
    "TodoWrite": "think",
    "ExitPlanMode": "switch_mode",
}
PATHS = ("file_path", "notebook_path", "path")
PROSE = frozenset(("Agent", "Task", "WebFetch", "WebSearch", "Skill"))
"""Tools whose results are Markdown; other results are shown in a code block."""
LARGEST = 1 << 20
"""Maximum bytes of a file to show in a diff."""
TICKS = re.compile(r"`{3,}")


def title_of(tool: str, given: Fields) -> str:
    """Return the title of a call."""
    title = call_title(tool, given)
    # The title of a command is the command; editors show an icon for the tool.
    return title if tool == "Bash" and title else f"{tool} {title}".strip()


def kind_of(tool: str) -> ToolKind:
    """Return the kind of a tool."""
    return KINDS.get(tool, "other")


def locations_of(given: Fields, workspace: Workspace) -> list[ToolCallLocation]:
    """Return the files that a call names, which a client may follow."""
    named = next((given[name] for name in PATHS if isinstance(given.get(name), str)), None)
    if named is None:
        return []
    line = given.get("offset")
    place = str(workspace.path_of(named))
    return [ToolCallLocation(path=place, line=line if isinstance(line, int) and line > 0 else None)]


def preview_of(
    tool: str, given: Fields, workspace: Workspace, is_past: bool = False
) -> list[ToolCallContentVariant]:
    """Return the content to show for a call: a diff for a file change, else a plan or prompt.

    For a recorded Write, the diff lacks the old content, as the file may have changed since.
    """
    path, text = given.get("file_path"), given.get("content")
    if tool == "Edit" and isinstance(path, str):
        old, new = (str(given.get(name) or "") for name in ("old_string", "new_string"))
        return [tool_diff_content(str(workspace.path_of(path)), new, old)]
    if tool == "Write" and isinstance(path, str) and isinstance(text, str):
        place = workspace.path_of(path)
        current = None if is_past else _current(place, workspace)
        return [tool_diff_content(str(place), text, current)]
    shown = next((given[name] for name in ("plan", "new_source", "prompt") if name in given), None)
    return [tool_content(text_block(shown))] if isinstance(shown, str) else []


def _current(path: Path, workspace: Workspace) -> str | None:
    """Return the text of a file that would be replaced; None if there is nothing to show."""
    # The diff is shown before the user is asked: a denied file must not leak through it.
    if not workspace.may_read(path):
        return None
    try:
        return read_regular(path, LARGEST).decode()
    except (OSError, UnicodeDecodeError):
        return None


def outcome_of(tool: str, block: Fields) -> list[ToolCallContentVariant]:
    """Return the content of a result."""
    content = block.get("content")
    blocks = content if is_array(content) else [{"type": "text", "text": str(content or "")}]
    return [shown for each in blocks if is_object(each) for shown in _shown(tool, each)]


def _shown(tool: str, block: Fields) -> Iterable[ToolCallContentVariant]:
    if block.get("type") == "text" and (text := str(block.get("text") or "")):
        yield tool_content(text_block(text if tool in PROSE else fenced(text)))
    source: Any = block.get("source")
    if block.get("type") == "image" and is_object(source) and source.get("type") == "base64":
        yield tool_content(image_block(str(source.get("data")), str(source.get("media_type"))))


def fenced(text: str) -> str:
    r"""Return a text as a code block, with a fence that nothing in the text can close.

    >>> fenced("a")
    '```\na\n```'
    >>> fenced("```\na").splitlines()[0]
    '````'
    """
    longest = max((len(each) for each in TICKS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text.rstrip()}\n{fence}"


def changed_line(data: Any) -> int | None:
    """Return the first line that an edit changed, from the recorded result."""
    patch = data.get("structuredPatch") if is_object(data) else None
    first = patch[0] if is_array(patch) and patch else None
    line = first.get("newStart") if is_object(first) else None
    return line if isinstance(line, int) else None
