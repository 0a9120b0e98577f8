"""The files that a session touched."""

from typing import Any

from conversation.conftest import Opened
from support.build import assistant, call, result, user
from turnlog.render.touched_files import touched_files


def did(tool: str, call_id: str, is_error: bool = False, **given: Any) -> tuple[bytes, bytes]:
    return assistant(call(tool, given, call_id)), result(call_id, "x", is_error)


def test_files_come_in_the_order_in_which_they_were_first_touched(opened: Opened) -> None:
    whole = opened(
        *did("Read", "A", file_path="/b"),
        *did("Write", "B", file_path="/a", content="1\n2\n"),
        *did("Edit", "C", file_path="/b", old_string="x", new_string="y\nz"),
        *did("Read", "D", file_path="/b"),
        *did("NotebookEdit", "E", notebook_path="/n.ipynb", new_source="x"),
    )
    files = touched_files(whole)
    assert [(file.path, file.reads, file.added, file.removed) for file in files] == [
        ("/b", 2, 2, 1),
        ("/a", 0, 2, 0),
        ("/n.ipynb", 0, 1, 0),
    ]
    (change,) = files[0].changes
    assert (change.call_id, change.tool, change.line) == ("C", "Edit", 5)
    assert change.diff == ["@@ -1 +1,2 @@", "-x", "+y", "+z"]


def test_calls_that_failed_or_have_no_result_touched_nothing(opened: Opened) -> None:
    whole = opened(
        user("q"),
        *did("Write", "A", is_error=True, file_path="/a", content="x"),
        assistant(call("Write", {"file_path": "/b", "content": "x"}, "B")),
        *did("Bash", "C", command="rm /c"),
        *did("Edit", "D", file_path=5),
    )
    assert touched_files(whole) == []


def test_secrets_in_diffs_are_masked(opened: Opened) -> None:
    whole = opened(*did("Write", "A", file_path="/a", content="password = 'tr0ub4dor&3'"))
    (masked,), (shown,) = touched_files(whole), touched_files(whole, reveal=True)
    assert "tr0ub4dor&3" not in masked.changes[0].diff[1]
    assert shown.changes[0].diff[1] == "+password = 'tr0ub4dor&3'"
