"""Decode only the fields of a line that the figures need, skipping texts and tool output.

A glance has the same values as the fully decoded entry. Where that is not certain (a prompt, a
failed call, an unknown type, a malformed line), `glance` returns None and the caller decodes the
whole line. One exception: Python rejects numbers of over 4,300 digits, which a glance may skip.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw, field

from turnlog.format.blocks import MessageBody, ToolUseBlock, Usage
from turnlog.format.entries import Assistant, ChainEntry, Entry, ForkedFrom, User
from turnlog.format.fields import CamelView, SnakeView, decode_raw, given
from turnlog.format.json_values import is_object
from turnlog.format.kinds import KINDS
from turnlog.format.state import FileHistorySnapshot, PrLink
from turnlog.format.system import CompactBoundary

AGENT_PROGRESS = "agent_progress"
COMPACTION = "compact_boundary"
TIMED = (FileHistorySnapshot,)
"""Types that store their time in a place of their own, which a glance reads too."""


# gc=False: a glance is a tree, and tracking millions of them would only slow the collector down.
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
    """The fields with figures in the client's own record of a result."""

    structured_patch: Any = None
    git_operation: Any = None

    @property
    def commit(self) -> str | None:
        """The hash of the commit that a command made, if the client noticed."""
        done = self.git_operation
        made = done.get("commit") if is_object(done) else None
        name = made.get("sha") if is_object(made) else None
        return name if isinstance(name, str) and name.isascii() else None


class GlanceSnapshot(CamelView, gc=False):
    """The backups of files at a moment."""

    timestamp: str | None = None


class GlanceProgress(CamelView, gc=False):
    """The progress of a tool; that of a sub-agent contains one of its messages as a nested line."""

    type: str | None = None
    message: "Glance | None" = None


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
    data: GlanceProgress | None = None
    snapshot: GlanceSnapshot | None = None
    duration_ms: float | None = None
    tool_use_result: ResultRecord | str | int | float | bool | list[Raw] | None = None

    @property
    def when(self) -> str | None:
        """The line's timestamp."""
        if self.timestamp:
            return self.timestamp
        if self.type in ("user", "assistant"):
            return self.message.timestamp if self.message else None
        is_snapshot = self.snapshot and self.type == "file-history-snapshot"
        return self.snapshot.timestamp if self.snapshot and is_snapshot else None

    @property
    def repeated(self) -> "Glance | None":
        """The answer of a sub-agent that its session repeats in this line."""
        data = self.data
        if data is None or data.type != AGENT_PROGRESS or self.type != "progress":
            return None
        return data.message if data.message and data.message.type == "assistant" else None


def answer_glance(entry: Assistant) -> Glance:
    """Return the glance of a decoded entry, without its content."""
    return Glance(
        type="assistant",
        uuid=given(entry.uuid),
        session_id=given(entry.session_id),
        version=given(entry.version),
        git_branch=given(entry.git_branch),
        request_id=given(entry.request_id),
        is_sidechain=given(entry.is_sidechain),
        is_api_error_message=given(entry.is_api_error_message),
        forked_from=given(entry.forked_from),
        message=_body_glance(entry.body) if entry.body else None,
    )


def _body_glance(body: MessageBody) -> GlanceBody:
    return GlanceBody(
        id=given(body.id),
        model=given(body.model),
        stop_reason=given(body.stop_reason),
        usage=given(body.usage),
    )


def call_glance(block: ToolUseBlock) -> GlanceBlock:
    """Return the glance of a decoded call."""
    name, arguments = given(block.name), given(block.input)
    return GlanceBlock(type="tool_use", id=given(block.id), name=name, input=arguments)


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
    if fields.type == "assistant":  # the most frequent type, checked without a call
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
    answer = fields.repeated
    return answer is None or (answer.message is not None and answer.flat_content is None)


def _is_note(fields: Glance, raw: bytes) -> bool:
    return fields.subtype != COMPACTION


def _is_plain(fields: Glance, raw: bytes) -> bool:
    return True


_decode = msgspec.json.Decoder(Glance).decode
CHAINED = {
    name: issubclass(kind, ChainEntry)
    for name, kind in KINDS.items()
    if kind not in (User, Assistant, PrLink, CompactBoundary)
    and (kind.when is Entry.when or kind in TIMED)
}
"""Types whose lines contribute only a time, a session and a directory.

True for types that are part of the conversation: only their lines set the directory.
"""
_ENOUGH: dict[Any, Callable[[Glance, bytes], bool]] = {
    **dict.fromkeys(CHAINED, _is_plain),
    "user": _is_results,
    "progress": _is_progress,
    "system": _is_note,
}
"""For each type but `assistant`, a predicate: is a glance sufficient for this line?"""
