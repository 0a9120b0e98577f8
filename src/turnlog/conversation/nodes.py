"""Nodes: the facts about each entry that the conversation needs, without its content.

A node is small, so a session of a million lines fits in memory. The content is decoded again from
the line when needed.
"""

from sys import intern
from typing import Any

from msgspec import Struct

from turnlog.conversation.prompts import PromptKind, is_rejection, prompt_kind
from turnlog.format.blocks import MessageBody, ToolResultBlock, ToolUseBlock, Usage
from turnlog.format.entries import Assistant, ChainEntry, Entry, MessageEntry, Unknown, User
from turnlog.format.fields import given
from turnlog.format.json_values import is_object
from turnlog.format.jsonl import Line
from turnlog.format.kinds import kind_of
from turnlog.format.state import LastPrompt
from turnlog.format.system import CompactBoundary, CompactMetadata, PreservedMessages, TurnDuration

SYNTHETIC = "<synthetic>"
LONGEST = 1e12
"""Milliseconds (30 years); a larger duration is treated as garbage."""
_SHARED_TYPES: dict[tuple[str, ...], tuple[str, ...]] = {}


class Node(Struct, gc=False):
    """One entry of a file and its position."""

    index: int
    """Rank in the file."""
    line: int
    offset: int
    size: int
    """Length of the line in bytes."""
    position: int
    """Rank among the entries of its line; 0 unless the line contains several."""
    kind: str
    time: str | None


class ChainNode(Node, gc=False):
    """An entry that is part of the conversation's tree."""

    uuid: str | None
    parent: str | None
    logical_parent: str | None
    is_sidechain: bool


class ResultRef(Struct, frozen=True, gc=False):
    """A tool_result in a user line: the call it answers and whether the call failed."""

    call_id: str
    is_error: bool
    agent_id: str | None = None
    is_rejected: bool = False
    """True if the user denied the call."""


class UserNode(ChainNode, gc=False):
    """A user line."""

    prompt: PromptKind
    results: tuple[ResultRef, ...]
    blocks: tuple[str, ...]
    """Types of its blocks; empty if the content is a plain string."""
    permission_mode: str | None
    """Permission mode when the prompt was typed (2.1.x on)."""


class CallRef(Struct, frozen=True, gc=False):
    """A tool_use in an assistant line."""

    id: str
    name: str


class AssistantNode(ChainNode, gc=False):
    """An assistant line: usually one block of a message."""

    message_id: str | None
    model: str | None
    stop_reason: str | None
    usage: Usage | None
    calls: tuple[CallRef, ...]
    blocks: tuple[str, ...]
    """Types of its blocks; empty if the content is a plain string."""
    is_error: bool
    """True for an API error that the client recorded in place of an answer."""
    version: str | None


class BoundaryNode(ChainNode, gc=False):
    """A compaction: the summary that follows replaces everything before it."""

    preserved: PreservedMessages | None
    trigger: str | None
    """`manual` or `auto`."""
    pre_tokens: int | None
    """Size of the context before it, in tokens."""


class DurationNode(ChainNode, gc=False):
    """The client's measurement of a turn, excluding time spent waiting for the user (2.1.1 on)."""

    milliseconds: float


class TipNode(Node, gc=False):
    """The client's record of the conversation's tip."""

    leaf: str
    is_explicit: bool


def node_of(index: int, line: Line, position: int, entry: Entry) -> Node:
    """Return the node for an entry."""
    # Interned, because a million nodes share a few dozen kinds, models and versions.
    kind = intern(kind_of(entry))
    common = (index, line.number, line.offset, len(line.raw), position, kind, entry.when)
    if isinstance(entry, LastPrompt) and (leaf := given(entry.leaf_uuid)):
        return TipNode(*common, leaf, bool(given(entry.explicit)))
    if not isinstance(entry, ChainEntry) or (isinstance(entry, Unknown) and not entry.uuid):
        return Node(*common)
    chain = (*common, given(entry.uuid), given(entry.parent_uuid))
    links = (given(entry.logical_parent_uuid), bool(given(entry.is_sidechain)))
    match entry:
        case User():
            blocks = _block_types(entry)
            mode = given(entry.permission_mode)
            about = prompt_kind(entry), _results(entry), blocks, intern(mode) if mode else None
            return UserNode(*chain, *links, *about)
        case Assistant() if not given(entry.is_meta):
            return AssistantNode(*chain, *links, *_assistant_facts(entry))
        case CompactBoundary():
            metadata = given(entry.compact_metadata) or CompactMetadata()
            reason = given(metadata.trigger), given(metadata.pre_tokens)
            return BoundaryNode(*chain, *links, given(metadata.preserved_messages), *reason)
        case TurnDuration() if (lasted := given(entry.duration_ms)) and 0 < lasted < LONGEST:
            return DurationNode(*chain, *links, lasted)
        case _:
            return ChainNode(*chain, *links)


def share_values(node: Node, before: Node | None) -> None:
    """Replace equal values of a node by the objects of the node before it, to save memory."""
    # The assignments below look like no-ops but drop duplicates: every decoded line has its own
    # copy of the parent's uuid, and each line of a message its own copy of the usage.
    if isinstance(node, ChainNode) and isinstance(before, ChainNode):
        if node.parent == before.uuid:
            node.parent = before.uuid
        if isinstance(node, AssistantNode) and isinstance(before, AssistantNode):
            if node.message_id == before.message_id:
                node.message_id = before.message_id
            if node.usage == before.usage:
                node.usage = before.usage


def _block_types(entry: MessageEntry) -> tuple[str, ...]:
    """Return the types of an entry's blocks; equal tuples are one shared object."""
    content = entry.content
    if isinstance(content, str):
        return ()
    types = tuple(str(block.__struct_config__.tag) for block in content)
    return _SHARED_TYPES.setdefault(types, types)


def _agent(entry: User) -> str | None:
    """Return the id of the sub-agent that a result names, decoding only results that name one."""
    # `toolUseResult` is a third of many files and rarely comes from a sub-agent. A search of the
    # raw bytes rules out the others without decoding them.
    raw = given(entry.raw_tool_use_result)
    if raw is None or b'"agentId"' not in bytes(raw):
        return None
    result = entry.tool_use_result
    named = result.get("agentId") if is_object(result) else None
    return named if isinstance(named, str) else None


def _results(entry: User) -> tuple[ResultRef, ...]:
    content = entry.content
    if isinstance(content, str):
        return ()
    agent = _agent(entry)
    return tuple(
        ResultRef(
            given(block.tool_use_id) or "",
            bool(given(block.is_error)),
            agent,
            is_rejection(entry, block),
        )
        for block in content
        if isinstance(block, ToolResultBlock)
    )


def _assistant_facts(entry: Assistant) -> tuple[Any, ...]:
    message = entry.body or MessageBody()
    blocks = entry.content if isinstance(entry.content, list) else []
    calls = tuple(
        CallRef(given(block.id) or "", intern(given(block.name) or ""))
        for block in blocks
        if isinstance(block, ToolUseBlock)
    )
    model, version = given(message.model), given(entry.version)
    return (
        given(message.id),
        intern(model) if model else None,
        given(message.stop_reason),
        given(message.usage),
        calls,
        _block_types(entry),
        bool(given(entry.is_api_error_message)),
        intern(version) if version else None,
    )
