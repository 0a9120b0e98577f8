"""Inputs and results of tools, typed by name and by shape."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Struct

from support.build import text
from support.strategies import fields_of, json_values, objects
from turnlog.format import tools
from turnlog.format.blocks import TextBlock
from turnlog.format.tools import (
    INPUTS,
    KNOWN_TOOLS,
    RESULTS,
    SHAPES,
    ContentResult,
    ErrorResult,
    UnknownArguments,
    UnknownResult,
    input_of,
    result_of,
)

EXAMPLES: dict[str, tuple[dict[str, Any], type[Struct]]] = {
    "Bash": ({"stdout": "a", "stderr": "", "interrupted": False}, tools.BashResult),
    "BashOutput": ({"shellId": "1", "stdout": "", "stderr": ""}, tools.BashOutputResult),
    "Read": ({"type": "text", "file": {"filePath": "/a", "content": "x"}}, tools.ReadResult),
    "Edit": ({"filePath": "/a", "oldString": "a", "newString": "b"}, tools.EditResult),
    "MultiEdit": ({"filePath": "/a", "edits": []}, tools.MultiEditResult),
    "Write": ({"type": "create", "filePath": "/a", "content": "x"}, tools.WriteResult),
    "Grep": ({"mode": "content", "filenames": [], "numFiles": 0}, tools.GrepResult),
    "Glob": ({"filenames": ["/a"], "truncated": False}, tools.GlobResult),
    "Task": ({"totalTokens": 9, "totalToolUseCount": 1, "content": []}, tools.AgentResult),
    "Agent": ({"status": "async_launched", "agentId": "a1"}, tools.AgentResult),
    "TodoWrite": ({"oldTodos": [], "newTodos": []}, tools.TodoWriteResult),
    "TaskCreate": ({"task": {"id": "1"}}, tools.TaskCreateResult),
    "TaskGet": ({"task": None}, tools.TaskCreateResult),
    "TaskList": ({"tasks": [{"id": "1", "blockedBy": []}]}, tools.TaskListResult),
    "TaskUpdate": ({"success": True, "taskId": "1", "updatedFields": []}, tools.TaskUpdateResult),
    "TaskOutput": ({"retrieval_status": "success", "task": {}}, tools.TaskOutputResult),
    "WebSearch": ({"query": "q", "results": []}, tools.WebSearchResult),
    "WebFetch": ({"url": "u", "code": 200, "codeText": "OK"}, tools.WebFetchResult),
}


@pytest.mark.parametrize("tool", INPUTS)
def test_the_input_of_each_known_tool_is_typed(tool: str) -> None:
    kind = INPUTS[tool]
    assert type(input_of(tool, {})) is kind
    first = msgspec.structs.fields(kind)[0]
    assert getattr(input_of(tool, {first.encode_name: None}), first.name) is None


@given(st.sampled_from(sorted(INPUTS)), json_values | objects)
def test_no_input_raises(tool: str, value: Any) -> None:
    assert type(input_of(tool, value)) in (INPUTS[tool], UnknownArguments)


def test_names_of_inputs_that_are_no_words_have_one() -> None:
    found = input_of("Grep", {"pattern": "x", "-i": True, "-A": 3, "-C": 1, "-n": False})
    assert found == tools.GrepArguments(
        pattern="x", ignore_case=True, lines_after=3, lines_around=1, line_numbers=False
    )


def test_the_edits_of_a_multi_edit_are_typed() -> None:
    found = input_of("MultiEdit", {"file_path": "/a", "edits": [{"old_string": "a"}]})
    assert isinstance(found, tools.MultiEditArguments)
    assert found.edits == [tools.EditArguments(old_string="a")]


@pytest.mark.parametrize("value", ["{", None, 5, [1]])
def test_an_input_that_is_no_object_is_kept(value: Any) -> None:
    assert input_of("Bash", value) == UnknownArguments(value)


@pytest.mark.parametrize("tool", ["mcp__shop__order", "Hologram", "", None])
def test_the_input_of_an_unknown_tool_is_kept(tool: str | None) -> None:
    assert input_of(tool, {"a": 1}) == UnknownArguments({"a": 1})


def test_an_input_of_another_type_leaves_the_other_fields() -> None:
    found = input_of("Bash", {"command": "ls", "timeout": "soon"})
    assert found == tools.BashArguments(command="ls", timeout=UNSET)


@pytest.mark.parametrize("tool", EXAMPLES)
def test_a_result_is_typed_by_the_name_of_its_tool(tool: str) -> None:
    value, kind = EXAMPLES[tool]
    assert type(result_of(value, tool)) is kind
    assert type(result_of({}, tool)) is kind


@pytest.mark.parametrize("tool", EXAMPLES)
def test_a_result_without_a_name_is_typed_by_its_shape(tool: str) -> None:
    value, kind = EXAMPLES[tool]
    assert type(result_of(value)) is kind
    assert type(result_of(value, "Hologram")) is kind


def test_every_typed_result_is_among_the_examples() -> None:
    assert RESULTS.keys() == EXAMPLES.keys()
    assert {kind for _, kind in SHAPES} == set(RESULTS.values())


def test_every_tool_with_a_type_is_known() -> None:
    assert INPUTS.keys() | RESULTS.keys() <= KNOWN_TOOLS


@pytest.mark.parametrize("tool", [None, "Bash", "Hologram"])
def test_a_string_is_an_error(tool: str | None) -> None:
    assert result_of("Error: no", tool) == ErrorResult("Error: no")


@pytest.mark.parametrize("tool", [None, "Bash", "mcp__shop__order"])
def test_a_list_is_content(tool: str | None) -> None:
    assert result_of([text("a")], tool) == ContentResult([text("a")])


@pytest.mark.parametrize("value", [None, 5, True, {}, {"glitter": 1}])
def test_a_result_of_no_known_shape_is_kept(value: Any) -> None:
    assert result_of(value) == UnknownResult(value)


def test_values_of_a_result_are_typed() -> None:
    found = result_of(EXAMPLES["Read"][0])
    assert isinstance(found, tools.ReadResult)
    assert found.file == tools.ReadFile(file_path="/a", content="x")
    answer = result_of({"agentId": "a1", "content": [text("done")], "totalTokens": "many"})
    assert isinstance(answer, tools.AgentResult)
    assert (answer.content, answer.total_tokens) == ([TextBlock(text="done")], UNSET)


@given(st.sampled_from(sorted(RESULTS)), json_values | objects)
def test_no_result_raises(tool: str, value: Any) -> None:
    assert isinstance(result_of(value, tool), Struct)


def missing(found: Struct) -> set[str]:
    fields = msgspec.structs.fields(type(found))
    return {field.encode_name for field in fields if getattr(found, field.name) is UNSET}


def named(kind: type[Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}


@given(st.data())
def test_every_field_that_fits_is_taken_over(data: st.DataObject) -> None:
    tool = data.draw(st.sampled_from(sorted(INPUTS)))
    value = data.draw(fields_of(INPUTS[tool]))
    assert missing(input_of(tool, value)) == named(INPUTS[tool]) - value.keys()
    tool = data.draw(st.sampled_from(sorted(RESULTS)))
    value = data.draw(fields_of(RESULTS[tool]))
    assert missing(result_of(value, tool)) == named(RESULTS[tool]) - value.keys()
