"""Rules about the tools of an MCP server are about that server alone."""

from pathlib import Path

import pytest

from turnlog.agent.config.agent_definitions import AgentDefinition
from turnlog.agent.mcp.connections import Connections
from turnlog.agent.permissions import ApprovalMode, Policy, VerdictKind, decide, parse_rule
from turnlog.agent.workspace.access import Uses
from turnlog.agent.workspace.tool import Tool

ROOT = Path("/shop")


def decided(tool: str, server: str | None, allow: str = "", deny: str = "") -> VerdictKind:
    allowed, denied = (
        tuple(parse_rule(text, ROOT, "test") for text in texts.split()) for texts in (allow, deny)
    )
    policy = Policy(denied, (), allowed, ApprovalMode.DEFAULT, ROOT, (ROOT,))
    return decide(tool, [Uses(server=server)], policy).kind


@pytest.mark.parametrize(
    ("server", "tool", "rule", "kind"),
    [
        ("git", "mcp__git__log", "mcp__git", VerdictKind.ALLOW),
        ("git", "mcp__git__log", "mcp__git__*", VerdictKind.ALLOW),
        ("git", "mcp__git__deep__log", "mcp__git", VerdictKind.ALLOW),
        ("git__evil", "mcp__git__evil__log", "mcp__git", VerdictKind.ASK),
        ("git__evil", "mcp__git__evil__log", "mcp__git__*", VerdictKind.ASK),
        ("git__evil", "mcp__git__evil__log", "mcp__git__e*", VerdictKind.ASK),
        ("git__evil", "mcp__git__evil__log", "mcp__git__evil", VerdictKind.ALLOW),
        ("git__evil", "mcp__git__evil__log", "mcp__git__evil__*", VerdictKind.ALLOW),
        ("git_", "mcp__git___log", "mcp__git", VerdictKind.ASK),
        (None, "mcp__git__evil__log", "mcp__git", VerdictKind.ASK),
    ],
)
def test_a_rule_allows_the_tools_of_the_server_it_names(
    server: str | None, tool: str, rule: str, kind: VerdictKind
) -> None:
    assert decided(tool, server, allow=rule) is kind


def test_a_rule_denies_the_tools_of_the_server_it_names() -> None:
    assert decided("mcp__git__evil__log", "git__evil", deny="mcp__git__evil") is VerdictKind.DENY
    assert decided("mcp__git__deep__log", "git", deny="mcp__git") is VerdictKind.DENY
    assert decided("mcp__git__evil__log", None, deny="mcp__git") is VerdictKind.DENY
    assert decided("mcp__git__evil__log", "git__evil", deny="mcp__*") is VerdictKind.DENY


def test_an_agent_has_the_tools_of_the_servers_it_names() -> None:
    agent = AgentDefinition("a", "d", "p", tools=("mcp__git",))
    assert agent.may_use("mcp__git__log", "git")
    assert not agent.may_use("mcp__git__evil__log", "git__evil")


def test_no_server_takes_the_tool_of_another_by_its_name() -> None:
    def tool(server: str) -> Tool:
        return Tool("mcp__a__b__c", server, {}, dict, lambda given, place: [], None, server=server)  # type: ignore[arg-type]

    connections = Connections()
    connections._add("a", [tool("a")])
    connections._add("a__b", [tool("a__b")])
    assert [each.server for each in connections.tools] == ["a"]
    assert len(connections.problems) == 1
