"""Convert a session to spans: each turn is a trace of generations, tool calls and sub-agents.

Pure. Ids are derived from the prompt's uuid and the API's own ids, so that exporting again, or
exporting a copy of the same lines from another file, yields the same spans.
"""

import re
from collections import Counter
from collections.abc import Container, Iterator
from hashlib import sha256
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from turnlog.conversation.calls import Call
from turnlog.conversation.cost import cost_of, costs_by_kind
from turnlog.conversation.messages import Message
from turnlog.conversation.nodes import ChainNode
from turnlog.conversation.prompts import LOCAL, full_text, prompt_label
from turnlog.conversation.session import Session
from turnlog.format.blocks import Usage
from turnlog.format.entries import Assistant, ChainEntry, User
from turnlog.format.fields import given
from turnlog.format.json_values import as_object, is_object
from turnlog.trace.forks import ForkedTurn, split_forked
from turnlog.trace.identity import session_id_of
from turnlog.trace.message_parts import entries_of, has_text, parts_of, text_of_parts
from turnlog.trace.span import Parent, Span, ToolPlacement, Trace, WorkKind
from turnlog.trace.span_events import error_of, events_of, is_interrupted
from turnlog.trace.span_times import (
    earliest,
    end_of,
    generation_starts,
    latest,
    latest_child,
    measured_time,
    nanoseconds,
    nearest_time,
    turn_times,
)
from turnlog.trace.work import NOTHING, Crew, Past, Work, all_subagents, turns_of

HELPER = re.compile(r"a([a-z_]{3,})-[0-9a-f]+")
STOPPED = ("user-rejected", "interrupted")
"""Denials that count as an interruption by the user."""
UNKNOWN = "not_available"
"""The API's value for unknown (observed: inference_geo)."""
ERROR_LIMIT = 500
"""Maximum length of an error message; the output contains the complete result."""


class SpanOptions(Struct, frozen=True):
    """Options for creating spans."""

    layout: ToolPlacement = ToolPlacement.SIBLINGS
    user: str | None = None
    tags: tuple[str, ...] = ()
    environment: str | None = None
    release: str | None = None
    version: str | None = None
    parent: Parent | None = None
    """The caller's span: all turns become its children, in its trace. Span ids stay the same."""
    ended: bool = False
    """The session has ended: its last turn and its background sub-agents will not continue."""
    running: frozenset[str] = frozenset()
    """Ids of sub-agents that are still running."""
    settled: bool = False
    """The last turn is over, but the session has not ended."""
    past: Past = NOTHING
    excluded: frozenset[int] = frozenset()
    """Numbers of turns for which no spans are created."""


def spans_of(
    session: Session, options: SpanOptions | None = None, skip: Container[str] = ()
) -> Iterator[Span]:
    """Yield the spans of a session, turn by turn, each parent before its children.

    Spans with ids in `skip` are not created, and their content is not read.
    """
    options = options or SpanOptions()
    turns = turns_of(session, options.past)
    crew = all_subagents(session, turns, options.past)
    loose = loose_by_turn(turns, crew.loose, options.ended)
    near = 0
    for turn in turns:
        near = nearest_time(turn) or near
        # Lines are not always in order: work without a known prompt may get one later.
        is_included = turn.n not in options.excluded
        if is_included and turn.is_answered and (turn.prompt or options.ended):
            is_over = options.ended or turn is not turns[-1]
            context = _SpanContext(None, near, is_over or options.settled)
            forked = split_forked(turn, session_id_of(turn.session))
            for part in _parts_of(turn, forked):
                builder = _SpanBuilder(part, crew, options, skip)
                builder.attribute(forked)
                helpers = [] if forked and part is forked.copied else loose.get(turn.n, [])
                yield from builder.build(context, helpers, is_over)


def _parts_of(turn: Work, forked: ForkedTurn | None) -> list[Work]:
    """Return the parts of a turn that get spans.

    The copied part of a forked turn is included only if the origin's file is missing. That file is
    the better source: the last message may be complete there.
    """
    if forked is None:
        return [turn]
    parts = [forked.own] if forked.origin.is_there else [forked.copied, forked.own]
    return [part for part in parts if part.is_answered or part.calls]


def first_trace(session: Session) -> str | None:
    """Return the id of a session's first trace, which forks and resumed copies share."""
    return next((_trace_id(turn) for turn in turns_of(session)), None)


def loose_by_turn(turns: list[Work], loose: list[Work], ended: bool) -> dict[int, list[Work]]:
    """Return the sub-agents that no call started, by the number of the turn in which they began.

    If that turn was never answered, they count for the last answered turn before it.
    """
    found: dict[int, list[Work]] = {}
    for work in loose:
        began = nearest_time(work)
        before = [turn for turn in turns if began and (nearest_time(turn) or began) <= began]
        home = before[-1] if before else next(iter(turns), None)
        # A turn without an answer gets no spans. The last one may still be answered while the
        # session runs, so its sub-agents stay with it.
        if home and not home.is_answered and (ended or home is not turns[-1]):
            home = next((turn for turn in reversed(before) if turn.is_answered), None)
        if home:
            found.setdefault(home.n, []).append(work)
    return found


class _SpanContext(NamedTuple):
    """The parent, nearest time and finality that a span inherits."""

    parent_id: str | None
    near: int
    is_final: bool


class _Extent(NamedTuple):
    """The latest end of several spans, and whether all of them are final."""

    end: int | None
    is_final: bool


class _SpanBuilder:
    """Builds the spans of one turn."""

    def __init__(self, turn: Work, crew: Crew, options: SpanOptions, skip: Container[str]) -> None:
        self.work = turn
        self.crew = crew
        self.options = options
        self.skip = skip
        self.trace = _trace_of(turn, options)
        self.seed = _trace_id(turn)
        """The base of all span ids, independent of a caller's trace id."""
        self.counts: Counter[str] = Counter()

    def attribute(self, forked: ForkedTurn | None) -> None:
        """Attribute each part of a forked turn to its session."""
        if forked is None:
            return
        origin = forked.origin.session_id
        if self.work.is_continued:
            self.trace = replace(self.trace, forked_from=origin)
        else:
            self.trace = replace(self.trace, session_id=origin)

    def build(self, context: _SpanContext, loose: list[Work], is_over: bool) -> Iterator[Span]:
        """Yield the spans of the turn, and of the client's helpers that ran during it.

        A helper may still be working after its last line, until another turn starts. A helper that
        runs longer than the turn gets its own trace: the turn's span is sent before the helper is
        done, and a root span must not end before its children.
        """
        outer = context
        kinds = [WorkKind.AGENT]
        if self.options.layout is ToolPlacement.NESTED:
            kinds.insert(0, WorkKind.SPAN)
        for kind in kinds:
            name = self._id(kind)
            if name not in self.skip:
                extent = self._extent(self.work, context)
                at = self._at(name, context._replace(is_final=extent.is_final))
                whole = _whole(self.work, context.near, extent.end)
                working, elapsed = turn_times(self.work)
                whole |= {"working_ms": working, "elapsed_ms": elapsed}
                yield Span(name=self.trace.name, kind=kind, **at, **whole)
            context = context._replace(parent_id=name)
        yield from self._inside(self.work, context)
        # Until the turn is final, the call that started a loose sub-agent may still appear.
        for work in loose if context.is_final else []:
            has_ended = is_over and not self._goes_on(work)
            its = self._extent(work, context._replace(is_final=has_ended))
            own_end = max(end_of(self.work) or 0, latest_child(self.work, context.near) or 0)
            if own_end and (its.end or 0) > own_end:
                yield from self._helper(work, outer._replace(is_final=has_ended))
            else:
                yield from self._agent(work, context._replace(is_final=has_ended), {})

    def _helper(self, work: Work, context: _SpanContext) -> Iterator[Span]:
        """Yield the spans of a helper that ran longer than its turn, as a separate trace."""
        assert work.agent, "called for a sub-agent"
        name = f"{self.seed}:{work.agent.id}"
        of_turn, seed = self.trace, self.seed
        self.seed = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        trace_id = self.trace.id if self.options.parent else self.seed
        self.trace = replace(self.trace, id=trace_id, is_helper=True)
        yield from self._agent(work, context, {})
        self.trace, self.seed = of_turn, seed

    def _extent(
        self, work: Work, context: _SpanContext, above: frozenset[str] = frozenset()
    ) -> "_Extent":
        """Return when some work and its sub-agents ended, and whether that is final.

        `above` contains the enclosing sub-agents, to cut cycles in damaged files, such as an agent
        whose call is in its own transcript.
        """
        ends = [end_of(work), latest_child(work, context.near)]
        is_final = context.is_final
        for call in work.calls:
            its = self._started_extent(work, call, context, above)
            ends.append(its.end)
            is_final &= its.is_final
        return _Extent(max(filter(None, ends), default=None), is_final)

    def _started_extent(
        self, work: Work, call: Call, context: _SpanContext, above: frozenset[str]
    ) -> "_Extent":
        """Return the extent of the sub-agents that a call started; final if there are none."""
        ends: list[int | None] = []
        is_final = True
        for agent in self.crew.started.get(call.id, []):
            assert agent.agent, "started by a call"
            if agent.agent.id in above:
                continue
            has_ended = self._has_ended(agent, call, work.session.detail(call).structured, context)
            near = nearest_time(agent) or context.near
            inner = _SpanContext(None, near, has_ended)
            its = self._extent(agent, inner, above | {agent.agent.id})
            ends.append(its.end)
            is_final &= its.is_final
        return _Extent(max(filter(None, ends), default=None), is_final)

    def _inside(self, work: Work, context: _SpanContext) -> Iterator[Span]:
        """Yield the generations and tool calls of a turn or sub-agent, and its sub-agents."""
        starts = generation_starts(work)
        calls: dict[int, list[Call]] = {}
        for call in work.calls:
            calls.setdefault(call.use.index, []).append(call)
        messages = work.model_messages
        if work.is_continued:  # the messages with these calls are in the origin's trace
            known = {node.index for message in messages for node in message.nodes}
            for call in work.calls:
                if call.use.index not in known:
                    yield from self._tool(work, call, context)
        for message in messages:
            name = self._id(WorkKind.GENERATION, message.id or _name_of(work, message.nodes[0]))
            own = [call for node in message.nodes for call in calls.get(node.index, [])]
            if name not in self.skip:
                is_final = context.is_final or message is not messages[-1]
                yield Span(
                    start=starts[message.nodes[0].index],
                    input=_input_of(work) if message is messages[0] else None,
                    call_count=len(own),
                    **self._at(name, context._replace(is_final=is_final)),
                    **_generation(work, message),
                )
            nested = self.options.layout is ToolPlacement.NESTED
            inner = context._replace(parent_id=name) if nested else context
            for call in own:
                yield from self._tool(work, call, inner)

    def _tool(self, work: Work, call: Call, context: _SpanContext) -> Iterator[Span]:
        name = self._id(WorkKind.TOOL, call.id or _name_of(work, call.use))
        if name not in self.skip:
            started = self._started_extent(work, call, context, frozenset())
            is_final = (context.is_final or call.result is not None) and started.is_final
            values = _tool(work, call)
            values["end"] = max(filter(None, (values["end"], started.end)), default=None)
            yield Span(**self._at(name, context._replace(is_final=is_final)), **values)
        # Sub-agents are removed once built, so that a call that occurs again, in a cycle or a copy,
        # does not build them twice.
        for agent in self.crew.started.pop(call.id, []):
            detail = work.session.detail(call)
            is_final = self._has_ended(agent, call, detail.structured, context)
            given_input = as_object(detail.input)
            yield from self._agent(agent, _SpanContext(name, context.near, is_final), given_input)

    def _agent(
        self, work: Work, context: _SpanContext, call_input: dict[str, Any]
    ) -> Iterator[Span]:
        assert work.agent, "called for a sub-agent"
        name = self._id(WorkKind.AGENT, work.agent.id)
        near = nearest_time(work) or context.near
        if name not in self.skip:
            extent = self._extent(work, context._replace(near=near), frozenset({work.agent.id}))
            meta = work.agent.meta
            kind = (
                meta.get("agentType")
                or call_input.get("subagent_type")
                or _helper_type(work.agent.id)
            )
            about = meta.get("description") or call_input.get("description")
            yield Span(
                name=str(kind or "agent"),
                kind=WorkKind.AGENT,
                agent_id=work.agent.id,
                agent_type=str(kind) if kind else None,
                description=str(about) if about else None,
                **self._at(name, context._replace(near=near, is_final=extent.is_final)),
                **_whole(work, near, extent.end),
            )
        yield from self._inside(work, context._replace(parent_id=name, near=near))

    def _has_ended(self, work: Work, call: Call, result: Any, context: _SpanContext) -> bool:
        """Return whether a sub-agent has ended; one in the background may outlive the turn."""
        assert work.agent, "called for a sub-agent"
        if self._goes_on(work):
            return False
        if self.options.ended or work.agent.meta.get("finished") is True:
            return True
        if call.result is None:
            return context.is_final
        # An asynchronous agent's call returns at once: its end is known from a notification.
        is_async = is_object(result) and (
            result.get("status") == "async_launched" or result.get("isAsync") is True
        )
        return not is_async or not {work.agent.id, call.id}.isdisjoint(self.crew.notified)

    def _goes_on(self, work: Work) -> bool:
        return work.agent is not None and work.agent.id in self.options.running

    def _at(self, name: str, context: _SpanContext) -> dict[str, Any]:
        return {"trace": self.trace, "id": name, **context._asdict()}

    def _id(self, kind: WorkKind, name: str = "") -> str:
        """Return the id of a span; a name that occurs again in the trace gets a counter."""
        text = f"{self.seed}:{kind}:{name}"
        self.counts[text] += 1
        # Converted or damaged files may repeat an id. The order of the file is stable, so a counter
        # yields the same span ids in every export.
        again = f"#{self.counts[text]}" if self.counts[text] > 1 else ""
        return sha256(f"{text}{again}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _helper_type(name: str) -> str | None:
    """Return the type that the client puts into the id of its own helpers.

    >>> _helper_type("aprompt_suggestion-d8e8c8"), _helper_type("a1b2c3d")
    ('prompt_suggestion', None)
    """
    found = HELPER.fullmatch(name)
    return found[1] if found else None


def _whole(work: Work, near: int, end: int | None) -> dict[str, Any]:
    """Return the span fields that turns and sub-agents have in common."""
    return {
        "start": nanoseconds(work.first.time),
        "end": end,
        "input": _input_of(work),
        "output": _output_of(work),
        "error": error_of(work),
        "is_interrupted": is_interrupted(work),
        "active": measured_time(work),
        "events": events_of(work, near),
    }


def _generation(work: Work, message: Message) -> dict[str, Any]:
    entries = entries_of(work.session, message)
    parts = parts_of(entries)
    usage = message.usage if any(node.usage for node in message.nodes) else None
    requests = (given(entry.request_id) for entry in entries)
    return {
        "name": message.model or "unknown",
        "kind": WorkKind.GENERATION,
        "end": latest(message.nodes),
        "output": {"role": "assistant", "content": text_of_parts(parts)},
        "parts": parts,
        "model": message.model,
        "message_id": message.id,
        "request_id": next(filter(None, requests), None),
        "stop_reason": message.stop_reason,
        "usage": usage,
        "cost_usd": _cost(message) if usage else None,
        "costs_usd": _costs(message) if usage else None,
        "parameters": _parameters(entries, usage),
        "first_line": earliest(message.nodes),
        "is_interrupted": any(given(entry.is_aborted_mid_stream) for entry in entries),
    }


def _cost(message: Message) -> float | None:
    cost = cost_of(message.model, message.usage, message.started)
    return None if cost is None else round(cost, 9)


def _costs(message: Message) -> dict[str, float] | None:
    return costs_by_kind(message.model, message.usage, message.started)


def _parameters(entries: list[Assistant], usage: Usage | None) -> dict[str, str] | None:
    """Return the request parameters that the session records.

    Effort is a field of the lines (observed: 2.1.325); speed, tier and region are in the usage.
    """
    efforts = (given(entry.per_turn_effort) or given(entry.effort) for entry in entries)
    found = {"effort": next(filter(None, efforts), None)}
    for name in ("speed", "service_tier", "inference_geo"):
        found[name] = given(getattr(usage, name)) if usage else None
    return {name: value for name, value in found.items() if value and value != UNKNOWN} or None


def _tool(work: Work, call: Call) -> dict[str, Any]:
    detail = work.session.detail(call)
    why = detail.result or detail.denial or ""
    return {
        "name": call.name or "tool",
        "kind": WorkKind.TOOL,
        "start": nanoseconds(call.use.time),
        "end": latest([call.result]),
        "input": detail.input,
        "output": detail.result,
        "error": why[:ERROR_LIMIT] if call.is_error else None,
        "is_interrupted": detail.is_interrupted or detail.denial in STOPPED,
        "tool": call.name,
        "call_id": call.id,
    }


def _input_of(work: Work) -> dict[str, str] | None:
    entry = work.session.entry(work.prompt) if work.prompt else None
    if not work.prompt or not isinstance(entry, User):
        return None
    # The text of a local command is markup: show it as the user typed it.
    text = prompt_label(entry) if work.prompt.prompt in LOCAL else full_text(entry)
    return {"role": "user", "content": text}


def _output_of(work: Work) -> dict[str, str] | None:
    last = next(filter(has_text, reversed(work.model_messages)), None)
    if last is None:
        return None
    text = text_of_parts(parts_of(entries_of(work.session, last)))
    return {"role": "assistant", "content": text}


def _trace_of(turn: Work, options: SpanOptions) -> Trace:
    entry = turn.session.entry(turn.first)
    entry = entry if isinstance(entry, ChainEntry) else ChainEntry()
    parent = options.parent
    return Trace(
        id=parent.trace_id if parent else _trace_id(turn),
        parent_id=parent.span_id if parent else None,
        session_id=session_id_of(turn.session),
        turn_number=turn.n,
        user=options.user,
        tags=options.tags,
        environment=options.environment,
        release=options.release,
        app_version=options.version,
        prompt_id=given(entry.prompt_id) if isinstance(entry, User) else None,
        prompt_kind=turn.prompt.prompt if turn.prompt else None,
        permission_mode=turn.prompt.permission_mode if turn.prompt else None,
        version=given(entry.version),
        slug=given(entry.slug),
        cwd=given(entry.cwd),
        git_branch=given(entry.git_branch),
    )


def _trace_id(turn: Work) -> str:
    name = _name_of(turn, turn.first)
    if turn.is_continued:
        # Both sessions have the same prompt: the session's id separates their traces.
        assert turn.prompt, "the prompt is a copy"
        name = f"{_name_of(turn, turn.prompt)}:{session_id_of(turn.session)}"
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _name_of(work: Work, node: ChainNode) -> str:
    """Return a stable name of a line: its uuid, or else its session and line number."""
    return node.uuid or f"{session_id_of(work.session)}:{node.line}"
