"""NotebookEdit: cells of a notebook."""

import json
from typing import Any

import pytest

from support.tool_calls import Calls

CELLS: list[dict[str, Any]] = [
    {"cell_type": "markdown", "id": "m1", "metadata": {}, "source": ["# Grün"]},
    {"cell_type": "code", "id": "c1", "metadata": {}, "source": "1", "outputs": [{"x": 1}]},
]


@pytest.fixture
def notebook(calls: Calls) -> Calls:
    content: dict[str, Any] = {"cells": CELLS, "nbformat": 4, "nbformat_minor": 5}
    calls.file("n.ipynb", json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    calls.run("Read", file_path="n.ipynb")
    return calls


def cells(calls: Calls) -> list[dict[str, Any]]:
    return json.loads((calls.root / "n.ipynb").read_text())["cells"]


def test_a_cell_is_replaced_and_its_outputs_go(notebook: Calls) -> None:
    given = {"notebook_path": "n.ipynb", "cell_id": "c1", "new_source": "a = 1\nb = 2"}
    outcome = notebook.run("NotebookEdit", **given)
    first, second = cells(notebook)
    assert first == CELLS[0]
    assert second["source"] == ["a = 1\n", "b = 2"]
    assert second["outputs"] == []
    assert (outcome.data["cell_type"], outcome.data["language"]) == ("code", "python")
    text = (notebook.root / "n.ipynb").read_text()
    assert text.startswith('{\n "cells": [\n  {\n')
    assert "Grün" in text
    assert text.endswith("}\n")


def test_a_cell_is_inserted_behind_another_or_at_the_start(notebook: Calls) -> None:
    given = {"notebook_path": "n.ipynb", "edit_mode": "insert", "new_source": "x"}
    notebook.run("NotebookEdit", **given, cell_id="m1", cell_type="code")
    notebook.run("NotebookEdit", **given, cell_type="markdown")
    kinds = [cell["cell_type"] for cell in cells(notebook)]
    assert kinds == ["markdown", "markdown", "code", "code"]
    assert len({cell["id"] for cell in cells(notebook)}) == 4
    assert "cell_type" in notebook.refusal("NotebookEdit", **given)


def test_a_cell_is_deleted(notebook: Calls) -> None:
    given = {"notebook_path": "n.ipynb", "edit_mode": "delete", "new_source": ""}
    notebook.run("NotebookEdit", **given, cell_id="m1")
    assert [cell["id"] for cell in cells(notebook)] == ["c1"]
    assert "m1" in notebook.refusal("NotebookEdit", **given, cell_id="m1")
    assert "needed" in notebook.refusal("NotebookEdit", **given)


def test_a_notebook_has_to_be_read_first(calls: Calls) -> None:
    calls.file("n.ipynb", json.dumps({"cells": []}))
    given = {"notebook_path": "n.ipynb", "cell_type": "code", "edit_mode": "insert"}
    assert "not been read" in calls.refusal("NotebookEdit", **given, new_source="x")
