"""Find the images in prompts and results that a page may show."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from turnlog.conversation.calls import Call
from turnlog.conversation.session import Session
from turnlog.format.blocks import Block, ImageBlock, ToolResultBlock
from turnlog.format.entries import MessageEntry, User
from turnlog.format.fields import given
from turnlog.format.image_size import image_type

# Bitmaps only: an SVG is a document that may contain scripts and references to other hosts.
SHOWN_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")
MARK = "(image)"
"""Placeholder for an image in the text of a result."""


@dataclass(frozen=True, slots=True)
class ImageData:
    """A bitmap in base64."""

    media_type: str
    data: str


def entry_images(entry: MessageEntry) -> list[ImageData]:
    """Return the images of a prompt."""
    return _images(entry.content) if isinstance(entry.content, list) else []


def result_images(session: Session, call: Call, result: str | None) -> list[ImageData]:
    """Return the images of a call's result, given its text."""
    if call.result is None or not result or MARK not in result:
        return []
    entry = session.entry(call.result)
    blocks = entry.content if isinstance(entry, User) and isinstance(entry.content, list) else []
    contents = (
        given(block.content)
        for block in blocks
        if isinstance(block, ToolResultBlock) and given(block.tool_use_id) == call.id
    )
    return [each for content in contents if isinstance(content, list) for each in _images(content)]


def _images(blocks: Iterable[Block]) -> list[ImageData]:
    sources = (given(block.source) for block in blocks if isinstance(block, ImageBlock))
    return [found for source in sources if source and (found := _image(source))]


def _image(source: dict[str, object]) -> ImageData | None:
    kind, data = source.get("media_type"), source.get("data")
    if kind not in SHOWN_TYPES or not isinstance(data, str) or not BASE64.fullmatch(data):
        return None
    # Check the content, not the label: a key file labelled image/png would appear unmasked.
    found = image_type(data)
    return ImageData(found, data) if found else None
