"""The sender: processes the notes in the spool, and delivers each along its own route.

A hook of any project may start a sender, so it never reads its own environment: each route is sent
with the settings and credentials of its own notes. A note is removed when all final spans of its
session are sent. Each target has its own queue, lock and thread, so none delays another.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from turnlog.errors import TurnlogError, UsageError
from turnlog.trace.backfill import find_missed
from turnlog.trace.delivery import Delivery, DeliveryJob, LazyConnection, Meters, is_over
from turnlog.trace.ledger import Ledger
from turnlog.trace.ownership import Ownership, record_announcements
from turnlog.trace.progress import load_progress, save_progress
from turnlog.trace.queue import load_queue, save_queue
from turnlog.trace.route import Route, explain_withheld, open_target
from turnlog.trace.send import SendReport
from turnlog.trace.sent_state import now_text, open_state
from turnlog.trace.settle import PATIENCE, Patience
from turnlog.trace.spool import HookNote, Spool, read_note
from turnlog.trace.switch import read_switches
from turnlog.trace.trace_settings import state_folder

GIVEN_UP = 7 * 86400.0
"""Seconds after which the notes of a session that cannot be read are dropped."""
LINGER = 300.0
"""Seconds for which a sender started by a hook keeps running to retry failed targets."""
THREADS = 32


class Urgency(NamedTuple):
    """The patience of a send: the time to wait for locks, and whether retry delays count."""

    wait: float = 0.0
    """Seconds to wait for another sender."""
    is_forced: bool = False
    """True to try targets even if their retry is not due yet."""


CALM = Urgency()


class Sender:
    """Delivers the notes in the spool until there are no new ones."""

    def __init__(
        self, spool: Spool, folder: Path | None = None, patience: Patience = PATIENCE
    ) -> None:
        self.spool = spool
        self.folder = folder or state_folder()
        self.patience = patience
        self.reports: list[SendReport] = []
        self.problems: dict[str, str] = {}
        """The reason why notes are still queued, by the key of their route."""
        self.held: dict[str, int] = {}
        """Number of notes that wait because their project is switched off, by project."""

    def run(self, again: bool = False, urgency: Urgency = CALM) -> bool:
        """Deliver all notes; return False if another sender has a queue.

        `again` retries refused notes as well. A sender that finds a queue locked exits, even if its
        hook has just written a note. The sender with the lock therefore checks each queue again
        after releasing the lock.
        """
        workers: dict[str, _TargetSender] = {}
        is_ours = True
        while again or self._has_new(workers) or not workers:
            with self.spool.lock(urgency.wait, is_shared=True) as may_work:
                if not may_work:
                    return False
                self.spool.discard_invalid()
                if again:
                    self._retry_refused()
                again = False
                for name in {note.route.queue for note in self.spool.notes()}:
                    workers.setdefault(name, _TargetSender(self, name, urgency))
                is_ours &= _run_all([worker for worker in workers.values() if worker.has_new()])
            if not workers:
                break
        return is_ours

    def linger(self, seconds: float = LINGER) -> None:
        """Deliver all notes, and keep running for a while to retry failed targets.

        Without this, retries would have to wait for the next hook. Only one process lingers.
        """
        until = time.time() + seconds
        self.run()
        # All hooks start senders: the first one to get this lock retries for every target.
        with self.spool.lock_queue("linger") as is_ours:
            while is_ours and (due := self._next_attempt()) and due < until:
                time.sleep(max(0.05, due - time.time()))
                self.problems.clear()
                self.run()

    def _next_attempt(self) -> float | None:
        names = {note.route.queue for note in self.spool.notes()}
        times = [load_queue(self.spool.folder, name).retry_at for name in names]
        return min(filter(None, times), default=None)

    def _has_new(self, workers: Mapping[str, "_TargetSender"]) -> bool:
        names = {note.route.queue for note in self.spool.notes()}
        return not names <= workers.keys() or any(worker.has_new() for worker in workers.values())

    def _retry_refused(self) -> None:
        """Queue refused notes again, and forget which spans their targets refused."""
        for note in self.spool.refused_notes():
            try:
                _, target = open_target(note.route, note.credentials)
            except TurnlogError as error:
                self.problems[note.route.key] = error.message
                continue
            known = load_progress(self.folder, target.name, note.transcript.stem)
            if known:
                with open_state(self.folder, target.name, known.first) as state:
                    state.forget_refusals()
                known.refused, known.mark = 0, None
                save_progress(self.folder, target.name, known)
            self.spool.take_back(note)
        self.spool.forget_failures()


def _run_all(workers: "Sequence[_TargetSender]") -> bool:
    """Run all workers in parallel; return False if one found its queue locked."""
    if len(workers) < 2:
        return all(worker.run() for worker in workers)
    with ThreadPoolExecutor(min(len(workers), THREADS)) as pool:
        return all(list(pool.map(_TargetSender.run, workers)))


def _time_of(note: HookNote) -> float:
    return note.time


class _TargetSender:
    """Delivers the notes for one target."""

    def __init__(self, sender: Sender, name: str, urgency: Urgency) -> None:
        self.spool, self.folder, self.patience = sender.spool, sender.folder, sender.patience
        self.reports, self.problems, self.held = sender.reports, sender.problems, sender.held
        self.name = name
        self.urgency = urgency
        self.is_taken = False
        """True if another sender has the queue; it will process every note that exists now."""
        self._seen: set[Path] = set()
        self._announced: dict[Path, float] = {}
        """Time of the newest note of each session, whatever its route."""

    def has_new(self) -> bool:
        """Return whether there are notes that this sender has not processed."""
        return not self.is_taken and any(note.path not in self._seen for note in self._notes())

    def run(self) -> bool:
        """Deliver the notes for the target; return False if another sender has the queue."""
        with self.spool.lock_queue(self.name, self.urgency.wait) as is_ours:
            self.is_taken = not is_ours
            while is_ours and self.has_new():
                self._take_new()
        return is_ours

    def _notes(self) -> list[HookNote]:
        found = (read_note(path) for path in self.spool.paths())
        return [
            note for note in found if isinstance(note, HookNote) and note.route.queue == self.name
        ]

    def _take_new(self) -> None:
        notes = self._notes()
        # Take all notes of a session with a new note, even processed ones: only together do they
        # show its state.
        new = {note.transcript for note in notes if note.path not in self._seen}
        self._seen.update(note.path for note in notes)
        self._announced = {note.transcript: note.time for note in sorted(notes, key=_time_of)}
        with self.spool.lock_books():
            record_announcements(self.folder, notes)
            ledger = Ledger(self.folder)
            for note in notes:  # ownership depends on which directories are known as projects
                ledger.open(note.route, None)
            ledger.save()
        self._handle([note for note in notes if note.transcript in new])

    def _handle(self, notes: Sequence[HookNote]) -> None:
        for group in _by_route(notes).values():
            route = group[-1].route
            if not read_switches(route.config).is_on(route.project):
                self.held[route.project] = len(group)
                continue
            try:
                self._send(group)
            except UsageError as error:  # a route never changes: a retry would fail too
                self._fail(route, error.message)
                self.spool.fail(group[-1].session, error.message)
                self.spool.drop(group)
            except TurnlogError as error:
                self._fail(route, error.message)

    def _send(self, notes: Sequence[HookNote]) -> None:
        """Deliver the notes of one route, with the credentials of the newest one.

        After a key is rotated, only the newest note has the valid key.
        """
        newest = max(notes, key=_time_of)
        route = newest.route
        queue = load_queue(self.spool.folder, self.name)
        if route.key in self.problems:
            return
        if queue.retry_at > time.time() and not self.urgency.is_forced:
            self.problems[route.key] = queue.reason or "the target failed recently"
            return
        settings, target = open_target(route, newest.credentials)
        withheld = explain_withheld(newest.credentials)
        self._record(route, target=target.address, announced=newest.time, withheld=withheld)
        kind = settings.metrics
        meters = Meters(self.folder, kind, route.project) if kind else None
        line = LazyConnection(target, queue.timeout(settings.timeout), meters)
        try:
            delivery = Delivery(self.folder, settings, line, self.patience, self._ownership(route))
            for job in _jobs(notes):
                self._try(delivery, job)
                if route.key in self.problems:
                    break
        finally:
            if problem := line.close():
                self.spool.fail(None, problem)

    def _ownership(self, route: Route) -> Ownership:
        switches = read_switches(route.config)
        known = frozenset({*Ledger(self.folder).projects, *switches.events})
        return Ownership(self.folder, route.project, route.key, known, switches)

    def _fail(self, route: Route, reason: str) -> None:
        self.problems[route.key] = reason
        self._record(route, failed=now_text(), reason=reason)

    def _record(self, route: Route, target: str | None = None, **changes: str | float) -> None:
        """Update the ledger's record of a route."""
        with self.spool.lock_books():
            ledger = Ledger(self.folder)
            record = ledger.open(route, target)
            for name, value in changes.items():
                setattr(record, name, value)
            ledger.save()

    def _judge(self, delivery: Delivery, report: SendReport) -> None:
        """Update the queue's state: after a failure, the next attempt is delayed."""
        if not (report.sent or report.is_later):
            return
        queue = load_queue(self.spool.folder, self.name)
        before = queue.failures, queue.target
        queue.target = delivery.line.target.address
        if report.is_later:
            is_timeout = delivery.line.has_timed_out
            queue.fail(report.reason or "no response", self.patience.delay, is_timeout)
        else:
            queue.succeed()
        if report.is_later or before != (0, queue.target):
            save_queue(self.spool.folder, self.name, queue)

    def _try(self, delivery: Delivery, job: DeliveryJob) -> None:
        """Deliver one session; record an error and retry later, without delaying other sessions."""
        try:
            self._deliver(delivery, job)
        except Exception as error:
            self.spool.fail(job.last.session, f"{type(error).__name__}: {error}")
            if time.time() > job.last.time + GIVEN_UP:
                self.spool.drop(job.notes)

    def _deliver(self, delivery: Delivery, job: DeliveryJob) -> None:
        path = job.path
        for other in find_missed(delivery, job, path, self.spool.since):
            self.spool.leave_backfill(job.newest, other)
        if path is None:
            self._miss(job)
            return
        if self._is_waiting(delivery, job, path):
            return
        report = delivery.deliver(job, path)
        self.reports.append(report)
        route = job.last.route
        self._judge(delivery, report)
        if report.sent:
            self._record(route, sent=now_text())
        if report.failed > report.refused:
            self._fail(route, report.reason or "the target did not accept the spans")
            return
        # Open spans become final later: one note must remain to lead back to the session.
        kept = [job.last] if report.open else []
        if report.refused:
            self.spool.fail(job.last.session, report.reason or "refused")
        known = delivery.progress(path)
        if known and known.refused and not kept:
            self.spool.set_aside(job.newest)
        self.spool.drop(note for note in job.notes if note not in kept)

    def _is_waiting(self, delivery: Delivery, job: DeliveryJob, path: Path) -> bool:
        """Return whether a session has open spans but nothing new since it was last processed."""
        known = delivery.progress(path)
        # The newest note of any route: an open turn may turn out to belong to another one.
        announced = self._announced[job.newest.transcript]
        if known is None or not known.open or announced > known.seen:
            return False
        return known.is_same(path) and not is_over(job.store, path)

    def _miss(self, job: DeliveryJob) -> None:
        """Handle a session without a file: it was not written yet, or was deleted."""
        # A session file appears with the first line, so a Stop hook may run before it is visible:
        # wait a moment. Without a Stop, no turn has ended, and there is nothing to send.
        if any(note.event == "Stop" for note in job.notes):
            if time.time() < job.last.time + self.patience.whole:
                time.sleep(self.patience.pause)
                self._seen.difference_update(note.path for note in job.notes)
                return
            self.spool.fail(job.last.session, f"{job.last.transcript} does not exist")
        self.spool.drop(job.notes)


def _by_route(notes: Iterable[HookNote]) -> Mapping[str, list[HookNote]]:
    groups: dict[str, list[HookNote]] = {}
    for note in notes:
        groups.setdefault(note.route.key, []).append(note)
    return groups


def _jobs(notes: Iterable[HookNote]) -> list[DeliveryJob]:
    by_session: dict[Path, list[HookNote]] = {}
    for note in notes:
        by_session.setdefault(note.transcript, []).append(note)
    return [DeliveryJob(group) for group in by_session.values()]
