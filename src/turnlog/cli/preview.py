"""One line of text that tells what an entry is about, masked before it is cut."""

import json
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
from turnlog.format.values import is_object

ENOUGH = 400
"""Characters that fill any line of a terminal."""
TELLING = ("command", "file_path", "pattern", "query", "url", "description", "subject", "prompt")


def preview(entry: Entry) -> str:
    """What an entry is about, in a few words; empty where its kind says it all."""
    match entry:
        case MessageEntry():
            content = entry.content
            return _text(content) if isinstance(content, str) else "  ".join(map(_block, content))
        case Attachment():
            held = given(entry.attachment) or {}
            return _first(held, "filename", "prompt", "command", "hookName", "stdout", "content")
        case Progress():
            held = given(entry.data)
            fields = {
                name: getattr(held, name, None) for name in ("command", "output", "prompt", "query")
            }
            return _first(fields, *fields)
        case Unknown():
            return _text(json.dumps(masked_value(entry.fields), ensure_ascii=False))
        case _:
            return _state(entry)


def _block(block: Block) -> str:
    match block:
        case TextBlock():
            return _text(given(block.text))
        case ThinkingBlock():
            return f"(thinking) {_text(given(block.thinking))}"
        case ToolUseBlock():
            held = given(block.input)
            about = _first(held, *TELLING) if is_object(held) else ""
            return f"{given(block.name)}: {about}"
        case ToolResultBlock():
            return f"{'error' if given(block.is_error) else 'result'}: {_result(block)}"
        case UnknownPart():
            return _text(json.dumps(masked_value(block.value), ensure_ascii=False))
        case _:
            return f"({block.__struct_config__.tag})"


def _result(block: ToolResultBlock) -> str:
    content = given(block.content)
    return "  ".join(map(_block, content)) if isinstance(content, list) else _text(content)


def _state(entry: Entry) -> str:
    """The first text among an entry's own fields."""
    skipped = {*ChainEntry.__struct_fields__, "subtype", "message_id", "level"}
    own = [name for name in entry.__struct_fields__ if name not in skipped]
    fields = {name: getattr(entry, name) for name in own}
    return _first(fields, *fields)


def _first(fields: dict[str, Any], *names: str) -> str:
    found = (fields.get(name) for name in names)
    return next((_text(value) for value in found if value and isinstance(value, str)), "")


def _text(value: object) -> str:
    return masked_start(value, ENOUGH) if isinstance(value, str) else ""
