"""Spans: a turn, a model answer, a tool call or a sub-agent, with the fields that are exported."""

import re
from enum import StrEnum
from typing import Any

from msgspec import Struct

from turnlog.format.blocks import Usage

# Later versions of the header may append fields, which readers have to ignore (W3C).
TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?")


class WorkKind(StrEnum):
    """The kind of work that a span covers."""

    SPAN = "span"
    """The container of a turn; only in the nested layout."""
    AGENT = "agent"
    """A turn or a sub-agent."""
    GENERATION = "generation"
    """One answer of the model."""
    TOOL = "tool"


class ToolPlacement(StrEnum):
    """The position of tool spans in a trace."""

    SIBLINGS = "siblings"
    """Siblings of the generation that called them: backends then sum up tokens correctly."""
    NESTED = "nested"
    """Children of the generation that called them; the turn has an additional outer span."""


class Parent(Struct, frozen=True):
    """The caller's span, according to a W3C trace context."""

    trace_id: str
    span_id: str


def parse_traceparent(text: str | None) -> Parent | None:
    """Parse a W3C `traceparent`; return None if it is not valid.

    >>> parse_traceparent("00-" + "a" * 32 + "-" + "b" * 16 + "-01").span_id
    'bbbbbbbbbbbbbbbb'
    >>> parse_traceparent("00-" + "0" * 32 + "-" + "b" * 16 + "-01")
    """
    found = TRACEPARENT.fullmatch((text or "").strip())
    # Version ff and ids of nothing but zeros are invalid (W3C).
    if not found or found[1] == "ff" or not int(found[2], 16) or not int(found[3], 16):
        return None
    return Parent(found[2], found[3])


class Event(Struct, frozen=True):
    """A point in time: a hook, a compaction, an error."""

    name: str
    time: int
    facts: dict[str, Any]
    """Attributes that are not content."""
    texts: dict[str, Any] = {}
    """Attributes with content, such as commands and their output."""


class Trace(Struct, frozen=True, kw_only=True):
    """The values that all spans of a turn share."""

    id: str
    parent_id: str | None = None
    """The caller's span, parent of the root span; the trace is then the caller's."""
    session_id: str
    turn_number: int
    """The number of its prompt in the file, counting all branches."""
    user: str | None = None
    tags: tuple[str, ...] = ()
    environment: str | None = None
    release: str | None = None
    app_version: str | None = None
    """The version set by the user; without it, the client's version is sent."""
    prompt_id: str | None = None
    prompt_kind: str | None = None
    permission_mode: str | None = None
    version: str | None = None
    slug: str | None = None
    cwd: str | None = None
    git_branch: str | None = None
    forked_from: str | None = None
    """The session that started the turn, if a fork continued it."""

    is_helper: bool = False
    """True if the trace contains only a helper of the client that ran longer than the turn."""

    source: str = "claude-code"

    @property
    def name(self) -> str:
        """The trace's display name."""
        return f"Turn {self.turn_number}{' helper' if self.is_helper else ''}"


class Span(Struct, frozen=True, kw_only=True):
    """A piece of work with start and end.

    Times are nanoseconds since 1970; None if the session does not record them.
    """

    trace: Trace
    id: str
    parent_id: str | None
    name: str
    kind: WorkKind
    start: int | None
    end: int | None
    near: int
    """The nearest known time, for formats that require one; 0 if there is none."""
    input: Any = None
    output: Any = None
    parts: list[dict[str, Any]] | None = None
    """The blocks of a generation, as parts of the GenAI conventions."""
    error: str | None = None
    """The error message; empty if the span failed but content is not sent."""
    is_interrupted: bool = False
    """True if the user stopped it."""
    model: str | None = None
    message_id: str | None = None
    request_id: str | None = None
    stop_reason: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    costs_usd: dict[str, float] | None = None
    """The cost by kind of token, as `costs_by_kind` names the kinds."""
    parameters: dict[str, Any] | None = None
    """Request parameters: effort, speed, service tier."""
    first_line: int | None = None
    """Time of the first line of a generation, shortly after its first token."""
    tool: str | None = None
    call_id: str | None = None
    call_count: int | None = None
    """Number of tool calls of a generation."""
    active: int | None = None
    """The duration that the client measured, in nanoseconds; None if it measured none."""
    agent_id: str | None = None
    agent_type: str | None = None
    description: str | None = None
    """The task of a sub-agent."""
    working_ms: int | None = None
    """Working time of a turn: measured by the client, without waiting for the user."""
    elapsed_ms: int | None = None
    """Elapsed time of a turn: from the prompt to the last answer or result."""
    events: tuple[Event, ...] = ()
    is_final: bool = True
    """True if the span can no longer change; only then is it sent."""

    @property
    def sent_parent(self) -> str | None:
        """The parent's id as sent to a backend; the root span's parent is the caller's span."""
        return self.parent_id or self.trace.parent_id

    @property
    def begins(self) -> int:
        """The start, or the nearest known time."""
        return self.near if self.start is None else self.start

    @property
    def ends(self) -> int:
        """The end, or the start if the end is unknown."""
        # Lines are not always in chronological order: a span may seem to end before it begins.
        return self.begins if self.end is None else max(self.begins, self.end)
