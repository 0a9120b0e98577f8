"""Judge the spans that a backend received: missing, duplicated or different ones."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from opentelemetry.proto.trace.v1.trace_pb2 import Span as SentSpan

from support.otlp_receiver import Received, attributes
from support.plays import Script
from turnlog.trace.attributes import attributes_of
from turnlog.trace.span import Span

AGENT = "Agent|Task"
"""The tool that starts a sub-agent, by its names in newer and in older clients."""
UNSET, OK, ERROR = range(3)
Facts = dict[str, Any]


class Play(NamedTuple):
    """A script, and the minimum content of its trace."""

    script: Script
    output: str
    spans: list[str]
    """The names of those below the turn."""


def faults(
    wanted: list[Span],
    received: list[Received],
    played: Iterable[str],
    plays: Mapping[str, Play],
) -> Iterator[str]:
    """Compare the received spans with those to be sent, and with the scripts."""
    sent = [span for each in received for span in each.spans]
    yield from _differences(wanted, sent)
    yield from _gaps(sent, Counter(played), plays)


def _differences(wanted: list[Span], sent: list[SentSpan]) -> Iterator[str]:
    variants: dict[str, list[Span]] = {}
    for span in wanted:  # a fork has its own variant of what it copied
        variants.setdefault(span.id, []).append(span)
    counts = Counter(span.span_id.hex() for span in sent)
    for name, spans in variants.items():
        if not counts[name]:
            yield f"missing: {_told(spans[0])}"
    for span in sent:
        name = span.span_id.hex()
        if counts[name] > 1:
            yield f"sent {counts[name]} times: {span.name} {name}"
        if name not in variants:
            yield f"not to be sent: {span.name} {name}"
        else:
            yield from _compared(variants[name], _facts_in(span))


def _compared(variants: list[Span], found: Facts) -> Iterator[str]:
    expected = [_facts_of(span) for span in variants]
    if found not in expected:
        for field in sorted(expected[0].keys() | found.keys()):
            value, got = expected[0].get(field), found.get(field)
            if got != value:
                yield f"{_told(variants[0])}: {field} {got!r} instead of {value!r}"


def _told(span: Span) -> str:
    return f"{span.kind} {span.name} of {span.trace.name} in {span.trace.session_id[:8]}"


def _facts_of(span: Span) -> Facts:
    lists = {k: list(v) if isinstance(v, tuple) else v for k, v in attributes_of(span).items()}
    return {
        "name": span.name,
        "trace": span.trace.id,
        "parent": span.parent_id or "",
        "times": (span.begins, span.ends),
        "status": ERROR if span.error is not None else UNSET if span.is_interrupted else OK,
        "events": [(event.name, event.facts | event.texts) for event in span.events],
        **lists,
    }


def _facts_in(span: SentSpan) -> Facts:
    return {
        "name": span.name,
        "trace": span.trace_id.hex(),
        "parent": span.parent_span_id.hex(),
        "times": (span.start_time_unix_nano, span.end_time_unix_nano),
        "status": span.status.code,
        "events": [(event.name, attributes(event)) for event in span.events],
        **attributes(span),
    }


def _gaps(sent: list[SentSpan], played: Counter[str], plays: Mapping[str, Play]) -> Iterator[str]:
    """Return what was played but is in no trace."""
    traces: dict[bytes, list[SentSpan]] = {}
    for span in sent:
        traces.setdefault(span.trace_id, []).append(span)
    found: Counter[str] = Counter()
    for spans in traces.values():
        root = next((span for span in spans if not span.parent_span_id), None)
        prompt = attributes(root)["input.value"].removeprefix("PLAY:") if root else ""
        found[prompt] += 1
        if root and prompt in plays:
            yield from _shortfalls(prompt, plays[prompt], root, spans)
    for name, count in played.items():
        if found[name] != count:
            yield f"{found[name]} traces of {name!r} instead of {count}"


def _shortfalls(name: str, play: Play, root: SentSpan, spans: list[SentSpan]) -> Iterator[str]:
    output = attributes(root).get("output.value")
    if output != play.output:
        yield f"{name!r}: the turn's output is {output!r} instead of {play.output!r}"
    lacking = Counter(play.spans) - Counter(_general(span.name) for span in spans)
    if lacking:
        yield f"{name!r}: lacks {dict(lacking)}"


def _general(name: str) -> str:
    return AGENT if name in AGENT.split("|") else name
