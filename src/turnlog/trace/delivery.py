"""Bring one session up to date at the target of a route, as far as hooks announced it."""

import time
from collections.abc import Iterable, Iterator, Sequence
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
from turnlog.trace.sent_state import State, open_state
from turnlog.trace.settle import Patience, wait_for_end, wait_for_turn
from turnlog.trace.span import Span, parse_traceparent
from turnlog.trace.spans import SpanOptions, first_trace, spans_of
from turnlog.trace.spool import HookNote, find_intrusion
from turnlog.trace.tail import is_enough, mark_at, open_end, sizes_of
from turnlog.trace.targets import Target
from turnlog.trace.trace_settings import Temporality, TraceSettings
from turnlog.trace.work import NOTHING, turns_of

if TYPE_CHECKING:
    from turnlog.trace.metrics import Metered
    from turnlog.trace.otlp import Exporter, ExportOutcome

IDLE = 600.0
"""Seconds after which a session that no running client names as its own is over."""
TURNING = ("Stop", "SessionEnd", "SessionStart")
"""Events that tell whether a session's last turn is over."""


class DeliveryJob(NamedTuple):
    """The notes on one session."""

    notes: Sequence[HookNote]
    """The oldest first."""

    @property
    def last(self) -> HookNote:
        """The note that tells most of how things stand: an end counts until another start.

        Hooks that run at once leave their notes in no reliable order.
        """
        turning = [note for note in self.notes if note.event in TURNING]
        starts = [rank for rank, note in enumerate(turning) if note.event == "SessionStart"]
        since = turning[starts[-1] :] if starts else turning
        ends = [note for note in since if note.event == "SessionEnd"]
        return (ends or turning or list(self.notes))[-1]

    @property
    def newest(self) -> HookNote:
        """The note that was left last: its credentials are the current ones."""
        return self.notes[-1]

    @property
    def path(self) -> Path | None:
        """The session's file; elsewhere in the same store if its project was moved since."""
        named = self.last.transcript
        if named.is_file():
            return named
        found = self.store.projects.glob(f"*/{named.name}")
        return next((each for each in found if not find_intrusion(each, self.store.root)), None)

    @property
    def store(self) -> Store:
        """The store of the client that called the hook, never that of this process."""
        return Store(Path(self.last.route.store))


class Meters(NamedTuple):
    """Where metrics are counted, and in which form they are sent."""

    folder: Path
    temporality: Temporality
    project: str


class LazyConnection:
    """A connection to a target that is opened when there is something to send."""

    def __init__(self, target: Target, timeout: float, meters: "Meters | None" = None) -> None:
        self.target = target
        self.timeout = timeout
        self.meters = meters

    @cached_property
    def exporter(self) -> "Exporter":
        from turnlog.trace.otlp import Exporter

        return Exporter(self.target, self.timeout)

    @property
    def has_timed_out(self) -> bool:
        """Whether the target did not answer the last request in time."""
        return "exporter" in self.__dict__ and self.exporter.has_timed_out

    @cached_property
    def metered(self) -> "Metered":
        from turnlog.trace.metrics import Metered, MetricStore

        assert self.meters, "asked for where metrics are wanted"
        meter = MetricStore(
            self.meters.folder, self.target, self.meters.temporality, self.meters.project
        )
        return Metered(self.exporter, meter)

    def send(self, spans: Iterable[Span]) -> "Iterator[ExportOutcome]":
        """Send spans, if there are any."""
        left = iter(spans)
        for first in left:
            sending = self.metered if self.meters else self.exporter
            yield from sending.send(chain([first], left))
            return

    def close(self) -> str | None:
        """Send metrics, where they are wanted, and close; return why they could not be sent."""
        if "exporter" not in self.__dict__:
            return None
        if self.meters:
            self.metered.meter.export(self.exporter)
        self.exporter.__exit__()
        return self.metered.meter.reason if self.meters else None


class Delivery(NamedTuple):
    """How the sessions of one route are sent."""

    folder: Path
    """Where it is remembered what was sent."""
    settings: TraceSettings
    line: LazyConnection
    patience: Patience
    ownership: Ownership

    def progress(self, path: Path) -> SendProgress | None:
        """How far a session was sent before."""
        return load_progress(self.folder, self.line.target.name, path.stem)

    def deliver(self, job: DeliveryJob, path: Path) -> SendReport:
        """Send what is final of a session, and remember how far it got."""
        before = self.progress(path)
        target = self.line.target.name
        session, options = self._read(job, path, before)
        turns = turns_of(session, options.past)
        foreign = self.ownership.foreign_turns(session, turns, options.past)
        options = replace(options, excluded=foreign)
        first = before.first if before else first_trace(session)
        if first is None:  # nobody has said anything yet
            return SendReport(session.id)
        progress = before or SendProgress(session.id, str(path), first)
        sizes = sizes_of(session)
        with open_state(self.folder, target, first) as state:
            if before is None and self.settings.to == "langfuse":
                state.add(ids_sent(job.store, session, options))
            report = self._send(session, state, options)
            known = state.sent | state.refused
        unsent = {span.trace.turn_number for span in spans_of(session, options, known)}
        progress.path = str(path)
        progress.seen, progress.size = job.newest.time, session.state.size
        progress.mark = mark_at(session, options, unsent, sizes) or progress.mark
        progress.turns = max((turn.n for turn in turns_of(session, options.past)), default=0)
        _count(progress, report)
        save_progress(self.folder, target, progress)
        return report

    def _read(
        self, job: DeliveryJob, path: Path, before: SendProgress | None
    ) -> tuple[Session, SpanOptions]:
        """As much of a session as is needed, once its last lines are there."""
        mark = before.mark if before else None
        session, past = open_end(path, mark)
        options = self._options(job, session)
        if before and not before.open and before.size == session.state.size:
            # All of it was found to be final before.
            options = replace(options, settled=True)
        if mark and past is not NOTHING and not is_enough(session, past, mark):
            session, past = open_session(path), NOTHING
        return session, replace(options, past=past)

    def _options(self, job: DeliveryJob, session: Session) -> SpanOptions:
        """How things stand with a session: is it over, or its last turn, or neither."""
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

    def _send(self, session: Session, state: State, options: SpanOptions) -> SendReport:
        """Send; where a batch was refused for good, go on with the next."""
        content = ContentPolicy(self.settings.content, self.settings.max_chars)
        reports = [SendReport(session.id)]
        while not reports[1:] or (reports[-1].refused and not reports[-1].is_later):
            skip = state.sent | state.refused
            reports.append(send_session(session, self.line, state, options, content, skip))
        return add_links(_summed(reports), self.line.target)


def is_over(store: Store, path: Path) -> bool:
    """Whether no client goes on with a session, as far as can be told."""
    if path.stem in live_sessions(store):
        return False
    is_idle = time.time() - path.stat().st_mtime > IDLE
    return is_idle or path.stem in dead_sessions(store)


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
