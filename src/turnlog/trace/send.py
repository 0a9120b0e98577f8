"""Send the final spans of a session that a target does not have yet, and record them as sent."""

from collections.abc import Iterable, Iterator, Set
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from turnlog.conversation.session import Session
from turnlog.trace.content import ContentPolicy
from turnlog.trace.sent_state import SentState
from turnlog.trace.span import Span, Trace
from turnlog.trace.spans import SpanOptions, spans_of
from turnlog.trace.targets import Target

if TYPE_CHECKING:
    from turnlog.trace.otlp import ExportOutcome


class Sending(Protocol):
    """Something that sends spans to a target."""

    def send(self, spans: Iterable[Span]) -> "Iterator[ExportOutcome]": ...


class SendReport(Struct):
    """The result of sending a session."""

    session: str
    turns: int = 0
    """Number of turns with spans that were sent."""
    sent: int = 0
    """Number of spans that the target accepted."""
    skipped: int = 0
    """Number of spans that were sent before."""
    open: int = 0
    """Number of spans that are not final yet and will be sent later."""
    failed: int = 0
    """Number of spans that the target did not accept."""
    refused: int = 0
    """Number of failed spans that the target would refuse again."""
    reason: str | None = None
    """Error messages of failed spans."""
    is_later: bool = False
    """True if a retry may succeed."""
    target: str | None = None
    """The target's address."""
    traces: list[str] = []
    """Ids of the traces with spans that were sent."""
    links: list[str] = []
    """URLs of the traces in the backend's UI, if known."""


def send_session(
    session: Session,
    exporter: Sending,
    state: SentState,
    options: SpanOptions,
    content: ContentPolicy,
    skip: Set[str],
) -> SendReport:
    """Send the final spans of a session except those in `skip`; record those accepted."""
    from turnlog.trace.request_outcome import BatchOutcome

    report = SendReport(session.id)
    known = _Known(frozenset(skip))
    made: dict[str, Trace] = {}
    taken: set[str] = set()
    spans = _sendable(spans_of(session, options, known), report, made)
    for outcome in exporter.send(content.of(span) for span in spans):
        # Saved after every batch: if the process dies, at most one batch is sent twice, with the
        # same ids.
        taken.update(outcome.accepted)
        if outcome.accepted or outcome.refused:
            state.add(outcome.accepted, outcome.refused)
        report.refused += len(outcome.refused)
        report.reason = outcome.reason or report.reason
        report.is_later |= outcome.verdict is BatchOutcome.LATER
    for _ in spans:  # consume the rest: spans that were not even tried count as failed
        pass
    report.turns = len({made[name].turn_number for name in taken})
    report.traces = list(dict.fromkeys(made[name].id for name in made if name in taken))
    report.sent, report.failed = len(taken), len(made) - len(taken)
    report.skipped = known.hits
    return report


def add_links(report: SendReport, target: Target) -> SendReport:
    """Add the target's address and the links to its traces to a report."""
    report.target = target.address
    report.links = [link for trace in report.traces if (link := target.link_to(trace))]
    return report


class _Known:
    """The ids of spans to skip; counts how many of them were skipped."""

    def __init__(self, ids: Set[str]) -> None:
        self.ids = ids
        self.hits = 0

    def __contains__(self, name: object) -> bool:
        is_known = name in self.ids
        self.hits += is_known
        return is_known


def _sendable(spans: Iterator[Span], report: SendReport, made: dict[str, Trace]) -> Iterator[Span]:
    """Yield the final spans, and store the trace of each in `made`; count the others as open."""
    for span in spans:
        if span.is_final:
            made[span.id] = span.trace
            yield span
        else:
            report.open += 1
