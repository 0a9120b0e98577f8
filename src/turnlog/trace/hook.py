"""The sender: takes the notes that hooks left, and delivers each along its own route.

Any hook of any project may start a sender, so a sender uses nothing of its own environment: notes
are grouped by route, and each group is sent with the settings and credentials of its notes alone.
A note goes when everything final of its session is sent; what is left waits for the next sender.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from turnlog.errors import TurnlogError, UsageError
from turnlog.trace.backfill import find_missed
from turnlog.trace.deliver import Delivery, Job, Line, is_over
from turnlog.trace.ledger import Ledger
from turnlog.trace.ownership import Ownership, record_announcements
from turnlog.trace.progress import load_progress, save_progress
from turnlog.trace.route import Route, open_target
from turnlog.trace.send import Report
from turnlog.trace.settings import state_folder
from turnlog.trace.settle import PATIENCE, Patience
from turnlog.trace.spool import Note, Spool, read_note
from turnlog.trace.state import now_text, open_state
from turnlog.trace.switch import read_switches

GIVEN_UP = 7 * 86400.0
"""Seconds after which a session that cannot be read is not tried again."""


class Sender:
    """Sends what waits, until nothing new does."""

    def __init__(
        self, spool: Spool, folder: Path | None = None, patience: Patience = PATIENCE
    ) -> None:
        self.spool = spool
        self.folder = folder or state_folder()
        self.patience = patience
        self.reports: list[Report] = []
        self.problems: dict[str, str] = {}
        """Why the notes of a route still wait, by the key of the route."""
        self.held: dict[str, int] = {}
        """How many notes wait because their project is switched off."""
        self._seen: set[Path] = set()
        self._ledger = Ledger(self.folder)

    def run(self, again: bool = False, wait: float = 0) -> bool:
        """Send what waits, perhaps also what was refused; False if another sender is at it.

        Whoever leaves a note while this one is at it finds the lock taken, and goes. So once more
        is looked for notes after the lock is free.
        """
        while self._has_new() or not self._seen:
            with self.spool.lock(wait) as is_ours:
                if not is_ours:
                    return False
                self._ledger = Ledger(self.folder)
                self._take_all(again)
                again = False
        return True

    def _has_new(self) -> bool:
        return not self._seen.issuperset(self.spool.paths())

    def _take_all(self, again: bool) -> None:
        self.spool.discard_invalid()
        if again:
            self._retry_refused()
        while True:
            paths = self.spool.paths()
            self._seen.add(self.spool.folder)
            if self._seen.issuperset(paths):
                break
            notes = [note for path in paths if isinstance(note := read_note(path), Note)]
            new = {note.transcript for note in notes if note.path not in self._seen}
            self._seen.update(paths)
            record_announcements(self.folder, notes)
            self._handle([note for note in notes if note.transcript in new])
        self._ledger.save()

    def _retry_refused(self) -> None:
        """Queue refused notes again, and forget what their targets refused."""
        for note in self.spool.refused_notes():
            try:
                _, target = open_target(note.route, note.credentials)
            except TurnlogError as error:
                self.problems[note.route.key] = error.message
                continue
            known = load_progress(self.folder, target.name, note.transcript.stem)
            if known:
                with open_state(self.folder, target.name, known.first) as state:
                    state.forgive()
                known.refused, known.mark = 0, None
                save_progress(self.folder, target.name, known)
            self.spool.take_back(note)
        self.spool.forgive()

    def _handle(self, notes: Sequence[Note]) -> None:
        groups = _by_route(notes)
        for group in groups.values():  # before ownership is decided, every project is known
            self._ledger.open(group[0].route, None)
        for key, group in groups.items():
            route = group[-1].route
            switches = read_switches(route.config)
            if not switches.is_on(route.project):
                self.held[route.project] = len(group)
                continue
            try:
                self._send(group)
            except UsageError as error:  # a route never changes: another attempt would fail too
                self._fail(key, error.message)
                self.spool.fail(group[-1].session, error.message)
                self.spool.drop(group)
            except TurnlogError as error:
                self._fail(key, error.message)

    def _send(self, notes: Sequence[Note]) -> None:
        """Send what notes of one route announce, with the credentials of the newest of them.

        The newest hook of the same project and target knows a rotated key; the older ones do not.
        """
        newest = max(notes, key=lambda note: note.time)
        route = newest.route
        if route.key in self.problems:
            return
        settings, target = open_target(route, newest.credentials)
        self._ledger.open(route, target.address)
        line = Line(target, settings.timeout)
        try:
            delivery = Delivery(self.folder, settings, line, self.patience, self._ownership(route))
            for job in _jobs(notes):
                self._try(delivery, job)
                if route.key in self.problems:
                    break
        finally:
            line.close()

    def _ownership(self, route: Route) -> Ownership:
        switches = read_switches(route.config)
        known = frozenset({*self._ledger.projects, *switches.events})
        return Ownership(self.folder, route.project, route.key, known, switches)

    def _fail(self, key: str, reason: str) -> None:
        self.problems[key] = reason
        record = self._ledger.records[key]
        record.failed, record.reason = now_text(), reason

    def _try(self, delivery: Delivery, job: Job) -> None:
        """Deliver one session; one that cannot be read is tried again, and holds up no other."""
        try:
            self._deliver(delivery, job)
        except Exception as error:
            self.spool.fail(job.last.session, f"{type(error).__name__}: {error}")
            if time.time() > job.last.time + GIVEN_UP:
                self.spool.drop(job.notes)

    def _deliver(self, delivery: Delivery, job: Job) -> None:
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
        key = job.last.route.key
        if report.sent:
            self._ledger.records[key].sent = now_text()
        if report.failed > report.refused:
            self._fail(key, report.reason or "the target did not take the spans")
            return
        kept = [job.last] if report.open else []
        if report.refused:
            self.spool.fail(job.last.session, report.reason or "refused")
        known = delivery.progress(path)
        if known and known.refused and not kept:
            self.spool.set_aside(job.newest)
        self.spool.drop(note for note in job.notes if note not in kept)

    def _is_waiting(self, delivery: Delivery, job: Job, path: Path) -> bool:
        """Whether more is to come of a session, and nothing did since it was looked at last."""
        known = delivery.progress(path)
        if known is None or not known.open or job.newest.time > known.seen:
            return False
        return known.is_same(path) and not is_over(job.store, path)

    def _miss(self, job: Job) -> None:
        """A session without a file: a new one has none yet, another's is gone."""
        if any(note.event == "Stop" for note in job.notes):
            if time.time() < job.last.time + self.patience.whole:
                time.sleep(self.patience.pause)
                self._seen.difference_update(note.path for note in job.notes)
                return
            self.spool.fail(job.last.session, f"{job.last.transcript} is gone")
        self.spool.drop(job.notes)


def _by_route(notes: Iterable[Note]) -> Mapping[str, list[Note]]:
    groups: dict[str, list[Note]] = {}
    for note in notes:
        groups.setdefault(note.route.key, []).append(note)
    return groups


def _jobs(notes: Iterable[Note]) -> list[Job]:
    by_session: dict[Path, list[Note]] = {}
    for note in notes:
        by_session.setdefault(note.transcript, []).append(note)
    return [Job(held) for held in by_session.values()]
