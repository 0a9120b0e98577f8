"""WebSearch: the tool offered to the API, and results from its answer."""

from typing import Any

from support.build import text
from support.tool_calls import Calls

PAGES = [{"type": "web_search_result", "title": "T", "url": "https://t.example/", "page_age": None}]


def answering(calls: Calls, *blocks: dict[str, Any]) -> list[dict[str, Any]]:
    """Let a search give these blocks; the tools that it is offered are noted."""
    offered: list[dict[str, Any]] = []

    async def ask(prompt: str, tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
        assert "turnlog" in prompt
        offered.extend(tools)
        return list(blocks)

    calls.workspace.ask = ask
    return offered


def found(content: Any) -> dict[str, Any]:
    return {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": content}


def test_pages_and_text_come_back(calls: Calls) -> None:
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search"}
    offered = answering(calls, use, found(PAGES), text("It is a tool."))
    outcome = calls.run("WebSearch", query="turnlog", blocked_domains=["bad.example"])
    links = [{"title": "T", "url": "https://t.example/"}]
    assert outcome.data["results"] == [
        {"tool_use_id": "srvtoolu_1", "content": links},
        "It is a tool.",
    ]
    assert '"https://t.example/"' in str(outcome.content)
    assert str(outcome.content).endswith("It is a tool.")
    [tool] = offered
    assert (tool["type"], tool["name"]) == ("web_search_20250305", "web_search")
    assert tool["blocked_domains"] == ["bad.example"]


def test_a_search_that_failed_and_one_without_result_are_told(calls: Calls) -> None:
    error = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    answering(calls, found(error))
    assert "max_uses_exceeded" in calls.text("WebSearch", query="turnlog")
    answering(calls)
    assert "Nothing was found" in calls.text("WebSearch", query="turnlog")


def test_domains_are_either_allowed_or_blocked(calls: Calls) -> None:
    answering(calls)
    both = {"allowed_domains": ["a.example"], "blocked_domains": ["b.example"]}
    assert "together" in calls.refusal("WebSearch", query="turnlog", **both)
