"""NotebookEdit: replace, insert or delete a cell of a notebook."""

import json
from typing import Annotated, Literal
from uuid import uuid4

from msgspec import Meta

from turnlog.agent.tools.files.changes import load_text, write_text
from turnlog.agent.tools.files.file_targets import require_file
from turnlog.agent.tools.files.notebooks import cells_of, indent_of, name_of, parse
from turnlog.agent.tools.files.pinned_files import pin
from turnlog.agent.workspace.access import Writes
from turnlog.agent.workspace.inputs import Input, reader_of, schema_of
from turnlog.agent.workspace.tool import Grant, Output, Tool, ToolError, ToolOutcome
from turnlog.agent.workspace.workspace import Workspace
from turnlog.format.json_values import Fields

DESCRIPTION = """\
Change a cell of a Jupyter notebook (.ipynb): replace its source, insert a new cell behind it (at \
the start without cell_id), or delete it. Cells are named as Read shows them. The notebook has to \
be read first."""


class NotebookEditInput(Input, frozen=True):
    """Input of NotebookEdit."""

    notebook_path: Annotated[str, Meta(description="Absolute path of the notebook")]
    new_source: Annotated[str, Meta(description="The new content of the cell")]
    cell_id: Annotated[
        str | None, Meta(description="The cell; for insert, the one before the new cell")
    ] = None
    cell_type: Annotated[
        Literal["code", "markdown"] | None, Meta(description="The type of a new cell")
    ] = None
    edit_mode: Annotated[Literal["replace", "insert", "delete"], Meta(description="What to do")] = (
        "replace"
    )


def touches(given: NotebookEditInput, workspace: Workspace) -> list[Writes]:
    return [Writes(workspace.path_of(given.notebook_path))]


async def run(
    given: NotebookEditInput, workspace: Workspace, output: Output, grant: Grant
) -> ToolOutcome:
    path = workspace.path_of(given.notebook_path)
    require_file(path)
    pinned = pin(path, grant)
    current = load_text(pinned, workspace)
    if current is None:
        raise pinned.changed
    notebook = parse(current.text, path)
    cell = _change(notebook, given)
    # With the indentation and the end of the file as they were, a diff shows only the cell.
    text = json.dumps(notebook, indent=indent_of(current.text), ensure_ascii=False)
    text += "\n" if current.text.endswith("\n") else ""
    write_text(pinned, text, current, workspace)
    data = {
        "new_source": given.new_source,
        "cell_type": cell.get("cell_type"),
        "language": _language(notebook),
        "edit_mode": given.edit_mode,
        "cell_id": cell.get("id") or given.cell_id,
        "error": "",
        "notebook_path": str(path),
        "original_file": current.text,
        "updated_file": text,
    }
    done = {"replace": "replaced", "insert": "inserted", "delete": "deleted"}[given.edit_mode]
    return ToolOutcome(f"The cell {data['cell_id']} of {path} has been {done}.", data)


def _change(notebook: Fields, given: NotebookEditInput) -> Fields:
    """Apply the change; return the affected cell."""
    cells = notebook["cells"] = cells_of(notebook)
    place = -1 if given.cell_id is None else _place(cells, given.cell_id)
    if given.edit_mode == "insert":
        cell = _new_cell(notebook, given)
        cells.insert(place + 1, cell)
        return cell
    if place < 0:
        raise ToolError(f"cell_id is needed to {given.edit_mode} a cell")
    if given.edit_mode == "delete":
        return cells.pop(place)
    cell = cells[place]
    cell["source"] = given.new_source.splitlines(keepends=True)
    if given.cell_type:
        cell["cell_type"] = given.cell_type
    # The old outputs do not belong to the new source.
    if cell.get("cell_type") == "code":
        cell |= {"outputs": [], "execution_count": None}
    else:
        cell.pop("outputs", None)
        cell.pop("execution_count", None)
    return cell


def _new_cell(notebook: Fields, given: NotebookEditInput) -> Fields:
    if not given.cell_type:
        raise ToolError("cell_type is needed to insert a cell")
    cell: Fields = {"cell_type": given.cell_type, "metadata": {}}
    # Ids of cells came with nbformat 4.5; in older notebooks they are invalid.
    if (notebook.get("nbformat"), notebook.get("nbformat_minor", 0)) >= (4, 5):
        cell["id"] = uuid4().hex[:8]
    if given.cell_type == "code":
        cell |= {"outputs": [], "execution_count": None}
    return cell | {"source": given.new_source.splitlines(keepends=True)}


def _place(cells: list[Fields], name: str) -> int:
    names = [name_of(cell, number) for number, cell in enumerate(cells)]
    if name not in names:
        raise ToolError(f"Unknown cell {name}; available: {', '.join(names) or 'none'}")
    return names.index(name)


def _language(notebook: Fields) -> str:
    try:
        return str(notebook["metadata"]["language_info"]["name"])
    except (KeyError, TypeError):
        return "python"


NOTEBOOK_EDIT = Tool(
    "NotebookEdit",
    DESCRIPTION,
    schema_of(NotebookEditInput),
    reader_of(NotebookEditInput),
    touches,
    run,
)
