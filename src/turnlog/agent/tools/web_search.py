"""WebSearch: let the Messages API search the web, in a separate request."""

import json
import time
from typing import Annotated, Any

from msgspec import Meta

from turnlog.agent.workspace.access import Uses
from turnlog.agent.workspace.inputs import Input, reader_of, schema_of
from turnlog.agent.workspace.tool import Grant, Output, Tool, ToolError, ToolOutcome
from turnlog.agent.workspace.workspace import Workspace
from turnlog.format.json_values import Fields, is_array, is_object

SEARCHES = 8
"""Maximum number of searches per call."""

DESCRIPTION = """\
Search the web for what is newer than your knowledge. Titles and addresses of pages come back, \
with a summary. allowed_domains and blocked_domains narrow it down. Name the sources you use."""


class WebSearchInput(Input, frozen=True):
    """Input of WebSearch."""

    query: Annotated[str, Meta(min_length=2, description="What to search for")]
    allowed_domains: Annotated[
        list[str] | None, Meta(description="Only pages on these domains")
    ] = None
    blocked_domains: Annotated[list[str] | None, Meta(description="No pages on these domains")] = (
        None
    )


def touches(given: WebSearchInput, workspace: Workspace) -> list[Uses]:
    return [Uses()]


async def run(
    given: WebSearchInput, workspace: Workspace, output: Output, grant: Grant
) -> ToolOutcome:
    if workspace.ask is None:
        raise ToolError("Web search is not available here")
    if given.allowed_domains and given.blocked_domains:
        raise ToolError("allowed_domains and blocked_domains cannot be given together")
    started = time.monotonic()
    question = f"Search the web, and sum up what you find. Query: {given.query}"
    blocks = await workspace.ask(question, [server_tool(given)])
    results = [found for block in blocks if (found := _found(block))]
    seconds = time.monotonic() - started
    data = {"query": given.query, "results": results, "durationSeconds": seconds}
    return ToolOutcome(_result_text(given.query, results), data)


def server_tool(given: WebSearchInput) -> Fields:
    """Return the definition of the API's server-side search tool."""
    tool: Fields = {"type": "web_search_20250305", "name": "web_search", "max_uses": SEARCHES}
    if given.allowed_domains:
        tool["allowed_domains"] = given.allowed_domains
    if given.blocked_domains:
        tool["blocked_domains"] = given.blocked_domains
    return tool


def _found(block: Fields) -> Any:
    """Return the pages or the text in a block of the answer; None for other blocks."""
    if block.get("type") == "text":
        return block["text"].strip()
    if block.get("type") != "web_search_tool_result":
        return None
    pages = block.get("content")
    if not is_array(pages):
        code = pages.get("error_code") if is_object(pages) else "unknown"
        return f"The search failed: {code}"
    links = [{"title": page.get("title"), "url": page.get("url")} for page in pages]
    return {"tool_use_id": block.get("tool_use_id"), "content": links}


def _result_text(query: str, results: list[Any]) -> str:
    parts = [f'Web search results for query: "{query}"']
    for found in results:
        if isinstance(found, str):
            parts.append(found)
        else:
            parts.append(f"Links: {json.dumps(found['content'], ensure_ascii=False)}")
    return "\n\n".join(parts) if results else f'Nothing was found for "{query}"'


WEB_SEARCH = Tool(
    "WebSearch",
    DESCRIPTION,
    schema_of(WebSearchInput),
    reader_of(WebSearchInput),
    touches,
    run,
    is_parallel=True,
)
