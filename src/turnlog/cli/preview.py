"""Preview an entry in one line; secrets are masked before the text is truncated."""

import json
from collections.abc import Iterable
from typing import Any

from turnlog.cli.terminal import masked_start, masked_value
from turnlog.format.blocks import (
    Block,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownPart,
)
from turnlog.format.entries import Attachment, ChainEntry, Entry, MessageEntry, Progress, Unknown
from turnlog.format.fields import given
from turnlog.format.json_values import is_object

TYPICAL_INPUTS = (
    "command",
    "file_path",
    "pattern",
    "query",
    "url",
    "description",
    "subject",
    "prompt",
)


def preview(entry: Entry, room: int) -> str:
    """Return a one-line preview of an entry; empty if it has no text of its own."""
    match entry:
        case MessageEntry():
            content = entry.content
            return _text(content, room) if isinstance(content, str) else _joined(content, room)
        case Attachment():
            fields = given(entry.attachment) or {}
            names = "filename", "prompt", "command", "hookName", "stdout", "content"
            return _first(fields, names, room)
        case Progress():
            data = given(entry.data)
            fields = {
                name: getattr(data, name, None) for name in ("command", "output", "prompt", "query")
            }
            return _first(fields, fields, room)
        case Unknown():
            return _text(json.dumps(masked_value(entry.fields), ensure_ascii=False), room)
        case _:
            return _state(entry, room)


def _joined(blocks: Iterable[Block], room: int) -> str:
    """Return the previews of blocks until the line is full."""
    line = ""
    for block in blocks:
        line += ("  " if line else "") + _block(block, room)
        if len(line) > room:
            break
    return line


def _block(block: Block, room: int) -> str:
    match block:
        case TextBlock():
            return _text(given(block.text), room)
        case ThinkingBlock():
            return f"(thinking) {_text(given(block.thinking), room)}"
        case ToolUseBlock():
            fields = given(block.input)
            about = _first(fields, TYPICAL_INPUTS, room) if is_object(fields) else ""
            return f"{_text(given(block.name), room)}: {about}"
        case ToolResultBlock():
            return f"{'error' if given(block.is_error) else 'result'}: {_result(block, room)}"
        case UnknownPart():
            return _text(json.dumps(masked_value(block.value), ensure_ascii=False), room)
        case _:
            return f"({block.__struct_config__.tag})"


def _result(block: ToolResultBlock, room: int) -> str:
    content = given(block.content)
    return _joined(content, room) if isinstance(content, list) else _text(content, room)


def _state(entry: Entry, room: int) -> str:
    """Return the first text among an entry's own fields."""
    skipped = {*ChainEntry.__struct_fields__, "subtype", "message_id", "level"}
    own = [name for name in entry.__struct_fields__ if name not in skipped]
    fields = {name: getattr(entry, name) for name in own}
    return _first(fields, fields, room)


def _first(fields: dict[str, Any], names: Iterable[str], room: int) -> str:
    found = (fields.get(name) for name in names)
    return next((_text(value, room) for value in found if value and isinstance(value, str)), "")


def _text(value: object, room: int) -> str:
    return masked_start(value, max(room, 1)) if isinstance(value, str) else ""
