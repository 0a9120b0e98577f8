"""Read prompts from JSON lines written by a program."""

import json
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

from turnlog.agent.loop.lifecycle_hooks import Prompt
from turnlog.agent.workspace.image_blocks import block_of
from turnlog.errors import UsageError
from turnlog.format.json_values import Fields, is_array, is_object, parse_json
from turnlog.secrets import mask_start


async def read_prompts(lines: AsyncIterable[str]) -> AsyncIterator[Prompt]:
    """Yield the prompts in JSON lines of the form `{"type": "user", "message": …}`."""
    async for line in lines:
        if line.strip():
            prompt = _read_line(line)
            if prompt is not None:
                yield prompt


def _read_line(line: str) -> Prompt | None:
    try:
        value: Any = parse_json(line)
    except ValueError as error:
        raise UsageError(
            f"a line of the input is not JSON: {mask_start(line.strip(), 80)}"
        ) from error
    return prompt_in(value) if is_object(value) and value.get("type") == "user" else None


def prompt_in(value: Fields) -> Prompt:
    """Return the prompt in a message of a program."""
    message = value.get("message")
    content = message.get("content") if is_object(message) else None
    if isinstance(content, str):
        return content
    if is_array(content) and all(map(_is_block, content)):
        return [_fitted(block) for block in content]
    shown = mask_start(json.dumps(value, ensure_ascii=False), 80)
    raise UsageError(f"a line of the input has no content: {shown}")


def _is_block(block: object) -> bool:
    """Return whether a value is a block; unknown types pass, and the API validates them."""
    if not is_object(block) or not isinstance(block.get("type"), str):
        return False
    return block["type"] != "text" or isinstance(block.get("text"), str)


def _fitted(block: Fields) -> Fields:
    """Return a prompt's block; images are resized to what the API accepts."""
    source = block.get("source") if block["type"] == "image" else None
    if not is_object(source) or source.get("type") != "base64":
        return block
    return block_of(str(source.get("data")), "[an image that cannot be shown]")
