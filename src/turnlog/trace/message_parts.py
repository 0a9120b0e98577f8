"""Convert the blocks of a message to parts of the GenAI conventions."""

from collections.abc import Iterator
from typing import Any

from turnlog.conversation.messages import Message
from turnlog.conversation.session import Session
from turnlog.format.blocks import Block, ServerToolUseBlock, TextBlock, ThinkingBlock, ToolUseBlock
from turnlog.format.entries import Assistant
from turnlog.format.fields import given

Part = dict[str, Any]


def text_of_parts(parts: list[Part]) -> str:
    """Return the text parts, joined by newlines."""
    return "\n".join(part["content"] for part in parts if part["type"] == "text")


def parts_of(entries: list[Assistant]) -> list[Part]:
    """Return the parts of a message from the entries that it consists of."""
    parts: list[Part] = []
    for entry in entries:
        content = entry.content
        # Content may be a plain string instead of a list of blocks.
        blocks = [TextBlock(text=content)] if isinstance(content, str) else content
        parts += [part for block in blocks for part in _part(block)]
    return parts


def entries_of(session: Session, message: Message) -> list[Assistant]:
    """Return the entries of a message."""
    return [entry for entry in session.entries(message.nodes) if isinstance(entry, Assistant)]


def has_text(message: Message) -> bool:
    """Return whether a message contains text, not only tool calls."""
    return any("text" in node.blocks or not node.blocks for node in message.nodes)


def _part(block: Block) -> Iterator[Part]:
    match block:
        case TextBlock() if given(block.text):
            yield {"type": "text", "content": given(block.text)}
        case ThinkingBlock() if given(block.thinking):
            yield {"type": "reasoning", "content": given(block.thinking)}
        case ToolUseBlock() | ServerToolUseBlock():
            called = {"id": given(block.id), "name": given(block.name)}
            yield {"type": "tool_call", **called, "arguments": given(block.input)}
        case _:
            pass
