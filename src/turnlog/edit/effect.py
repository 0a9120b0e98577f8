"""What a change amounts to, counted while it is carried out."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from turnlog.conversation.branch import since_compaction
from turnlog.conversation.node_log import NodeLog
from turnlog.conversation.nodes import ChainNode, Node

PER_TOKEN = 4
"""Bytes of JSON that make a token, about."""
PER_IMAGE = 1600
"""Tokens of an image, at most (as the API's documentation says)."""
ENCODED = re.compile(rb'"(data|signature)":"[^"\\]{200,}"')


class ChangeCount(Struct):
    """How much of one kind a change concerns."""

    entries: int = 0
    bytes: int = 0
    """How many bytes it makes the file smaller."""


class Effect(Struct, frozen=True):
    """What a change does to a session."""

    entries_before: int
    entries_after: int
    bytes_before: int
    bytes_after: int
    dropped: dict[str, ChangeCount]
    """What goes, by the kind of entry."""
    rewritten: dict[str, ChangeCount]
    """What is rewritten, ids apart."""
    added: int
    """How many entries are new."""
    tokens_saved: int
    """How many tokens less the next request has, about."""
    context_before: int = 0
    """Tokens of the messages that the client would send now, about."""
    context_after: int = 0

    @property
    def is_change(self) -> bool:
        return bool(self.dropped or self.rewritten or self.added)


class _Message(Struct):
    content: Raw | UnsetType = UNSET


class _Sent(Struct):
    message: _Message | UnsetType = UNSET


_decode_sent = msgspec.json.Decoder(_Sent).decode


@dataclass
class Tally:
    """Counts what is dropped, rewritten and added while a plan is carried out."""

    log: NodeLog
    dropped: dict[str, ChangeCount] = field(default_factory=dict[str, ChangeCount])
    rewritten: dict[str, ChangeCount] = field(default_factory=dict[str, ChangeCount])
    added: int = 0
    bytes_after: int = 0
    tokens_saved: int = 0
    context_before: int | None = None
    gained: int = 0
    """Tokens of entries that are sent only because the conversation goes on at another leaf."""
    sent: set[int] = field(default_factory=set[int])

    def begin(self, log: NodeLog, tip: int | None = None) -> None:
        """Count from here on what is made of a file: the session's own, or a copy made before."""
        sent = _sent_at(log, log.tree.active_leaf)
        if self.context_before is None:
            self.context_before = _tokens_of(log, sent.values())
        later = _sent_at(log, tip) if tip != log.tree.active_leaf else {}
        self.gained += _tokens_of(log, (later[index] for index in later.keys() - sent.keys()))
        self.sent = set(sent | later)
        self.bytes_after = 0

    def drop(self, node: Node, raw: bytes) -> None:
        """Note that an entry goes."""
        self._note(self.dropped, node, raw, b"")

    def rewrite(self, node: Node, before: bytes, after: bytes) -> None:
        """Note that an entry is written anew."""
        self._note(self.rewritten, node, before, after)

    def add(self, raw: bytes) -> None:
        """Note an entry that is new."""
        self.added += 1
        self.tokens_saved -= tokens_in(raw)

    def effect(self) -> Effect:
        """What all of it amounts to."""
        gone = sum(amount.entries for amount in self.dropped.values())
        context = self.context_before or 0
        return Effect(
            entries_before=len(self.log.nodes),
            entries_after=len(self.log.nodes) - gone + self.added,
            bytes_before=self.log.state.size,
            bytes_after=self.bytes_after,
            dropped=_largest_first(self.dropped),
            rewritten=_largest_first(self.rewritten),
            added=self.added,
            tokens_saved=max(0, self.tokens_saved - self.gained),
            context_before=context,
            context_after=max(0, context + self.gained - self.tokens_saved),
        )

    def _note(
        self, amounts: dict[str, ChangeCount], node: Node, before: bytes, after: bytes
    ) -> None:
        amount = amounts.setdefault(node.kind, ChangeCount())
        amount.entries += 1
        amount.bytes += len(before) - len(after)
        if node.index in self.sent:
            self.tokens_saved += tokens_in(before) - tokens_in(after)


def _sent_at(log: NodeLog, leaf: int | None) -> dict[int, ChainNode]:
    nodes = [] if leaf is None else since_compaction(log.tree, leaf)
    return {node.index: node for node in nodes}


def _tokens_of(log: NodeLog, nodes: Iterable[Node]) -> int:
    return sum(tokens_in(line.raw) for _, line in log.lines_of(nodes))


def tokens_in(raw: bytes) -> int:
    """How many tokens the message of an entry has, about.

    >>> tokens_in(b'{"message":{"content":"twelve bytes"},"toolUseResult":{"much":"more"}}')
    3
    """
    try:
        message = _decode_sent(raw).message
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return 0
    content = message.content if isinstance(message, _Message) else UNSET
    if isinstance(content, UnsetType):
        return 0
    text = bytes(content)
    has_encoded = b'"data":"' in text or b'"signature":"' in text
    encoded = list(ENCODED.finditer(text)) if has_encoded else []
    images = sum(found[1] == b"data" for found in encoded)
    return (len(text) - sum(len(found[0]) for found in encoded)) // PER_TOKEN + images * PER_IMAGE


def _largest_first(amounts: dict[str, ChangeCount]) -> dict[str, ChangeCount]:
    return dict(sorted(amounts.items(), key=lambda item: -item[1].bytes))
