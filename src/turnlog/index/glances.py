"""Decode only those fields of a line that the figures need, skipping texts and tool output.

A glance has the same values as the fully decoded entry. Whatever it cannot vouch for (a prompt, a
failed call, an unknown type, a malformed line) gives None: the caller decodes the whole line.
The one exception: Python refuses numbers of over 4,300 digits, which a glance can skip.
"""

from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType, field

from turnlog.format.blocks import Usage
from turnlog.format.entries import Assistant, ChainEntry, Entry, ForkedFrom, User
from turnlog.format.fields import CamelView, Flag, SnakeView, Text, given
from turnlog.format.kinds import KINDS
from turnlog.format.state import PrLink

NEAR = 512
"""How near to a line's start or end its type stands in most lines."""
ANSWER, USER = b'"type":"assistant"', b'"type":"user"'
AGENT_PROGRESS = b'"agent_progress"'
TELLING = (b'"turn_duration"', b'"compact_boundary"')
"""Notes of the client that hold figures."""


class Glance(CamelView):
    """What the figures need of any line."""

    type: Text = UNSET
    session_id: Text = UNSET
    timestamp: Text = UNSET
    cwd: Text = UNSET
    slug: Text = UNSET

    @property
    def when(self) -> str | None:
        """The time of the line."""
        return self.timestamp or None


class CallBlock(SnakeView):
    """A block of an answer; only tool calls are looked at."""

    type: Text = UNSET
    id: Text = UNSET
    name: Text = UNSET
    input: Any = UNSET


class AnswerBody(SnakeView):
    id: Text = UNSET
    model: Text = UNSET
    stop_reason: Text = UNSET
    content: str | list[CallBlock] | None | UnsetType = UNSET
    usage: Usage | None | UnsetType = UNSET
    timestamp: Text = UNSET


class AnswerGlance(Glance):
    """A line of the model."""

    uuid: Text = UNSET
    is_sidechain: Flag = UNSET
    version: Text = UNSET
    git_branch: Text = UNSET
    request_id: Text = UNSET
    forked_from: ForkedFrom | None | UnsetType = UNSET
    is_api_error_message: Flag = UNSET
    message: AnswerBody | None | UnsetType = UNSET
    flat_content: Any = field(default=UNSET, name="content")

    @property
    def when(self) -> str | None:
        return self.timestamp or (self.message.timestamp or None if self.message else None)


class ResultBlock(SnakeView):
    type: Text = UNSET
    tool_use_id: Text = UNSET
    is_error: Flag = UNSET


class ResultBody(SnakeView):
    content: str | list[ResultBlock] | None | UnsetType = UNSET
    timestamp: Text = UNSET


class ResultGlance(Glance):
    """A line with results of calls, none of which failed."""

    git_branch: Text = UNSET
    message: ResultBody | None | UnsetType = UNSET
    raw_tool_use_result: Raw | UnsetType = field(default=UNSET, name="toolUseResult")

    @property
    def when(self) -> str | None:
        return self.timestamp or (self.message.timestamp or None if self.message else None)

    @property
    def calls(self) -> list[str]:
        """The ids of the calls."""
        body = given(self.message)
        content = body.content if body else None
        return [
            given(each.tool_use_id) or "" for each in content or () if not isinstance(each, str)
        ]


def glance(raw: bytes) -> Glance | None:
    """Decode the figures of a line, or return None where the whole line has to be decoded."""
    try:
        # Only a guess: the decoded line has to have that type.
        near = raw if len(raw) <= 2 * NEAR else raw[:NEAR] + raw[-NEAR:]
        if ANSWER in near:
            return _answer(raw)
        if USER in near:
            return _results(raw)
        seen = _decode_any(raw)
        if seen.type == "progress" and AGENT_PROGRESS in raw:
            return None
        if seen.type == "system" and any(mark in raw for mark in TELLING):
            return None
        return seen if seen.type in CHAINED else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _answer(raw: bytes) -> Glance | None:
    seen = _decode_answer(raw)
    is_plain = seen.type == "assistant" and seen.message and given(seen.flat_content) is None
    return seen if is_plain else None


def _results(raw: bytes) -> Glance | None:
    seen = _decode_results(raw)
    content = seen.message.content if seen.type == "user" and seen.message else None
    if not isinstance(content, list) or not content:
        return None
    # The text of an error is kept; any other block may change what kind of line this is.
    is_plain = all(each.type == "tool_result" and not given(each.is_error) for each in content)
    return seen if is_plain else None


def is_chained(seen: Glance) -> bool:
    """Return whether a line is part of the conversation: only there its directory counts."""
    return seen.type in ("user", "assistant") or CHAINED[str(seen.type)]


_decode_any = msgspec.json.Decoder(Glance).decode
_decode_answer = msgspec.json.Decoder(AnswerGlance).decode
_decode_results = msgspec.json.Decoder(ResultGlance).decode
CHAINED = {
    name: issubclass(kind, ChainEntry)
    for name, kind in KINDS.items()
    if kind not in (User, Assistant, PrLink) and kind.when is Entry.when
}
"""Types whose lines tell no more than a time, a session and a directory."""
