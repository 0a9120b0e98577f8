"""Convert Jupyter notebooks to content blocks: cells with their outputs."""

import os
from io import BufferedReader
from pathlib import Path
from typing import Any

from turnlog.agent.tools.files.text_files import decode
from turnlog.agent.workspace.image_blocks import block_of
from turnlog.agent.workspace.tool import ToolError, ToolOutcome
from turnlog.format.json_values import Fields, is_array, is_object, parse_json

LARGEST = 64 << 20
"""Maximum size of a notebook in bytes; the same as for other files that can be changed."""
LONGEST = 10_000
"""Maximum characters shown of one output."""
UNSHOWN = "[an image that cannot be shown]"


def read_notebook(path: Path, file: BufferedReader) -> ToolOutcome:
    """Return the blocks of a notebook; `path` is the name of the open file."""
    if os.fstat(file.fileno()).st_size > LARGEST:
        raise ToolError(f"{path} is larger than {LARGEST >> 20} MiB")
    notebook = parse(decode(file.read()).text, path)
    cells = [_described(cell, number) for number, cell in enumerate(cells_of(notebook))]
    blocks = _joined([block for cell in cells for block in _blocks(cell)])
    data = {"type": "notebook", "file": {"filePath": str(path), "cells": cells}}
    return ToolOutcome(blocks or "The notebook has no cells.", data)


def parse(text: str, path: Path) -> Fields:
    """Parse the JSON of a notebook."""
    try:
        notebook = parse_json(text)
    except ValueError as error:
        raise ToolError(f"{path} is not a notebook: {error}") from error
    if not is_object(notebook) or not is_array(notebook.get("cells")):
        raise ToolError(f"{path} is not a notebook: it has no cells")
    return notebook


def cells_of(notebook: Fields) -> list[Fields]:
    """Return the cells of a notebook."""
    return [cell for cell in notebook["cells"] if is_object(cell)]


def name_of(cell: Fields, number: int) -> str:
    """Return the name of a cell: its id, or its position in notebooks without ids."""
    return str(cell.get("id") or f"cell-{number}")


def indent_of(text: str) -> int | None:
    """Return the indentation of a notebook's JSON; None if it is on one line."""
    first = text.lstrip().removeprefix("{").lstrip("\r\n")
    return (len(first) - len(first.lstrip(" "))) or None


def _described(cell: Fields, number: int) -> Fields:
    described: Fields = {
        "cellType": cell.get("cell_type"),
        "source": _text(cell.get("source")),
        "cell_id": name_of(cell, number),
    }
    listed = cell.get("outputs")
    outputs = [_output(item) for item in listed if is_object(item)] if is_array(listed) else []
    return described | ({"outputs": outputs} if outputs else {})


def _output(item: Fields) -> Fields:
    kind = str(item.get("output_type"))
    if kind == "error":
        text = f"{item.get('ename')}: {item.get('evalue')}\n{_text(item.get('traceback'), chr(10))}"
        return {"output_type": kind, "text": text[:LONGEST]}
    value = item.get("data")
    data: Fields = value if is_object(value) else {}
    output: Fields = {"output_type": kind}
    if text := _text(item.get("text")) or _text(data.get("text/plain")):
        output["text"] = text[:LONGEST]
    for media_type in ("image/png", "image/jpeg"):
        if image := _text(data.get(media_type)):
            # Jupyter breaks base64 into lines; the API accepts no line breaks.
            output["image"] = {"image_data": "".join(image.split()), "media_type": media_type}
    return output


def _blocks(cell: Fields) -> list[Fields]:
    kind = "" if cell["cellType"] == "code" else f" type={cell['cellType']}"
    blocks = [_text_block(f"<cell id={cell['cell_id']}{kind}>\n{cell['source']}\n</cell>")]
    for output in cell.get("outputs", []):
        if "text" in output:
            blocks.append(_text_block(f"<output>\n{output['text'].rstrip()}\n</output>"))
        if "image" in output:
            blocks.append(block_of(output["image"]["image_data"], UNSHOWN))
    return blocks


def _joined(blocks: list[Fields]) -> list[Fields]:
    """Join consecutive text blocks."""
    joined: list[Fields] = []
    for block in blocks:
        if joined and block["type"] == joined[-1]["type"] == "text":
            joined[-1] = _text_block(f"{joined[-1]['text']}\n{block['text']}")
        else:
            joined.append(block)
    return joined


def _text_block(text: str) -> Fields:
    return {"type": "text", "text": text}


def _text(value: Any, joint: str = "") -> str:
    """Return a text as one string, although a notebook may store it as a list of lines."""
    return joint.join(map(str, value)) if is_array(value) else str(value or "")
