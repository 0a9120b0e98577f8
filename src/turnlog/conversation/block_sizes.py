"""Estimate how many tokens a block takes in a request.

The API reports tokens per request, not per block, so every number here is an estimate. Carrying
costs scale it to the recorded usage; only the ratio between blocks matters there.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from turnlog.format.blocks import (
    Block,
    DocumentBlock,
    ImageBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownPart,
)
from turnlog.format.fields import given
from turnlog.format.image_size import pixels_of
from turnlog.format.json_values import is_array, is_object

BYTES_PER_TOKEN = 3.5
"""UTF-8 bytes of text per token; documented for English, and close for code."""
BYTES_PER_DOCUMENT_TOKEN = 30
"""Bytes of a PDF file per token, for pages of 60 kB and 2,000 tokens."""
PIXELS_PER_TOKEN = 750
"""Pixels of an image per token (documented)."""
LONGEST_EDGE = 1568
"""Maximum pixels of the longer edge; the API scales larger images down to it (documented)."""
MOST_IMAGE_TOKENS = 1600
"""Tokens of the largest image after scaling; assumed for images with an unreadable header."""
ENCRYPTION = 0.75
"""Bytes per character of a base64 signature, which holds the thinking in encrypted form."""


class BlockSize(NamedTuple):
    """The size of a block as it is sent."""

    bytes: int
    tokens: float
    """An estimate."""

    def __add__(self, other: "BlockSize") -> "BlockSize":  # pyright: ignore[reportIncompatibleMethodOverride]
        return BlockSize(self.bytes + other.bytes, self.tokens + other.tokens)


NOTHING = BlockSize(0, 0.0)


def size_of_block(block: Block) -> BlockSize:
    """Return the size of a content block; blocks inside a result are added up."""
    measure = SIZES.get(type(block))
    return measure(block) if measure else size_of_json(block)


def size_of_text(text: str) -> BlockSize:
    """Return the size of a text.

    >>> size_of_text("a" * 70)
    BlockSize(bytes=70, tokens=20.0)
    """
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return BlockSize(size, size / BYTES_PER_TOKEN)


def size_of_json(value: Any) -> BlockSize:
    """Return the size of a value in JSON; Struct values count as the objects they are views of."""
    try:
        size = len(msgspec.json.encode(value))
    except UnicodeEncodeError:  # a lone surrogate
        size = len(json.dumps(msgspec.to_builtins(value)))
    except RecursionError:  # nested almost as deep as the decoder allows
        size = 0
    return BlockSize(size, size / BYTES_PER_TOKEN)


def size_of_image(data: str) -> BlockSize:
    """Return the size of an image in base64: tokens by its pixels, after the API scaled it."""
    size = len(data) * 3 // 4
    pixels = pixels_of(data)
    if not pixels or not all(pixels):
        return BlockSize(size, MOST_IMAGE_TOKENS)
    shrink = min(1.0, LONGEST_EDGE / max(pixels))
    tokens = pixels[0] * pixels[1] * shrink * shrink / PIXELS_PER_TOKEN
    return BlockSize(size, min(tokens, MOST_IMAGE_TOKENS))


def _source_size(block: ImageBlock | DocumentBlock) -> BlockSize:
    source = given(block.source) or {}
    data = source.get("data")
    if not isinstance(data, str):
        return size_of_json(source)
    if isinstance(block, ImageBlock):
        return size_of_image(data)
    if source.get("type") != "base64":
        return size_of_text(data)
    size = len(data) * 3 // 4
    return BlockSize(size, size / BYTES_PER_DOCUMENT_TOKEN)


def _result_size(block: ToolResultBlock) -> BlockSize:
    content = given(block.content)
    if isinstance(content, str):
        return size_of_text(content)
    if is_array(content):
        return sum(map(size_of_block, content), NOTHING)
    return size_of_json(content) if is_object(content) else NOTHING


def _thinking_size(block: ThinkingBlock) -> BlockSize:
    if text := given(block.thinking):
        return size_of_text(text)
    # Most files since 2.1.72 have only the signature, from which the API restores the thinking.
    size = int(len(given(block.signature) or "") * ENCRYPTION)
    return BlockSize(size, size / BYTES_PER_TOKEN)


SIZES: dict[type, Callable[[Any], BlockSize]] = {
    TextBlock: lambda block: size_of_text(given(block.text) or ""),
    ThinkingBlock: _thinking_size,
    RedactedThinkingBlock: lambda block: size_of_text(given(block.data) or ""),
    ToolUseBlock: lambda block: size_of_json(given(block.input)),
    ToolResultBlock: _result_size,
    ImageBlock: _source_size,
    DocumentBlock: _source_size,
    UnknownPart: lambda block: size_of_json(block.value),
}
"""The function that measures each type of block; others are measured by their JSON."""
