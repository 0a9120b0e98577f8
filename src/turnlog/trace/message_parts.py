"""What was said in a message, in the parts of the GenAI conventions."""

from collections.abc import Iterator
from typing import Any

from turnlog.conversation.messages import Message
from turnlog.conversation.session import Session
from turnlog.format.blocks import Block, ServerToolUseBlock, TextBlock, ThinkingBlock, ToolUseBlock
from turnlog.format.entries import Assistant
from turnlog.format.fields import given

Part = dict[str, Any]


def text_of_parts(parts: list[Part]) -> str:
    """The text among some parts."""
    return "\n".join(part["content"] for part in parts if part["type"] == "text")


def parts_of(entries: list[Assistant]) -> list[Part]:
    """The parts of a message, from all its lines."""
    parts: list[Part] = []
    for entry in entries:
        content = entry.content
        blocks = [TextBlock(text=content)] if isinstance(content, str) else content
        parts += [part for block in blocks for part in _part(block)]
    return parts


def entries_of(session: Session, message: Message) -> list[Assistant]:
    """The lines of a message."""
    return [each for each in session.entries(message.nodes) if isinstance(each, Assistant)]


def has_text(message: Message) -> bool:
    """Whether a message says something, and does not only call tools."""
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
