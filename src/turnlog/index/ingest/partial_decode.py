"""Decode only those fields of a line that the figures need, skipping texts and tool output.

A glance has the same values as the fully decoded entry. Whatever it cannot vouch for (a prompt, a
failed call, an unknown type, a malformed line) gives None: the caller decodes the whole line.
The one exception: Python refuses numbers of over 4,300 digits, which a glance can skip.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw, field

from turnlog.format.blocks import Usage
from turnlog.format.entries import Assistant, ChainEntry, Entry, ForkedFrom, User
from turnlog.format.fields import CamelView, SnakeView
from turnlog.format.kinds import KINDS
from turnlog.format.state import PrLink
from turnlog.format.system import CompactBoundary, TurnDuration

AGENT_PROGRESS = b'"agent_progress"'
NO_RESULT = Raw()
FIGURES = (CompactBoundary, TurnDuration)
"""Notes of the client that hold figures."""
TELLING = ("turn_duration", "compact_boundary")
"""Their subtypes."""


class GlanceBlock(SnakeView, gc=False):
    """A tool call or a result; what other blocks hold is skipped."""

    type: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    tool_use_id: str | None = None
    is_error: bool | None = None


class GlanceBody(SnakeView, gc=False):
    """The message of a line."""

    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    content: str | list[GlanceBlock] | None = None
    usage: Usage | None = None
    timestamp: str | None = None


class Glance(CamelView, gc=False):
    """What the figures need of a line.

    One type serves lines of all kinds, so that each is decoded in one pass. Whether a field is
    absent or null makes no difference to the figures.
    """

    type: str | None = None
    uuid: str | None = None
    session_id: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    slug: str | None = None
    subtype: str | None = None
    version: str | None = None
    git_branch: str | None = None
    request_id: str | None = None
    is_sidechain: bool | None = None
    is_api_error_message: bool | None = None
    forked_from: ForkedFrom | None = None
    message: GlanceBody | None = None
    flat_content: Any = field(default=None, name="content")
    raw_tool_use_result: Raw = field(default=NO_RESULT, name="toolUseResult")

    @property
    def when(self) -> str | None:
        """The time of the line."""
        if self.timestamp or self.type not in ("user", "assistant"):
            return self.timestamp
        return self.message.timestamp if self.message else None


def glance(raw: bytes) -> Glance | None:
    """Decode the figures of a line, or return None where the whole line has to be decoded."""
    try:
        seen = _decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    is_enough = _ENOUGH.get(seen.type)
    return seen if is_enough and is_enough(seen, raw) else None


def _is_answer(seen: Glance, raw: bytes) -> bool:
    return seen.message is not None and seen.flat_content is None


def _is_results(seen: Glance, raw: bytes) -> bool:
    content = seen.message.content if seen.message else None
    if not isinstance(content, list) or not content:
        return False
    # The text of an error is kept; any other block may change what kind of line this is.
    return all(block.type == "tool_result" and not block.is_error for block in content)


def _is_progress(seen: Glance, raw: bytes) -> bool:
    return AGENT_PROGRESS not in raw


def _is_note(seen: Glance, raw: bytes) -> bool:
    return seen.subtype not in TELLING


def _is_plain(seen: Glance, raw: bytes) -> bool:
    return True


_decode = msgspec.json.Decoder(Glance).decode
CHAINED = {
    name: issubclass(kind, ChainEntry)
    for name, kind in KINDS.items()
    if kind not in (User, Assistant, PrLink, *FIGURES) and kind.when is Entry.when
}
"""Types whose lines tell no more than a time, a session and a directory.

True for those that are part of the conversation: only there the directory counts.
"""
_ENOUGH: dict[Any, Callable[[Glance, bytes], bool]] = {
    **dict.fromkeys(CHAINED, _is_plain),
    "assistant": _is_answer,
    "user": _is_results,
    "progress": _is_progress,
    "system": _is_note,
}
"""Whether a glance tells all of a line, by its type."""
