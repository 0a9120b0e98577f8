"""The table of tools, as it is sent to the Messages API."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from support.tool_calls import Calls
from turnlog.agent.tools.toolbox import TOOLS, definitions, toolbox
from turnlog.agent.workspace.access import Access, Fetches, Reads, Runs, Uses, Writes
from turnlog.format.tools import INPUTS, KNOWN_TOOLS


def test_definitions_are_sound_and_short() -> None:
    for definition in definitions(TOOLS.values()):
        assert definition.keys() == {"name", "description", "input_schema"}
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", definition["name"])
        assert len(definition["description"]) < 800
        Draft202012Validator.check_schema(definition["input_schema"])
        assert definition["input_schema"]["type"] == "object"
        assert "$" not in str(definition["input_schema"])


@pytest.mark.parametrize("name", TOOLS)
def test_inputs_are_named_as_the_format_knows_them(name: str) -> None:
    assert name in KNOWN_TOOLS
    if kind := INPUTS.get(name):
        assert TOOLS[name].schema["properties"].keys() == set(kind.__struct_encode_fields__)


def test_only_tools_that_change_nothing_run_side_by_side() -> None:
    assert {name for name, tool in TOOLS.items() if tool.is_parallel} == {
        "BashOutput",
        "Glob",
        "Grep",
        "Read",
        "TaskGet",
        "TaskList",
        "TaskOutput",
        "WebFetch",
        "WebSearch",
    }


def test_further_tools_take_their_place_beside_the_others() -> None:
    tool = TOOLS["Read"]
    assert list(toolbox(tool)) == list(TOOLS)


@pytest.mark.parametrize(
    ("tool", "given", "access"),
    [
        ("Bash", {"command": "ls"}, Runs("ls")),
        ("Read", {"file_path": "/a/../b"}, Reads(Path("/b"))),
        ("Write", {"file_path": "/x", "content": ""}, Writes(Path("/x"))),
        ("Grep", {"pattern": "x", "path": "/src"}, Reads(Path("/src"))),
        ("Glob", {"pattern": "/etc/*"}, Reads(Path("/etc"))),
        ("WebFetch", {"url": "https://x/", "prompt": ""}, Fetches("https://x/")),
        ("KillShell", {"shell_id": "b1"}, Uses()),
    ],
)
def test_what_a_call_would_touch(
    calls: Calls, tool: str, given: dict[str, str], access: Access
) -> None:
    value = TOOLS[tool].read(given)
    assert list(TOOLS[tool].touches(value, calls.workspace)) == [access]


def test_paths_start_at_the_current_directory(calls: Calls) -> None:
    value = TOOLS["Read"].read({"file_path": "sub/../a.txt"})
    [access] = TOOLS["Read"].touches(value, calls.workspace)
    assert access == Reads(calls.root / "a.txt")


@pytest.mark.parametrize("path", ["a\0b", "a\ud800b"])
def test_a_path_that_no_file_can_have_is_refused(calls: Calls, path: str) -> None:
    assert "InputValidationError" in calls.refusal("Read", file_path=path)


def test_numbers_and_flags_as_text_are_understood(calls: Calls) -> None:
    calls.file("a.txt", "1\n2\n3\n")
    assert calls.text("Read", file_path="a.txt", offset="2", limit="1").startswith("     2→2\n")


def test_what_tools_need_is_loaded_when_they_are_called() -> None:
    modules = "turnlog.agent.tools.toolbox, turnlog.agent.mcp.connections"
    code = f"import sys, {modules}; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in ran.stdout.split()}
    assert not loaded & {"httpx2", "mcp", "bs4", "markdownify", "anthropic", "pydantic"}
