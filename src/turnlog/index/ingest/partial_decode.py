"""Decode only the fields of a line that the figures need, skipping texts and tool output.

A glance has the same values as the fully decoded entry. Where that is not certain (a prompt, a
failed call, an unknown type, a malformed line), `glance` returns None and the caller decodes the
whole line. One exception: Python rejects numbers of over 4,300 digits, which a glance may skip.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw, field

from turnlog.format.blocks import Usage
from turnlog.format.entries import Assistant, ChainEntry, Entry, ForkedFrom, User
from turnlog.format.fields import CamelView, SnakeView, decode_raw
from turnlog.format.json_values import is_object
from turnlog.format.kinds import KINDS
from turnlog.format.state import PrLink
from turnlog.format.system import CompactBoundary, TurnDuration

AGENT_PROGRESS = b'"agent_progress"'
FIGURES = (CompactBoundary, TurnDuration)
"""Client notes that contain figures."""
TELLING = ("turn_duration", "compact_boundary")
"""The subtypes of those notes."""


class GlanceBlock(SnakeView, gc=False):
    """A tool call or a result; the content of other blocks is skipped."""

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


class ResultRecord(CamelView, gc=False):
    """The client's own record of a result, as far as it has figures."""

    structured_patch: Any = None
    git_operation: Any = None

    @property
    def commit(self) -> str | None:
        """The hash of the commit that a command made, if the client noticed."""
        done = self.git_operation
        made = done.get("commit") if is_object(done) else None
        name = made.get("sha") if is_object(made) else None
        return name if isinstance(name, str) and name.isascii() else None


class Glance(CamelView, gc=False):
    """The fields of a line that the figures need.

    One type covers all kinds of lines, so each is decoded in one pass. Figures do not distinguish
    absent fields from null.
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
    tool_use_result: ResultRecord | str | int | float | bool | list[Raw] | None = None

    @property
    def when(self) -> str | None:
        """The line's timestamp."""
        if self.timestamp or self.type not in ("user", "assistant"):
            return self.timestamp
        return self.message.timestamp if self.message else None


def read_record(raw: Raw | None) -> ResultRecord | None:
    """Return the record of a result from its JSON; None if it is not an object."""
    decoded = decode_raw(raw) if raw else None
    if not is_object(decoded):
        return None
    patch, git = decoded.get("structuredPatch"), decoded.get("gitOperation")
    return ResultRecord(structured_patch=patch, git_operation=git)


def glance(raw: bytes) -> Glance | None:
    """Decode the figures of a line; return None if the whole line has to be decoded."""
    try:
        fields = _decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    # The guess is safe because it is checked against an allowlist: a type that is not listed, or a
    # line of a listed type with an unusual shape, falls back to the full decoder. For example a
    # user line counts only if all its blocks are successful results; "type": "user" with text is a
    # prompt, whose kind depends on the text that a glance skips.
    if fields.type == "assistant":  # the most frequent type: without a call
        return fields if fields.message is not None and fields.flat_content is None else None
    is_enough = _ENOUGH.get(fields.type)
    return fields if is_enough and is_enough(fields, raw) else None


def _is_results(fields: Glance, raw: bytes) -> bool:
    content = fields.message.content if fields.message else None
    if not isinstance(content, list) or not content:
        return False
    # The index stores the text of errors, and any other block may make the line a prompt.
    if len(content) == 1:  # nearly all lines
        return content[0].type == "tool_result" and not content[0].is_error
    return all(block.type == "tool_result" and not block.is_error for block in content)


def _is_progress(fields: Glance, raw: bytes) -> bool:
    return AGENT_PROGRESS not in raw


def _is_note(fields: Glance, raw: bytes) -> bool:
    return fields.subtype not in TELLING


def _is_plain(fields: Glance, raw: bytes) -> bool:
    return True


_decode = msgspec.json.Decoder(Glance).decode
CHAINED = {
    name: issubclass(kind, ChainEntry)
    for name, kind in KINDS.items()
    if kind not in (User, Assistant, PrLink, *FIGURES) and kind.when is Entry.when
}
"""Types whose lines contribute only a time, a session and a directory.

True for those that are part of the conversation: only their directory counts.
"""
_ENOUGH: dict[Any, Callable[[Glance, bytes], bool]] = {
    **dict.fromkeys(CHAINED, _is_plain),
    "user": _is_results,
    "progress": _is_progress,
    "system": _is_note,
}
"""Per type but `assistant`, a predicate: is a glance sufficient for this line?"""
