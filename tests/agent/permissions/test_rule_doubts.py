"""Rules that cannot match, or that others override."""

from pathlib import Path

import pytest

from turnlog.agent.chat.rule_doubts import RuleNames, rule_doubts
from turnlog.agent.permissions import ApprovalMode, Policy, parse_rule

KNOWN = RuleNames({"Bash", "Custom"}, ["shop"], ["clerk"], ["deploy"])


def doubts(root: Path, **rules: list[str]) -> list[str]:
    deny, ask, allow = (
        tuple(parse_rule(rule, root, "here") for rule in rules.get(kind, []))
        for kind in ("deny", "ask", "allow")
    )
    policy = Policy(deny, ask, allow, ApprovalMode.DEFAULT, root, (root,))
    return list(rule_doubts(policy, KNOWN))


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("Bsh(ls)", "there is no tool Bsh"),
        ("mcp__nosuch__add", "no MCP server nosuch is set up"),
        ("WebFetch(example.com)", "it needs a host: WebFetch(domain:example.com)"),
        ("Agent(nobody)", "there is no agent nobody"),
        ("Skill(nothing)", "there is no skill nothing"),
        ("Read(/etc/passwd)", "a path from the root is written //etc/passwd"),
    ],
)
def test_a_rule_that_matches_nothing_is_named(tmp_path: Path, rule: str, why: str) -> None:
    (doubt,) = doubts(tmp_path, deny=[rule])
    assert doubt.startswith(f"here: deny {rule} has no effect: ")
    assert why in doubt


@pytest.mark.parametrize(
    "rule",
    [
        *("Bash", "Custom", "Bash(ls:*)", "Task(clerk)", "Agent(*)", "mcp__shop", "mcp__shop__add"),
        *(
            "mcp__*",
            "WebFetch(domain:x.org)",
            "Read(//etc/passwd)",
            "Read(/src/**)",
            "Skill(deploy)",
        ),
        *("Skill(deploy)", "Edit(/**/x)", "Read(~/.ssh/**)", "TodoWrite", "ReadMcpResourceTool"),
    ],
)
def test_a_rule_that_may_match_is_not_named(tmp_path: Path, rule: str) -> None:
    assert doubts(tmp_path, deny=[rule]) == []


def test_a_rule_that_another_overrides_is_named(tmp_path: Path) -> None:
    found = doubts(
        tmp_path, deny=["Bash"], ask=["WebSearch"], allow=["Bash(ls)", "WebSearch", "Read"]
    )
    assert [each.partition(" has")[0] for each in found] == [
        "here: allow Bash(ls)",
        "here: allow WebSearch",
    ]
