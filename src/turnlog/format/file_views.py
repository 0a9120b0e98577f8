"""Typed views of what sessions record about files: patches, backups, attachments.

Shapes as written by 2.0.42 to 2.1.325 (observed).
"""

from typing import Any

from msgspec import UNSET, UnsetType, field

from turnlog.format.fields import CamelView, Count, Flag, Object, SnakeView, Text, Texts, given
from turnlog.format.fit import fit
from turnlog.format.json_values import is_array, is_object

HOOK_TRACES = (
    "attachment/hook_",
    "attachment/async_hook",
    "progress/hook_progress",
    "system/stop_hook_summary",
)
"""Starts of the kinds of the lines that hooks leave."""


class Hunk(CamelView):
    """One hunk of a `structuredPatch`; every line starts with ` `, `-`, `+` or `\\`.

    Leading tabs of a line appear as two spaces each in the patches of Edit and Write, but not in
    those of Bash (observed: 2.0.76 to 2.1.325).
    """

    old_start: Count = UNSET
    old_lines: Count = UNSET
    new_start: Count = UNSET
    new_lines: Count = UNSET
    lines: Texts = UNSET


class ShellChange(CamelView):
    """A file that a shell command created, changed or deleted."""

    file_path: Text = UNSET
    hunks: Any = UNSET
    created: Flag = UNSET
    deleted: Flag = UNSET


class ShellChanges(CamelView):
    """The `bashEditDiff` of a Bash result (observed: 2.1.325).

    The old side of a hunk is the content that the client last read or wrote, which need not be the
    content just before the command.
    """

    files: list[ShellChange] | None | UnsetType = UNSET
    more_files: Count = UNSET
    changed_files: Texts = UNSET


class NotebookEditResult(SnakeView):
    """The result of NotebookEdit, with both contents in newer clients (observed: 2.1.325)."""

    notebook_path: Text = UNSET
    cell_id: Text = UNSET
    edit_mode: Text = UNSET
    error: Text = UNSET
    original_file: Text = UNSET
    updated_file: Text = UNSET


class FileAttachment(CamelView):
    """Attachments about a file or a hook."""

    type: Text = UNSET
    filename: Text = UNSET
    snippet: Text = UNSET
    """Numbered lines around a change (`edited_text_file`)."""
    content: Any = UNSET
    """The result of a Read (`file`)."""
    hook_event: Text = UNSET
    tool_use_id: Text = field(default=UNSET, name="toolUseID")


class BackupRef(CamelView):
    """A backup in the file history; without a name, the file did not exist."""

    backup_file_name: Text = UNSET
    version: Count = UNSET
    backup_time: Text = UNSET
    real_parent_dir: Text = UNSET


def hunks_of(value: Any) -> list[Hunk]:
    """Return the hunks of a structured patch."""
    return [fit(Hunk, each, []) for each in value if is_object(each)] if is_array(value) else []


def hunk_lines(hunk: Hunk) -> list[str]:
    """Return the lines of a hunk; `["?"]`, which no patch contains, if a line is not a string."""
    lines: list[Any] = given(hunk.lines) or []
    return lines if all(isinstance(line, str) for line in lines) else ["?"]


def changed_paths(changes: ShellChanges) -> dict[str, ShellChange | None]:
    """Return the files that a command changed, each with its change if that is recorded."""
    paths: list[Any] = given(changes.changed_files) or []
    files: list[Any] = given(changes.files) or []
    found: dict[str, ShellChange | None] = {
        path: None for path in paths if isinstance(path, str) and path
    }
    for each in files:
        if isinstance(each, ShellChange) and (path := given(each.file_path)):
            found[path] = each
    return found


def shell_changes(value: Object) -> ShellChanges:
    """Return the files that a `bashEditDiff` lists."""
    return fit(ShellChanges, given(value) or {}, [])


def backups_in(value: Object) -> dict[str, BackupRef]:
    """Return the backups of a snapshot by tracked path."""
    held = given(value) or {}
    return {path: fit(BackupRef, each, []) for path, each in held.items() if is_object(each)}
