"""Calls and results of each tool, as rows."""

from typing import Any

import pytest

from turnlog.conversation.call_titles import TITLES, call_title
from turnlog.conversation.calls import Detail
from turnlog.render.tool_views import OUTCOMES, body_of, outcome_of

ODD: list[Any] = [None, 5, "text", [], {}, {"x": [1]}, [None, "x", {"content": 5}]]

TITLED: list[tuple[str, Any, str]] = [
    ("Bash", {"command": "ls -l", "description": "List"}, "ls -l"),
    ("Read", {"file_path": "/x.py"}, "/x.py"),
    ("Read", {"file_path": "/x.py", "offset": 10, "limit": 5}, "/x.py:10-14"),
    ("Read", {"file_path": "/x.py", "limit": 5}, "/x.py:1-5"),
    ("Read", {"file_path": "/x.py", "offset": 10}, "/x.py:10-"),
    ("Read", {"file_path": "/x.py", "offset": "10", "limit": "5"}, "/x.py"),
    ("Grep", {"pattern": "TODO"}, "TODO"),
    ("Grep", {"pattern": "TODO", "path": "/src"}, "TODO in /src"),
    ("Grep", {"pattern": "TODO", "glob": "*.py"}, "TODO in *.py"),
    ("Glob", {"pattern": "**/*.py"}, "**/*.py"),
    ("Task", {"description": "Look", "subagent_type": "Explore"}, "Look (Explore)"),
    ("Agent", {"description": "Look"}, "Look"),
    ("AskUserQuestion", {"questions": [{"question": "Which one?"}]}, "Which one?"),
    ("ExitPlanMode", {"plan": "# Fix it\n\nFirst this."}, "Fix it"),
    ("TodoWrite", {"todos": [{"content": "x"}, {"content": "y"}]}, "2 items"),
    ("Edit", {"file_path": "/x.py", "old_string": "a", "new_string": "b"}, "/x.py"),
    ("WebFetch", {"url": "https://example.org", "prompt": "sum up"}, "https://example.org"),
    ("mcp__x__y", {"n": 1, "name": "ä"}, '{"n": 1, "name": "ä"}'),
    ("mcp__x__y", {}, ""),
    ("Bash", None, ""),
]

STRUCTURED: list[tuple[str, Any, str]] = [
    ("Bash", {"backgroundTaskId": "b1"}, "in the background"),
    ("Bash", {"stdout": "a\nb"}, "2 lines"),
    ("Read", {"file": {"numLines": 7}}, "7 lines"),
    ("Read", {"type": "image"}, "image"),
    ("Read", {}, "2 lines"),
    ("Edit", {"structuredPatch": [{"lines": ["-a", "+b", "+c", " d"]}]}, "+2 -1"),
    ("MultiEdit", {"structuredPatch": [{"lines": ["-a"]}]}, "+0 -1"),
    ("Write", {"structuredPatch": [{"lines": ["+a"]}]}, "+1 -0"),
    ("Edit", {}, "2 lines"),
    ("Grep", {"numLines": 4, "numFiles": 2}, "4 lines"),
    ("Grep", {"numFiles": 2}, "2 files"),
    ("Glob", {"numFiles": 3}, "3 files"),
    ("Glob", {}, "2 lines"),
    ("Task", {"totalTokens": 12345}, "12,345 tokens"),
    ("Agent", {"status": "async_launched"}, "in the background"),
    ("Agent", {}, "2 lines"),
    ("TodoWrite", {}, ""),
    ("AskUserQuestion", {"answers": {"Which one?": "This"}}, "answered"),
    ("AskUserQuestion", {}, "2 lines"),
    ("ExitPlanMode", {"plan": "# Fix it"}, "approved"),
    ("ExitPlanMode", {}, "2 lines"),
    ("Whatever", {}, "2 lines"),
]


@pytest.mark.parametrize(("name", "given", "title"), TITLED)
def test_a_title_tells_what_was_called_for(name: str, given: Any, title: str) -> None:
    assert call_title(name, given) == title


@pytest.mark.parametrize(("name", "structured", "outcome"), STRUCTURED)
def test_an_outcome_is_a_word_or_two(name: str, structured: Any, outcome: str) -> None:
    assert outcome_of(name, Detail({}, "a\nb", structured)) == outcome


def test_every_tool_of_the_tables_occurs_here() -> None:
    assert set(TITLES) <= {name for name, _, _ in TITLED}
    assert set(OUTCOMES) <= {name for name, _, _ in STRUCTURED}


@pytest.mark.parametrize("name", ["Bash", "Whatever"])
@pytest.mark.parametrize(
    ("detail", "outcome"),
    [
        (Detail({}), "no result"),
        (Detail({}, "one line"), ""),
        (Detail({}, "x", denial="user-rejected"), "denied (user-rejected)"),
        (Detail({}, "x", is_interrupted=True), "interrupted"),
    ],
)
def test_outcomes_of_any_tool(name: str, detail: Detail, outcome: str) -> None:
    assert outcome_of(name, detail) == outcome


def test_the_body_of_an_edit_is_its_diff() -> None:
    given = {"file_path": "/x", "old_string": "a", "new_string": "b"}
    assert body_of("Edit", Detail(given, "ok")) == ("diff", ["@@ -1 +1 @@", "-a", "+b"])


def test_the_body_of_an_edit_that_failed_is_the_reason() -> None:
    given = {"file_path": "/x", "old_string": "a", "new_string": "b"}
    failed = Detail(given, "not found")
    assert body_of("Edit", failed, is_error=True) == ("text", ["not found"])
    assert outcome_of("Edit", failed, is_error=True) == ""


def test_the_body_of_questions_is_their_answers() -> None:
    data = {"answers": {"Which one?": "This", "When?": "Now, later"}}
    detail = Detail({}, "Your questions have been answered", data)
    assert body_of("AskUserQuestion", detail) == (
        "text",
        ["Which one? → This", "When? → Now, later"],
    )


def test_the_body_of_other_calls_is_what_came_back() -> None:
    assert body_of("Bash", Detail({}, "a\nb")) == ("text", ["a", "b"])
    assert body_of("Edit", Detail({}, "no such file")) == ("text", ["no such file"])
    assert body_of("Bash", Detail({})) == ("text", [])


def test_the_body_of_a_to_do_list_is_the_list() -> None:
    todos = [
        {"content": "a", "status": "completed"},
        {"content": "b", "status": "in_progress"},
        {"content": "c", "status": "pending"},
    ]
    assert body_of("TodoWrite", Detail({"todos": todos}, "ok")) == ("text", ["☑ a", "◐ b", "☐ c"])


@pytest.mark.parametrize("name", sorted(TITLES.keys() | OUTCOMES.keys() | {"NotebookEdit", "Odd"}))
def test_values_of_other_types_do_no_harm(name: str) -> None:
    fields = ("file_path", "offset", "limit", "todos", "command", "file", "numLines", "edits")
    for value in ODD:
        for held in [value, dict.fromkeys(fields, value)]:
            detail = Detail(held, "x", held)
            assert isinstance(call_title(name, detail.input), str)
            assert isinstance(outcome_of(name, detail), str)
            assert all(isinstance(line, str) for line in body_of(name, detail)[1])
