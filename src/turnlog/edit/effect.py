"""Count what an edit changes while it is applied."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from turnlog.conversation.branch import since_compaction
from turnlog.conversation.node_log import NodeLog
from turnlog.conversation.nodes import ChainNode, Node

PER_TOKEN = 4
"""Approximate bytes of JSON per token."""
PER_IMAGE = 1600
"""Maximum tokens of an image (documented by the API)."""
ENCODED = re.compile(rb'"(data|signature)":"[^"\\]{200,}"')


class ChangeCount(Struct):
    """Number of entries of one kind that a change affects."""

    entries: int = 0
    bytes: int = 0
    """Bytes by which the file shrinks."""


class Effect(Struct, frozen=True):
    """The effect of a change on a session."""

    entries_before: int
    entries_after: int
    bytes_before: int
    bytes_after: int
    dropped: dict[str, ChangeCount]
    """Dropped entries, by kind."""
    rewritten: dict[str, ChangeCount]
    """Rewritten entries, by kind; replaced ids do not count."""
    added: int
    """Number of new entries."""
    tokens_saved: int
    """Approximate tokens saved in the next request."""
    context_before: int = 0
    """Approximate tokens of the messages that the client would send now."""
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
    """Counts dropped, rewritten and added entries while a plan is applied."""

    log: NodeLog
    dropped: dict[str, ChangeCount] = field(default_factory=dict[str, ChangeCount])
    rewritten: dict[str, ChangeCount] = field(default_factory=dict[str, ChangeCount])
    added: int = 0
    bytes_after: int = 0
    tokens_saved: int = 0
    context_before: int | None = None
    gained: int = 0
    """Tokens of entries that are sent only because the conversation continues at another leaf."""
    sent: set[int] = field(default_factory=set[int])

    def begin(self, log: NodeLog, tip: int | None = None) -> None:
        """Start counting for a log: the session's own, or a copy made by a repair."""
        sent = _sent_at(log, log.tree.active_leaf)
        if self.context_before is None:
            self.context_before = _tokens_of(log, sent.values())
        # Cutting a session back to turn 5 may leave more to send than before: if turn 8 was a
        # compaction, turns 1 to 5 were not sent, and now they are.
        later = _sent_at(log, tip) if tip != log.tree.active_leaf else {}
        self.gained += _tokens_of(log, (later[index] for index in later.keys() - sent.keys()))
        self.sent = set(sent | later)
        self.bytes_after = 0

    def drop(self, node: Node, raw: bytes) -> None:
        """Count a dropped entry."""
        self._note(self.dropped, node, raw, b"")

    def rewrite(self, node: Node, before: bytes, after: bytes) -> None:
        """Count a rewritten entry."""
        self._note(self.rewritten, node, before, after)

    def add(self, raw: bytes) -> None:
        """Count a new entry."""
        self.added += 1
        self.tokens_saved -= tokens_in(raw)

    def effect(self) -> Effect:
        """Return the effect of everything counted so far."""
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
    """Estimate the tokens of an entry's message.

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
    # Base64 does not count by its length: the API charges images by their pixels.
    has_encoded = b'"data":"' in text or b'"signature":"' in text
    encoded = list(ENCODED.finditer(text)) if has_encoded else []
    images = sum(found[1] == b"data" for found in encoded)
    return (len(text) - sum(len(found[0]) for found in encoded)) // PER_TOKEN + images * PER_IMAGE


def _largest_first(amounts: dict[str, ChangeCount]) -> dict[str, ChangeCount]:
    return dict(sorted(amounts.items(), key=lambda item: -item[1].bytes))
