"""Convert MCP tool results to content blocks of the Messages API."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from turnlog.agent.workspace.image_blocks import block_of
from turnlog.agent.workspace.spilled_results import fit_blocks
from turnlog.agent.workspace.tool import ToolOutcome
from turnlog.format.json_values import Fields

if TYPE_CHECKING:
    from mcp.types import (
        BlobResourceContents,
        CallToolResult,
        ContentBlock,
        TextResourceContents,
    )

    ResourceContents = TextResourceContents | BlobResourceContents


def outcome_of(result: "CallToolResult", folder: Path) -> ToolOutcome:
    """Return the outcome of a call."""
    blocks = [content_block(part) for part in result.content]
    if not blocks and result.structured_content is not None:
        blocks = [_text(json.dumps(result.structured_content, ensure_ascii=False))]
    fitted = fit_blocks(blocks or [_text("(no content)")], folder)
    if result.is_error:
        text = "\n".join(block.get("text", "[image]") for block in fitted)
        return ToolOutcome(text, f"Error: {text}", is_error=True)
    return ToolOutcome(fitted, fitted)


def content_block(part: "ContentBlock") -> Fields:
    """Return the content of a result or of a prompt's message as a block."""
    from mcp.types import AudioContent, EmbeddedResource, ImageContent, TextContent

    match part:
        case TextContent():
            return _text(part.text)
        case ImageContent():
            return block_of(part.data, "[image: cannot be shown]")
        case AudioContent():
            return _text(f"[audio, {part.mime_type}: cannot be shown]")
        case EmbeddedResource():
            return _resource(part.resource)
        case _:
            return _text(f"[resource {part.name}: {part.uri}]")


def resource_block(resource: "ResourceContents") -> Fields:
    """Return the content of a resource as a block."""
    from mcp.types import TextResourceContents

    is_text = isinstance(resource, TextResourceContents)
    return _text(resource.text) if is_text else _resource(resource)


def _resource(resource: "ResourceContents") -> Fields:
    from mcp.types import TextResourceContents

    if isinstance(resource, TextResourceContents):
        return _text(f"[resource {resource.uri}]\n{resource.text}")
    return block_of(resource.blob, f"[resource {resource.uri}, {resource.mime_type}]")


def _text(text: str) -> Fields:
    return {"type": "text", "text": text}
