"""Read: text and notebooks."""

import base64
import json
import os
from typing import Any

import pytest

from support.tool_calls import Calls

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_text_comes_with_line_numbers(calls: Calls) -> None:
    path = calls.file("a.txt", "one\n\tzwei\n\ndrei")
    outcome = calls.run("Read", file_path=str(path))
    assert outcome.content == "     1→one\n     2→\tzwei\n     3→\n     4→drei"
    assert outcome.data["file"] == {
        "filePath": str(path),
        "content": "one\n\tzwei\n\ndrei",
        "numLines": 4,
        "startLine": 1,
        "totalLines": 4,
    }


def test_a_part_of_a_file_is_read_from_its_offset_on(calls: Calls) -> None:
    calls.file("n.txt", "".join(f"{n}\n" for n in range(1, 11)))
    text = calls.text("Read", file_path="n.txt", offset=4, limit=2)
    assert text.startswith("     4→4\n     5→5\n\n")
    assert "10 lines" in text
    assert "offset 6" in text


def test_more_than_two_thousand_lines_are_read_in_parts(calls: Calls) -> None:
    calls.file("n.txt", "x\n" * 5_000)
    outcome = calls.run("Read", file_path="n.txt")
    assert outcome.data["file"]["numLines"] == 2_000
    assert outcome.data["file"]["totalLines"] == 5_000


def test_a_line_without_end_is_cut(calls: Calls) -> None:
    calls.file("long.txt", "x" * 3_000_000 + "\nend\n")
    text = calls.text("Read", file_path="long.txt")
    assert len(text) < 3_000
    assert text.endswith("     2→end")


def test_lines_that_are_too_much_together_are_cut_and_that_is_told(calls: Calls) -> None:
    calls.file("wide.txt", ("y" * 1_500 + "\n") * 500)
    outcome = calls.run("Read", file_path="wide.txt")
    assert len(outcome.content) < 120_000
    assert outcome.data["file"]["truncatedByTokenCap"] is True
    count = outcome.data["file"]["numLines"]
    assert f"offset {count + 1}" in outcome.content


def test_an_empty_file_and_an_offset_behind_the_end_are_told(calls: Calls) -> None:
    calls.file("none.txt", "")
    calls.file("few.txt", "a\nb\n")
    assert calls.text("Read", file_path="none.txt") == "The file is empty."
    assert "2 lines" in calls.text("Read", file_path="few.txt", offset=9)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\xef\xbb\xbfgr\xc3\xbcn\r\nblau\r\n", "     1→grün\n     2→blau"),
        ("grün\nblau".encode("utf-16"), "     1→grün\n     2→blau"),
        (b"gr\xfcn", "     1→grün"),
        ("page\x0cbreak\u2028line".encode(), "     1→page\x0cbreak\u2028line"),
    ],
)
def test_text_of_other_encodings_is_read(calls: Calls, raw: bytes, text: str) -> None:
    calls.file("t.txt", raw)
    assert calls.text("Read", file_path="t.txt") == text


def test_a_missing_file_is_told_with_names_that_are_near(calls: Calls) -> None:
    calls.file("src/settings.py", "")
    assert "src/settings.py?" in calls.refusal("Read", file_path="src/setings.py")
    assert "no directory" in calls.refusal("Read", file_path="lib/x/settings.py")


def test_what_is_no_file_is_refused(calls: Calls) -> None:
    os.mkfifo(calls.root / "pipe")
    calls.file("data.bin", b"ELF\0\1\2")
    assert "is a directory" in calls.refusal("Read", file_path=".")
    assert "neither" in calls.refusal("Read", file_path="pipe")
    assert "neither" in calls.refusal("Read", file_path="/dev/zero")
    assert "binary" in calls.refusal("Read", file_path="data.bin")


def test_an_input_that_does_not_fit_is_refused(calls: Calls) -> None:
    assert "file_path" in calls.refusal("Read")
    assert "bogus" in calls.refusal("Read", file_path="a", bogus=1)


def notebook(**output: Any) -> str:
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "id": "m1", "source": ["# Title\n", "text"]},
        {"cell_type": "code", "id": "c1", "source": "1 + 1", "outputs": [output]},
    ]
    return json.dumps({"cells": cells, "nbformat": 4})


def test_a_notebook_is_read_as_cells_with_outputs(calls: Calls) -> None:
    calls.file("n.ipynb", notebook(output_type="execute_result", data={"text/plain": ["2"]}))
    outcome = calls.run("Read", file_path="n.ipynb")
    text = (
        "<cell id=m1 type=markdown>\n# Title\ntext\n</cell>\n"
        "<cell id=c1>\n1 + 1\n</cell>\n<output>\n2\n</output>"
    )
    assert outcome.content == [{"type": "text", "text": text}]
    assert [cell["cell_id"] for cell in outcome.data["file"]["cells"]] == ["m1", "c1"]


def test_an_image_in_a_notebook_is_shown(calls: Calls) -> None:
    image = base64.b64encode(PIXEL).decode() + "\n"
    calls.file("n.ipynb", notebook(output_type="display_data", data={"image/png": image}))
    blocks = calls.blocks("Read", file_path="n.ipynb")
    assert [block["type"] for block in blocks] == ["text", "image"]


def test_of_an_image_in_a_notebook_that_does_not_decode_that_is_told(calls: Calls) -> None:
    calls.file("n.ipynb", notebook(output_type="display_data", data={"image/png": "aGk="}))
    [block] = calls.blocks("Read", file_path="n.ipynb")
    assert "cannot be shown" in block["text"]


def test_an_error_in_a_notebook_is_told(calls: Calls) -> None:
    error = {"ename": "E", "evalue": "no", "traceback": ["line 1", "line 2"]}
    calls.file("n.ipynb", notebook(output_type="error", **error))
    [block] = calls.blocks("Read", file_path="n.ipynb")
    assert "E: no\nline 1\nline 2" in block["text"]


@pytest.mark.parametrize("content", ["{", "[]", '{"cells": 1}'])
def test_what_is_no_notebook_is_refused(calls: Calls, content: str) -> None:
    calls.file("n.ipynb", content)
    assert "is not a notebook" in calls.refusal("Read", file_path="n.ipynb")


def test_a_file_with_a_similar_name_is_suggested(calls: Calls) -> None:
    (calls.root / "till.py").touch()
    refusal = calls.refusal("Read", file_path=str(calls.root / "tills.py"))
    assert refusal.endswith(f"Did you mean {calls.root / 'till.py'}?")
    assert "None" not in calls.refusal("Read", file_path=str(calls.root / "window.c"))


def test_files_of_the_same_name_with_another_ending_are_suggested(calls: Calls) -> None:
    (calls.root / "a.markdown").touch()
    refusal = calls.refusal("Read", file_path=str(calls.root / "a.py"))
    assert refusal.endswith(f"Did you mean {calls.root / 'a.markdown'}?")
