"""Hooks limited to some calls by a rule."""

from pathlib import Path

import pytest

from turnlog.agent.permissions.hook_filter import rule_filter
from turnlog.agent.tools.toolbox import TOOLS
from turnlog.agent.workspace.workspace import Workspace
from turnlog.format.json_values import Fields


def bash(command: str) -> Fields:
    return {"tool_name": "Bash", "tool_input": {"command": command}}


def edit(path: str) -> Fields:
    taken = {"file_path": path, "old_string": "a", "new_string": "b"}
    return {"tool_name": "Edit", "tool_input": taken}


@pytest.mark.parametrize(
    ("rule", "call", "expected"),
    [
        ("Bash(git *)", bash("FOO=bar git push"), True),
        ("Bash(git *)", bash("npm test && git push"), True),
        ("Bash(git *)", bash("npm test"), False),
        ("Bash(rm *)", bash("echo $(rm -rf /)"), True),
        ("Bash(rm *)", bash("echo $(date)"), False),
        ("Bash(git push *)", bash("echo $(date)"), True),
        ("Bash(git push:*)", bash("echo `date`"), True),
        ("Bash(git push *)", bash("$TOOL push"), True),
        ("Bash(git push *)", bash("echo it costs $5"), False),
        ("Edit(*.ts)", edit("/shop/a.ts"), True),
        ("Edit(*.ts)", edit("/shop/a.py"), False),
        ("Bash", edit("/shop/a.py"), False),
        ("not a rule (", bash("ls"), True),
        ("Bash(ls *)", {"tool_name": "mcp__a__b", "tool_input": {}}, True),
        ("Bash(ls *)", {"tool_name": "Bash", "tool_input": {}}, True),
    ],
)
def test_a_rule_says_which_calls_a_hook_is_meant_for(
    rule: str, call: Fields, expected: bool
) -> None:
    shop = Path("/shop")
    applies = rule_filter(TOOLS, Workspace(shop, shop / "session", shop))
    assert applies(rule, call) is expected
