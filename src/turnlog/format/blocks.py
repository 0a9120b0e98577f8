"""Content blocks and the messages that contain them, with the names of the Messages API."""

import re
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from turnlog.format.fields import Flag, Items, Object, SnakeView, Text, Tokens, given

THINKING = frozenset({"thinking", "redacted_thinking"})
"""Types of blocks with the model's thinking."""


class TextBlock(Struct, tag="text", kw_only=True):
    text: Text = UNSET
    citations: Items = UNSET
    cache_control: Object = UNSET


class ThinkingBlock(Struct, tag="thinking", kw_only=True):
    thinking: Text = UNSET
    """Empty in most files since 2.1.72 (counted): only the signature is stored."""
    signature: Text = UNSET


class RedactedThinkingBlock(Struct, tag="redacted_thinking", kw_only=True):
    data: Text = UNSET


class ToolUseBlock(Struct, tag="tool_use", kw_only=True):
    id: Text = UNSET
    name: Text = UNSET
    input: Any = UNSET
    caller: Object = UNSET


class ServerToolUseBlock(Struct, tag="server_tool_use", kw_only=True):
    id: Text = UNSET
    name: Text = UNSET
    input: Any = UNSET


class ImageBlock(Struct, tag="image", kw_only=True):
    source: Object = UNSET
    cache_control: Object = UNSET


class DocumentBlock(Struct, tag="document", kw_only=True):
    source: Object = UNSET
    title: Text = UNSET
    context: Text = UNSET
    citations: Object = UNSET
    cache_control: Object = UNSET


class ToolReferenceBlock(Struct, tag="tool_reference", kw_only=True):
    tool_name: Text = UNSET


class WebSearchResultBlock(Struct, tag="web_search_tool_result", kw_only=True):
    tool_use_id: Text = UNSET
    content: Any = UNSET


class WebFetchResultBlock(Struct, tag="web_fetch_tool_result", kw_only=True):
    tool_use_id: Text = UNSET
    content: Any = UNSET


class AdvisorResultBlock(Struct, tag="advisor_tool_result", kw_only=True):
    tool_use_id: Text = UNSET
    content: Any = UNSET


class FallbackBlock(Struct, tag="fallback", kw_only=True, rename={"from_": "from"}):
    from_: Object = UNSET
    to: Object = UNSET


class UnknownPart(Struct, tag="", kw_only=True):
    """A block or progress data of a kind that turnlog does not know; `value` is all of it."""

    value: Any


class ToolResultBlock(Struct, tag="tool_result", kw_only=True):
    tool_use_id: Text = UNSET
    # Quoted, because a result contains blocks and is itself a block.
    content: "str | list[Block] | dict[str, Any] | None | UnsetType" = UNSET
    is_error: Flag = UNSET
    cache_control: Object = UNSET

    @property
    def text(self) -> str:
        """The result as text; blocks of other types appear as their type's name."""
        content = given(self.content)
        if isinstance(content, list):
            return "\n".join(map(_text_in_result, content))
        return content if isinstance(content, str) else str(content or "")


Block = (
    TextBlock
    | ThinkingBlock
    | RedactedThinkingBlock
    | ToolUseBlock
    | ToolResultBlock
    | ImageBlock
    | DocumentBlock
    | ServerToolUseBlock
    | WebSearchResultBlock
    | WebFetchResultBlock
    | AdvisorResultBlock
    | ToolReferenceBlock
    | FallbackBlock
    | UnknownPart
)
Content = str | list[Block] | None | UnsetType


def _text_in_result(block: Block) -> str:
    if isinstance(block, TextBlock):
        return given(block.text) or ""
    return f"({block.__struct_config__.tag or 'unknown'})"


class CacheCreation(SnakeView):
    """Cache writes by lifetime; the two are priced differently."""

    ephemeral_5m_input_tokens: Tokens = UNSET
    ephemeral_1h_input_tokens: Tokens = UNSET


class ServerToolCounts(SnakeView):
    web_search_requests: Tokens = UNSET
    web_fetch_requests: Tokens = UNSET


class OutputDetails(SnakeView):
    thinking_tokens: Tokens = UNSET


class TokenCounts(SnakeView):
    """The counts common to a message and each of its iterations."""

    input_tokens: Tokens = UNSET
    output_tokens: Tokens = UNSET
    cache_creation_input_tokens: Tokens = UNSET
    cache_read_input_tokens: Tokens = UNSET
    cache_creation: CacheCreation | None | UnsetType = UNSET


class Iteration(TokenCounts):
    """One API request behind a message, such as an advisor's or a compaction."""

    type: Text = UNSET
    model: Text = UNSET


class Usage(TokenCounts):
    """Token usage, repeated on each line of a message; up to 2.1.56 output may be too low."""

    output_tokens_details: OutputDetails | None | UnsetType = UNSET
    server_tool_use: ServerToolCounts | None | UnsetType = UNSET
    service_tier: Text = UNSET
    inference_geo: Text = UNSET
    iterations: list[Iteration] | None | UnsetType = UNSET
    speed: Text = UNSET
    fallback_credit: Any = UNSET


class MessageBody(SnakeView):
    """A message to or from the model; a line usually has one block of it."""

    id: Text = UNSET
    type: Text = UNSET
    role: Text = UNSET
    model: Text = UNSET
    content: Content = UNSET
    stop_reason: Text = UNSET
    stop_sequence: Text = UNSET
    stop_details: Object = UNSET
    usage: Usage | None | UnsetType = UNSET
    diagnostics: Object = UNSET
    context_management: Object = UNSET
    container: Any = UNSET
    output_config: Object = UNSET
    timestamp: Text = UNSET
    """Only in flat lines of one exporter (reported), which have no timestamp of their own."""


COMMAND = re.compile(r"<command-name>([^<]*)</command-name>(?:.*<command-args>([^<]*))?", re.DOTALL)


COLOUR = re.compile(r"\x1b\[[0-9;]*m")
OUTPUT = re.compile(r"<(local-command-stdout|local-command-stderr)>(.*?)</\1>", re.DOTALL)


def local_command_text(text: str) -> str:
    """Return a local command, or its output, without the client's tags.

    >>> local_command_text("<local-command-stdout>10% used</local-command-stdout>")
    '10% used'
    """
    text = COLOUR.sub("", text)
    printed = "\n".join(found[2].strip() for found in OUTPUT.finditer(text))
    return command_text(text) or printed or OUTPUT.sub("", text).strip()


def command_text(text: str) -> str | None:
    """Return the slash command that a line records, as typed; None if it records none.

    >>> command_text("<command-name>/model</command-name><command-args>opus</command-args>")
    '/model opus'
    """
    found = COMMAND.search(text)
    return " ".join(part.strip() for part in found.groups() if part).strip() if found else None
