"""Read the prompts of an ACP client: text, images, linked files and embedded files."""

from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from acp.exceptions import RequestError
from acp.schema import (
    BlobResourceContents,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)
from msgspec import Struct

from turnlog.agent.workspace.image_blocks import block_of
from turnlog.format.json_values import Fields

UNSHOWN = "[an image that cannot be shown]"
PDF = "application/pdf"


class ClientPrompt(Struct, frozen=True):
    """A prompt as it goes to the model."""

    text: str
    """The text, with linked files as `@` mentions, so that they need Read permission."""
    images: list[Fields] = []
    context: list[Fields] = []
    """Blocks with the content of embedded files."""


def read_prompt(blocks: Sequence[Any]) -> ClientPrompt:
    """Convert content blocks to a prompt; raise `RequestError` if it is empty."""
    text = "".join(map(_text_of, blocks)).strip()
    images = [_image(each) for each in blocks if isinstance(each, ImageContentBlock)]
    embedded = [each for each in blocks if isinstance(each, EmbeddedResourceContentBlock)]
    context = [_embedded(each.resource) for each in embedded]
    if not (text or images or context):
        raise RequestError.invalid_params({"details": "the prompt is empty"})
    return ClientPrompt(text, images, context)


def _text_of(block: Any) -> str:
    match block:
        case TextContentBlock():
            return block.text
        case ResourceContentBlock():
            return f" {_mention(block.name, block.uri)} "
        case EmbeddedResourceContentBlock():
            return f" {_link(_name(block.resource.uri), block.resource.uri)} "
        case ImageContentBlock():
            return ""
        case _:
            raise RequestError.invalid_params({"details": "audio is not supported"})


def _mention(name: str, uri: str) -> str:
    path = file_of(uri)
    # Only files can be mentioned, and only if the path has no quote or line break.
    if path is None or any(char in str(path) for char in '"\n\r'):
        return _link(name, uri)
    return f'@"{path}"'


def _link(name: str, uri: str) -> str:
    return f"[{name}]({uri})"


def file_of(uri: str) -> Path | None:
    """Return the file that a URI names.

    >>> str(file_of("file:///a/b%20c.py#L3")), file_of("https://example.org/a")
    ('/a/b c.py', None)
    """
    parts = urlsplit(uri)
    is_file = parts.scheme == "file" and parts.netloc in ("", "localhost")
    return Path(unquote(parts.path)) if is_file and parts.path.startswith("/") else None


def _name(uri: str) -> str:
    return PurePosixPath(unquote(urlsplit(uri).path)).name or uri


def _image(block: ImageContentBlock) -> Fields:
    return block_of(block.data, UNSHOWN)


def _embedded(resource: TextResourceContents | BlobResourceContents) -> Fields:
    if isinstance(resource, TextResourceContents):
        text = f'<context ref="{resource.uri}">\n{resource.text}\n</context>'
        return {"type": "text", "text": text}
    if resource.mime_type == PDF:
        source = {"type": "base64", "media_type": PDF, "data": resource.blob}
        return {"type": "document", "source": source}
    return block_of(resource.blob, f"[{resource.uri} is binary and cannot be shown]")


def prompt_blocks(text: str, images: Iterable[Fields]) -> list[Fields]:
    """Return a prompt with images as blocks of the API."""
    return [*([{"type": "text", "text": text}] if text else []), *images]
