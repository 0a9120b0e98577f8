"""Send the new spans of a session that hooks announced, along one route.

Only final spans are sent, each once; the progress is saved after every delivery.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from turnlog.conversation.session import Session, open_session
from turnlog.store.catalog import dead_sessions, live_sessions
from turnlog.store.paths import Store
from turnlog.trace.cc_langfuse import ids_sent
from turnlog.trace.content import ContentPolicy
from turnlog.trace.ownership import Ownership
from turnlog.trace.progress import SendProgress, load_progress, save_progress
from turnlog.trace.send import SendReport, add_links, send_session
from turnlog.trace.sent_state import SentState, open_state
from turnlog.trace.settle import Patience, wait_for_end, wait_for_turn
from turnlog.trace.span import Span, parse_traceparent
from turnlog.trace.spans import SpanOptions, first_trace, spans_of
from turnlog.trace.spool import HookNote, find_intrusion
from turnlog.trace.targets import Target
from turnlog.trace.trace_settings import Temporality, TraceSettings
from turnlog.trace.unsent_tail import is_tail_sufficient, mark_at, open_tail, sizes_of
from turnlog.trace.work import NOTHING, turns_of

if TYPE_CHECKING:
    from turnlog.trace.metrics import Metered
    from turnlog.trace.otlp import Exporter, ExportOutcome

IDLE = 600.0
"""Seconds without change after which a session without a running client counts as ended."""
TURNING = ("Stop", "SessionEnd", "SessionStart")
"""Hook events that show whether the last turn of a session is over."""


class DeliveryJob(NamedTuple):
    """The notes of one session on one route."""

    notes: Sequence[HookNote]
    """The oldest first."""

    @property
    def last(self) -> HookNote:
        """The note that best describes the session's state: an end counts until the next start.

        The order of notes is not reliable: hooks of one event run concurrently.
        """
        turning = [note for note in self.notes if note.event in TURNING]
        starts = [rank for rank, note in enumerate(turning) if note.event == "SessionStart"]
        since = turning[starts[-1] :] if starts else turning
        ends = [note for note in since if note.event == "SessionEnd"]
        return (ends or turning or list(self.notes))[-1]

    @property
    def newest(self) -> HookNote:
        """The most recent note: its credentials are current."""
        return self.notes[-1]

    @property
    def path(self) -> Path | None:
        """The session's file, which is elsewhere in the store if its project was moved."""
        named = self.last.transcript
        if named.is_file():
            return named
        found = self.store.projects.glob(f"*/{named.name}")
        return next((path for path in found if not find_intrusion(path, self.store.root)), None)

    @property
    def store(self) -> Store:
        """The store of the client that ran the hook, never that of this process."""
        return Store(Path(self.last.route.store))


class Meters(NamedTuple):
    """Where metric totals are stored, and in which form they are sent."""

    folder: Path
    temporality: Temporality
    project: str


class LazyConnection:
    """A connection to a target that is opened on first use."""

    def __init__(self, target: Target, timeout: float, meters: "Meters | None" = None) -> None:
        self.target = target
        self.timeout = timeout
        self.meters = meters

    @cached_property
    def exporter(self) -> "Exporter":
        """The exporter; importing and connecting are deferred until there is a span to send."""
        from turnlog.trace.otlp import Exporter

        return Exporter(self.target, self.timeout)

    @property
    def has_timed_out(self) -> bool:
        """True if the target did not answer the last request in time."""
        return "exporter" in self.__dict__ and self.exporter.has_timed_out

    @cached_property
    def metered(self) -> "Metered":
        """The exporter, wrapped so that accepted spans are counted."""
        from turnlog.trace.metrics import Metered, MetricStore

        assert self.meters, "used only if metrics are on"
        meter = MetricStore(
            self.meters.folder, self.target, self.meters.temporality, self.meters.project
        )
        return Metered(self.exporter, meter)

    def send(self, spans: Iterable[Span]) -> "Iterator[ExportOutcome]":
        """Send spans, if there are any."""
        remaining = iter(spans)
        for first in remaining:
            sending = self.metered if self.meters else self.exporter
            yield from sending.send(chain([first], remaining))
            return

    def close(self) -> str | None:
        """Send metrics if they are on, then close; return the error if sending metrics failed."""
        if "exporter" not in self.__dict__:
            return None
        if self.meters:
            self.metered.meter.export(self.exporter)
        self.exporter.__exit__()
        return self.metered.meter.reason if self.meters else None


class Delivery(NamedTuple):
    """Delivers the sessions of one route."""

    folder: Path
    """The state folder, which records what was sent."""
    settings: TraceSettings
    line: LazyConnection
    patience: Patience
    ownership: Ownership

    def progress(self, path: Path) -> SendProgress | None:
        """Return how far a session was sent before."""
        return load_progress(self.folder, self.line.target.name, path.stem)

    def deliver(self, job: DeliveryJob, path: Path) -> SendReport:
        """Send the final spans of a session, and save the progress."""
        before = self.progress(path)
        target = self.line.target.name
        session, options = self._read(job, path, before)
        turns = turns_of(session, options.past)
        foreign = self.ownership.foreign_turns(session, turns, options.past)
        options = replace(options, excluded=frozenset(foreign))
        first = before.first if before else first_trace(session)
        if first is None:  # the session has no turn yet
            return SendReport(session.id)
        progress = before or SendProgress(session.id, str(path), first)
        # Sizes from before the files are read: a sub-agent's file that grows meanwhile is then
        # detected as changed next time.
        sizes = sizes_of(session)
        with open_state(self.folder, target, first) as state:
            if before is None and self.settings.to == "langfuse":
                state.add(ids_sent(job.store, session, options))
            report = self._send(session, state, options)
            known = state.sent | state.refused
        # The next delivery starts reading at the first turn that still has unsent spans.
        unsent = _turns_in(spans_of(session, options, known))
        progress.path = str(path)
        progress.seen, progress.size = job.newest.time, session.state.size
        progress.mark = mark_at(session, options, unsent, sizes) or progress.mark
        progress.turns = max((turn.n for turn in turns), default=0)
        if any(foreign.values()) or progress.withheld:
            unsent = _turns_in(spans_of(session, replace(options, excluded=frozenset()), known))
            reasons = {n: reason for n, reason in foreign.items() if n in unsent}
            progress.withheld = _withheld(progress.withheld, options.past.turns, reasons)
        _count(progress, report)
        save_progress(self.folder, target, progress)
        return report

    def _read(
        self, job: DeliveryJob, path: Path, before: SendProgress | None
    ) -> tuple[Session, SpanOptions]:
        """Return the part of a session with unsent turns, after waiting for its last lines."""
        mark = before.mark if before else None
        session, past = open_tail(path, mark)
        options = self._options(job, session)
        if before and not before.open and before.size == session.state.size:
            # Everything was final when the file was read before, and it has not grown since.
            options = replace(options, settled=True)
        if mark and past is not NOTHING and not is_tail_sufficient(session, past, mark):
            session, past = open_session(path), NOTHING
        return session, replace(options, past=past)

    def _options(self, job: DeliveryJob, session: Session) -> SpanOptions:
        """Return the span options; they include whether the session or its last turn is over."""
        last = job.last
        has_ended = last.event == "SessionEnd" or is_over(job.store, session.path)
        is_settled = last.event == "Stop" and wait_for_turn(session, last, self.patience)
        if last.event == "SessionEnd":
            wait_for_end(session, self.patience, last.time)
        return SpanOptions(
            layout=self.settings.layout,
            **self.settings.labels,
            parent=parse_traceparent(job.last.fields.get("traceparent")),
            ended=has_ended,
            settled=is_settled,
            running=frozenset() if has_ended else last.running,
        )

    def _send(self, session: Session, state: SentState, options: SpanOptions) -> SendReport:
        """Send the final spans; continue after a batch that was permanently refused."""
        content = ContentPolicy(self.settings.content, self.settings.max_chars)
        reports = [SendReport(session.id)]
        while not reports[1:] or (reports[-1].refused and not reports[-1].is_later):
            skip = state.sent | state.refused
            reports.append(send_session(session, self.line, state, options, content, skip))
        return add_links(_summed(reports), self.line.target)


def is_over(store: Store, path: Path) -> bool:
    """Return whether a session has ended: its client died, or none has it open and it is idle."""
    if path.stem in live_sessions(store):
        return False
    is_idle = time.time() - path.stat().st_mtime > IDLE
    return is_idle or path.stem in dead_sessions(store)


def _turns_in(spans: Iterable[Span]) -> set[int]:
    return {span.trace.turn_number for span in spans}


def _withheld(
    before: Mapping[str, Sequence[int]], past: int, reasons: Mapping[int, str]
) -> dict[str, list[int]]:
    """Return unsent turns by the reason they are withheld: of the first `past` turns as before.

    So are turns of other routes, without a reason: their own delivery gave one, or sends them.
    """
    found = {
        reason: [n for n in numbers if n <= past or reasons.get(n) == ""]
        for reason, numbers in before.items()
    }
    for n, reason in reasons.items():
        if reason:
            found.setdefault(reason, []).append(n)
    return {reason: numbers for reason, numbers in found.items() if numbers}


def _summed(reports: Sequence[SendReport]) -> SendReport:
    last = reports[-1]
    last.sent = sum(report.sent for report in reports)
    last.turns = sum(report.turns for report in reports)
    refused = sum(report.refused for report in reports)
    last.failed, last.refused = last.failed - last.refused + refused, refused
    last.traces = list(dict.fromkeys(trace for report in reports for trace in report.traces))
    reasons = [report.reason for report in reports if report.reason]
    last.reason = reasons[-1] if reasons else None
    return last


def _count(progress: SendProgress, report: SendReport) -> None:
    progress.spans += report.sent
    progress.open = report.open
    progress.unsent = report.failed - report.refused
    progress.refused += report.refused
    progress.reason = report.reason if report.refused else progress.reason
    progress.link = report.links[-1] if report.links else progress.link
