"""Changes to files as lines of a diff."""

from typing import Any

import pytest

from turnlog.conversation.calls import Detail
from turnlog.render.tool_views import diff_of

PATCH = [
    {"oldStart": 3, "oldLines": 1, "newStart": 3, "newLines": 2, "lines": ["-a", "+b", "+c"]},
    {"oldStart": 9, "oldLines": 1, "newStart": 10, "newLines": 1, "lines": [" x"]},
]


def test_the_patch_that_the_tool_gave_is_taken() -> None:
    detail = Detail({"old_string": "no", "new_string": "matter"}, "ok", {"structuredPatch": PATCH})
    assert diff_of(detail) == [
        "@@ -3,1 +3,2 @@",
        "-a",
        "+b",
        "+c",
        "@@ -9,1 +10,1 @@",
        " x",
    ]


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ({"old_string": "a\nb", "new_string": "a\nc"}, ["@@ -1,2 +1,2 @@", " a", "-b", "+c"]),
        ({"content": "a\nb\n"}, ["@@ -0,0 +1,2 @@", "+a", "+b"]),
        ({"new_source": "x"}, ["@@ -0,0 +1 @@", "+x"]),
        ({"old_string": "a", "new_string": ""}, ["@@ -1 +0,0 @@", "-a"]),
        (
            {"edits": [{"old_string": "a", "new_string": "b"}, {"new_string": "c"}]},
            ["@@ -1 +1 @@", "-a", "+b", "@@ -0,0 +1 @@", "+c"],
        ),
        ({"command": "ls"}, []),
    ],
)
def test_without_a_patch_the_input_tells(given: dict[str, Any], lines: list[str]) -> None:
    assert diff_of(Detail(given)) == lines


def test_lines_that_look_like_the_head_of_a_diff_are_kept() -> None:
    detail = Detail({"old_string": "-- old", "new_string": "++ new"})
    assert diff_of(detail) == ["@@ -1 +1 @@", "--- old", "+++ new"]


@pytest.mark.parametrize(
    "structured",
    [
        "Error",
        {"structuredPatch": []},
        {"structuredPatch": 5},
        {"structuredPatch": [5]},
        {"structuredPatch": [{"lines": 5}]},
    ],
)
@pytest.mark.parametrize("given", [None, 5, {"edits": 5}, {"edits": [5]}, {"old_string": 5}])
def test_values_of_other_types_do_no_harm(structured: Any, given: Any) -> None:
    assert all(isinstance(line, str) for line in diff_of(Detail(given, "x", structured)))
