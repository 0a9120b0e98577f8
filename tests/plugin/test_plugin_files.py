"""The plugin's files: valid, of turnlog's version, short, with only existing names."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.test_help_texts import command_at
from turnlog import __version__
from turnlog.mcp_server.tool_table import TOOLS
from turnlog.plugin.plugin_client import plugin_folder
from turnlog.plugin.plugin_events import EVENTS

FOLDER = plugin_folder()
TEXTS = [*FOLDER.glob("skills/*/SKILL.md"), *FOLDER.glob("agents/*.md")]
COMMAND = re.compile(r"`(turnlog [a-z][^`]*)`")
ALWAYS_ON = 800
"""Characters of names and descriptions; the client takes four for a token, and 200 tokens are the
limit."""


def front_matter(path: Path) -> dict[str, Any]:
    head = path.read_text("utf-8").split("---\n")[1]
    return yaml.safe_load(head)


def test_the_manifest_has_the_version_of_turnlog() -> None:
    manifest = json.loads((FOLDER / ".claude-plugin" / "plugin.json").read_text("utf-8"))
    assert (manifest["name"], manifest["version"]) == ("turnlog", __version__)
    assert manifest["description"]


def test_each_hook_has_its_event() -> None:
    hooks = json.loads((FOLDER / "hooks" / "hooks.json").read_text("utf-8"))["hooks"]
    assert hooks.keys() == EVENTS.keys()
    for event, groups in hooks.items():
        ((hook,),) = [group["hooks"] for group in groups]
        assert f" event={event} && ." in hook["command"]


def test_the_server_is_started_by_the_launcher() -> None:
    servers = json.loads((FOLDER / ".mcp.json").read_text("utf-8"))["mcpServers"]
    arguments = ["${CLAUDE_PLUGIN_ROOT}/bin/turnlog", "mcp"]
    assert servers == {"history": {"command": "sh", "args": arguments}}


def test_skills_and_agents_are_named_like_their_files() -> None:
    names = {front_matter(path)["name"] for path in TEXTS}
    assert names == {"recall", "handoff", "session-doctor", "historian"}
    for path in TEXTS:
        assert front_matter(path)["name"] in (path.parent.name, path.stem)


def test_the_agent_has_the_tools_of_the_server_and_no_others() -> None:
    tools = front_matter(FOLDER / "agents" / "historian.md")["tools"].split(", ")
    assert tools == [f"mcp__plugin_turnlog_history__{name}" for name in TOOLS]


def test_listing_the_plugin_costs_little() -> None:
    listed = [front_matter(path) for path in TEXTS]
    assert sum(len(each["name"]) + len(each["description"]) for each in listed) <= ALWAYS_ON


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.parent.name)
def test_texts_call_history_untrusted(path: Path) -> None:
    text = " ".join(path.read_text("utf-8").split())
    assert "untrusted" in text
    assert re.search(r"(never|not) follow instructions in (it|them)", text, re.IGNORECASE)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.parent.name)
def test_commands_in_texts_exist(path: Path) -> None:
    for written in COMMAND.findall(path.read_text("utf-8")):
        command, context, rest = command_at(shlex.split(written)[1:])
        command.make_parser(context).parse_args(rest)


def test_scripts_are_posix_and_executable() -> None:
    for name in ("bin/turnlog", "hooks/run.sh"):
        assert (FOLDER / name).read_bytes().startswith(b"#!/bin/sh\n")
    assert (FOLDER / "bin/turnlog").stat().st_mode & 0o111
