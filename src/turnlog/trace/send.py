"""A session brought up to date at a target: what is final and was not sent yet."""

from collections.abc import Iterable, Iterator, Set
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from turnlog.conversation.session import Session
from turnlog.trace.content import ContentPolicy
from turnlog.trace.sent_state import State
from turnlog.trace.span import Span, Trace
from turnlog.trace.spans import SpanOptions, spans_of
from turnlog.trace.targets import Target

if TYPE_CHECKING:
    from turnlog.trace.otlp import ExportOutcome


class Sending(Protocol):
    """What takes spans to a target."""

    def send(self, spans: Iterable[Span]) -> "Iterator[ExportOutcome]": ...


class SendReport(Struct):
    """What was sent of a session."""

    session: str
    turns: int = 0
    """Turns of which something was sent."""
    sent: int = 0
    """Spans that the target took."""
    skipped: int = 0
    """Spans that it had already."""
    open: int = 0
    """Spans of which more is to come: they are sent once they are final."""
    failed: int = 0
    """Spans that it did not take."""
    refused: int = 0
    """Those of them that it would refuse again."""
    reason: str | None = None
    """Why it did not."""
    is_later: bool = False
    """Whether the same may succeed later."""
    target: str | None = None
    """The target's address."""
    traces: list[str] = []
    """The ids of the traces of which something was sent."""
    links: list[str] = []
    """Where the backend shows them, if that can be told."""


def send_session(
    session: Session,
    exporter: Sending,
    state: State,
    options: SpanOptions,
    content: ContentPolicy,
    skip: Set[str],
) -> SendReport:
    """Send what is final of a session and not to be skipped; remember what the target took."""
    from turnlog.trace.request_outcome import BatchOutcome

    report = SendReport(session.id)
    known = _Known(frozenset(skip))
    made: dict[str, Trace] = {}
    taken: set[str] = set()
    spans = _sendable(spans_of(session, options, known), report, made)
    for outcome in exporter.send(content.of(span) for span in spans):
        taken.update(outcome.accepted)
        if outcome.accepted or outcome.refused:
            state.add(outcome.accepted, outcome.refused)
        report.refused += len(outcome.refused)
        report.reason = outcome.reason or report.reason
        report.is_later |= outcome.verdict is BatchOutcome.LATER
    for _ in spans:  # what was not even tried counts as failed
        pass
    report.turns = len({made[name].turn_number for name in taken})
    report.traces = list(dict.fromkeys(made[name].id for name in made if name in taken))
    report.sent, report.failed = len(taken), len(made) - len(taken)
    report.skipped = known.hits
    return report


def add_links(report: SendReport, target: Target) -> SendReport:
    """Complete a report with the target's address and the links to its traces."""
    report.target = target.address
    report.links = [link for trace in report.traces if (link := target.link_to(trace))]
    return report


class _Known:
    """The ids of what was sent, counting those that are met."""

    def __init__(self, ids: Set[str]) -> None:
        self.ids = ids
        self.hits = 0

    def __contains__(self, name: object) -> bool:
        is_known = name in self.ids
        self.hits += is_known
        return is_known


def _sendable(spans: Iterator[Span], report: SendReport, made: dict[str, Trace]) -> Iterator[Span]:
    """Yield the spans that are final, noting the trace of each by its id."""
    for span in spans:
        if span.is_final:
            made[span.id] = span.trace
            yield span
        else:
            report.open += 1
