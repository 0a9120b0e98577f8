"""What a span is: a turn, an answer of the model, a tool's run, or a sub-agent."""

import re
from enum import StrEnum
from typing import Any

from msgspec import Struct

from turnlog.format.blocks import Usage

TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?")


class WorkKind(StrEnum):
    """What a span tells of."""

    SPAN = "span"
    """Only in the nested layout: it holds a turn."""
    AGENT = "agent"
    """A turn, or a sub-agent."""
    GENERATION = "generation"
    """One answer of the model."""
    TOOL = "tool"


class ToolPlacement(StrEnum):
    """Where the tools are."""

    SIBLINGS = "siblings"
    """Beside the generation that called them, under the turn: sums of tokens come out right."""
    NESTED = "nested"
    """Under the generation that called them, and the turn in a span of its own name."""


class Parent(Struct, frozen=True):
    """A span of the caller, as W3C's trace context names it."""

    trace_id: str
    span_id: str


def parse_traceparent(text: str | None) -> Parent | None:
    """Return the span that a `traceparent` names; None if it is not valid, as W3C demands.

    >>> parse_traceparent("00-" + "a" * 32 + "-" + "b" * 16 + "-01").span_id
    'bbbbbbbbbbbbbbbb'
    >>> parse_traceparent("00-" + "0" * 32 + "-" + "b" * 16 + "-01")
    """
    found = TRACEPARENT.fullmatch((text or "").strip())
    if not found or found[1] == "ff" or not int(found[2], 16) or not int(found[3], 16):
        return None
    return Parent(found[2], found[3])


class Event(Struct, frozen=True):
    """Something that happened at a moment: a hook, a compaction, an error."""

    name: str
    time: int
    facts: dict[str, Any]
    """What can be told without content."""
    texts: dict[str, Any] = {}
    """What was said or run."""


class Trace(Struct, frozen=True, kw_only=True):
    """What all spans of one turn have in common."""

    id: str
    parent_id: str | None = None
    """The caller's span, below which the first span hangs; the trace is then the caller's."""
    session_id: str
    turn_number: int
    """The number of its prompt in the file, of all branches."""
    user: str | None = None
    tags: tuple[str, ...] = ()
    environment: str | None = None
    release: str | None = None
    app_version: str | None = None
    """The version that the settings name; without it, backends get the client's."""
    prompt_id: str | None = None
    prompt_kind: str | None = None
    permission_mode: str | None = None
    version: str | None = None
    slug: str | None = None
    cwd: str | None = None
    git_branch: str | None = None
    forked_from: str | None = None
    """The session that began the turn, of what a fork added to it."""

    is_helper: bool = False
    """Whether it holds a helper of the client that outlasted the turn, and nothing else."""

    source: str = "claude-code"

    @property
    def name(self) -> str:
        return f"Turn {self.turn_number}{' helper' if self.is_helper else ''}"


class Span(Struct, frozen=True, kw_only=True):
    """A stretch of work. Times are nanoseconds since 1970; None where no line tells."""

    trace: Trace
    id: str
    parent_id: str | None
    name: str
    kind: WorkKind
    start: int | None
    end: int | None
    near: int
    """The nearest time that is known, for formats that need one; 0 where there is none."""
    input: Any = None
    output: Any = None
    parts: list[dict[str, Any]] | None = None
    """What a generation said, in the parts of the GenAI conventions."""
    error: str | None = None
    """Why it failed, if it did; empty if that is not to be told."""
    is_interrupted: bool = False
    """Whether the user stopped it."""
    model: str | None = None
    message_id: str | None = None
    request_id: str | None = None
    stop_reason: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    costs_usd: dict[str, float] | None = None
    """The cost by kind of token, as `costs_by_kind` names the kinds."""
    parameters: dict[str, Any] | None = None
    """What is known of how the model was asked: effort, speed, service tier."""
    first_line: int | None = None
    """When a generation's first line was written: its first token came no later."""
    tool: str | None = None
    call_id: str | None = None
    call_count: int | None = None
    """How many tools a generation asked for."""
    active: int | None = None
    """How long the client was at work, in nanoseconds, where it measured that."""
    agent_id: str | None = None
    agent_type: str | None = None
    description: str | None = None
    """What a sub-agent was started for."""
    working_ms: int | None = None
    """Of a turn: as the client measured it, without waiting for the user."""
    elapsed_ms: int | None = None
    """Of a turn: from the prompt to the last answer or result."""
    events: tuple[Event, ...] = ()
    is_final: bool = True
    """Whether nothing more of it is to come: before that, a span is not sent."""

    @property
    def sent_parent(self) -> str | None:
        """The parent that a backend is told: of the first span, the caller's if there is one."""
        return self.parent_id or self.trace.parent_id

    @property
    def begins(self) -> int:
        """Its start, or the nearest time known."""
        return self.near if self.start is None else self.start

    @property
    def ends(self) -> int:
        """Its end; at its start where the end is not known."""
        return self.begins if self.end is None else max(self.begins, self.end)
