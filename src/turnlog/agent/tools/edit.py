"""Edit: replace a string in a file."""

import asyncio
from typing import Annotated

from msgspec import Meta

from turnlog.agent.tools.files.changes import change_text, load_text
from turnlog.agent.tools.files.file_targets import require_file
from turnlog.agent.tools.files.pinned_files import pin
from turnlog.agent.workspace.access import Writes
from turnlog.agent.workspace.inputs import Input, reader_of, schema_of
from turnlog.agent.workspace.tool import Grant, Output, Tool, ToolError, ToolOutcome
from turnlog.agent.workspace.workspace import Workspace
from turnlog.format.json_values import Fields

DESCRIPTION = """\
Replace a piece of a file. old_string must be exactly as in the file, with its indentation, but \
without the line numbers that Read shows, and must occur only once: add lines around it until it \
does, or set replace_all to replace each occurrence. The file has to be read first. With an empty \
old_string a new file is made."""


class EditInput(Input, frozen=True):
    """Input of Edit."""

    file_path: Annotated[str, Meta(description="Absolute path of the file")]
    old_string: Annotated[str, Meta(description="The text to replace")]
    new_string: Annotated[str, Meta(description="The replacement")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence")] = False


def touches(given: EditInput, workspace: Workspace) -> list[Writes]:
    return [Writes(workspace.path_of(given.file_path))]


async def run(given: EditInput, workspace: Workspace, output: Output, grant: Grant) -> ToolOutcome:
    path = workspace.path_of(given.file_path)
    if given.old_string == given.new_string:
        raise ToolError("old_string and new_string are the same: there is nothing to change")
    if given.old_string:
        require_file(path)
    pinned = pin(path, grant)
    current = await asyncio.to_thread(load_text, pinned, workspace)
    text, count = edited_text(current.text if current else "", given)
    changed = await change_text(pinned, current, text, workspace)
    data: Fields = {
        "oldString": given.old_string,
        "newString": given.new_string,
        "replaceAll": given.replace_all,
    }
    places = f" in {count} places" if count > 1 else ""
    return ToolOutcome(f"The file {path} has been updated{places}.", changed | data)


async def check(given: EditInput, workspace: Workspace, grant: Grant) -> None:
    pinned = pin(workspace.path_of(given.file_path), grant)
    # Without permission, an error must not reveal whether an unread file contains a string.
    if pinned.target in workspace.read_states:
        current = await asyncio.to_thread(load_text, pinned, workspace)
        edited_text(current.text if current else "", given)


def edited_text(text: str, given: EditInput) -> tuple[str, int]:
    """Return the text after the edit, and how many pieces were replaced."""
    old, new = given.old_string, given.new_string
    if not old:
        if text:
            raise ToolError("old_string is empty, but the file exists and is not empty")
        return new, 1
    if old not in text:  # the file may have other line endings
        old, new = _with_ends(old, text), _with_ends(new, text)
    count = text.count(old)
    if not count:
        raise ToolError(f"String to replace not found in file.\nString: {given.old_string}")
    if count > 1 and not given.replace_all:
        raise ToolError(
            f"old_string occurs {count} times. Add lines around it until it is unique, or set "
            f"replace_all to replace all of them.\nString: {given.old_string}"
        )
    return text.replace(old, new), count


def _with_ends(piece: str, text: str) -> str:
    """Return a string with the line endings of a text."""
    plain = piece.replace("\r\n", "\n")
    return plain.replace("\n", "\r\n") if "\r\n" in text else plain


EDIT = Tool(
    "Edit", DESCRIPTION, schema_of(EditInput), reader_of(EditInput), touches, run, check=check
)
