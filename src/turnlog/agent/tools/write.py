"""Write: create or overwrite a file."""

import asyncio
from typing import Annotated

from msgspec import Meta

from turnlog.agent.tools.files.changes import change_text, load_text
from turnlog.agent.tools.files.pinned_files import pin
from turnlog.agent.workspace.access import Writes
from turnlog.agent.workspace.inputs import Input, reader_of, schema_of
from turnlog.agent.workspace.tool import Grant, Output, Tool, ToolOutcome
from turnlog.agent.workspace.workspace import Workspace

DESCRIPTION = """\
Write a file: make a new one, with the directories above it, or replace the whole content of one \
that is there. A file that is there has to be read first. To change a part of a file use Edit."""


class WriteInput(Input, frozen=True):
    """Input of Write."""

    file_path: Annotated[str, Meta(description="Absolute path of the file")]
    content: Annotated[str, Meta(description="The whole content of the file")]


def touches(given: WriteInput, workspace: Workspace) -> list[Writes]:
    return [Writes(workspace.path_of(given.file_path))]


async def run(given: WriteInput, workspace: Workspace, output: Output, grant: Grant) -> ToolOutcome:
    path = workspace.path_of(given.file_path)
    pinned = pin(path, grant)
    # Refuses a file that exists and that the model has not read.
    current = await asyncio.to_thread(load_text, pinned, workspace)
    changed = await change_text(pinned, current, given.content, workspace)
    data = {"type": "update" if current else "create", "content": given.content}
    done = "updated" if current else "created"
    return ToolOutcome(f"The file {path} has been {done}.", changed | data)


WRITE = Tool("Write", DESCRIPTION, schema_of(WriteInput), reader_of(WriteInput), touches, run)
