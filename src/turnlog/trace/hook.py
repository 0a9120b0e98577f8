"""The sender: takes the notes that hooks left, and sends what they tell of.

A note goes when all that is final of its session was sent, and nothing more is to come of it. What
is left over waits for the next sender, which any hook of any session starts.
"""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from turnlog.errors import TurnlogError, UsageError
from turnlog.trace.deliver import Delivery, Job, Line, is_over
from turnlog.trace.missed import sessions_missed
from turnlog.trace.progress import all_progress, save_progress
from turnlog.trace.send import Report
from turnlog.trace.settings import load_settings, state_folder
from turnlog.trace.settle import PATIENCE, Patience
from turnlog.trace.spool import Note, Spool
from turnlog.trace.state import open_state
from turnlog.trace.targets import FileTarget, Target, target_of

TIMEOUT = 2.0
"""Seconds of network for each batch, unless the settings say otherwise."""
GIVEN_UP = 7 * 86400.0
"""Seconds after which a session that cannot be read is not tried again."""
Arguments = tuple[str, ...]


class Sender:
    """Sends what waits, until nothing new does."""

    def __init__(
        self, spool: Spool, folder: Path | None = None, patience: Patience = PATIENCE
    ) -> None:
        self.spool = spool
        self.folder = folder or state_folder()
        self.patience = patience
        self.reports: list[Report] = []
        self._seen: set[Path] = set()
        self._worries: dict[Arguments, str] = {}

    def run(self, again: bool = False, wait: float = 0) -> bool:
        """Send what waits, perhaps also what was refused; False if another sender is at it.

        Whoever leaves a note while this one is at it finds the lock taken, and goes. So once more
        is looked for notes after the lock is free.
        """
        while self._has_new() or not self._seen:
            with self.spool.lock(wait) as is_ours:
                if not is_ours:
                    return False
                self._take_all(again)
                again = False
        return True

    def _has_new(self) -> bool:
        return not self._seen.issuperset(self.spool.paths())

    def _take_all(self, again: bool) -> None:
        self.spool.weed()
        if again:
            self._forgive()
        while True:
            notes = self.spool.notes()
            self._seen.add(self.spool.folder)
            if self._seen.issuperset(note.path for note in notes):
                break
            new = {note.transcript for note in notes if note.path not in self._seen}
            self._seen.update(note.path for note in notes)
            self._handle([note for note in notes if note.transcript in new])
        reasons = list(self._worries.values())
        self.spool.worry(reasons[0] if reasons else None)

    def _forgive(self) -> None:
        """Forget what was refused, and leave notes for its sessions."""
        for target, known in all_progress(self.folder):
            if known.refused:
                with open_state(self.folder, target, known.first) as state:
                    state.forgive()
                known.refused, known.mark = 0, None
                save_progress(self.folder, target, known)
                self.spool.leave(known.arguments, Path(known.path))
        self.spool.forgive()

    def _handle(self, notes: Sequence[Note]) -> None:
        for arguments in dict.fromkeys(note.arguments for note in notes):
            chosen = [note for note in notes if note.arguments == arguments]
            try:
                self._send(arguments, _jobs(chosen))
            except TurnlogError as error:
                self._worries[arguments] = error.message

    def _send(self, arguments: Arguments, jobs: Iterable[Job]) -> None:
        if arguments in self._worries:
            return
        settings = load_settings(typed(arguments), usual={"timeout": TIMEOUT})
        line = Line(backend_of(target_of(settings)), settings.timeout)
        try:
            delivery = Delivery(self.folder, settings, line, self.patience)
            for job in jobs:
                self._try(delivery, job)
                if arguments in self._worries:
                    break
        finally:
            line.close()

    def _try(self, delivery: Delivery, job: Job) -> None:
        """Deliver; a session that cannot be read keeps no other waiting, and is tried again."""
        try:
            self._deliver(delivery, job)
        except Exception as error:
            self.spool.fail(job.last.session, f"{type(error).__name__}: {error}")
            if time.time() > job.last.time + GIVEN_UP:
                self.spool.drop(job.notes)

    def _deliver(self, delivery: Delivery, job: Job) -> None:
        path = job.path
        for other in sessions_missed(delivery, job, path, self.spool.since):
            self.spool.leave(job.last.arguments, other)
        if path is None:
            self._miss(job)
            return
        if self._is_waiting(delivery, job, path):
            return
        report = delivery.deliver(job, path)
        self.reports.append(report)
        if report.failed > report.refused:
            self._worries[job.last.arguments] = report.reason or "it did not take the spans"
            return
        if report.refused:
            self.spool.fail(job.last.session, report.reason or "refused")
        kept = [job.last] if report.open else []
        self.spool.drop(note for note in job.notes if note not in kept)

    def _is_waiting(self, delivery: Delivery, job: Job, path: Path) -> bool:
        """Whether more is to come of a session, and nothing did since it was looked at last."""
        known = delivery.progress(path)
        if known is None or not known.open or job.notes[-1].time > known.seen:
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


def typed(arguments: Sequence[str]) -> dict[str, Any]:
    """The settings that the hook's command names, as pairs of an option and its value."""
    names, values = arguments[::2], arguments[1::2]
    if len(names) != len(values) or not all(name.startswith("--") for name in names):
        told = " ".join(arguments)
        raise UsageError(f"the hook's options make no sense: {told}", "turnlog hook install --help")
    return {name[2:].replace("-", "_"): value for name, value in zip(names, values, strict=True)}


def backend_of(target: Target | FileTarget) -> Target:
    """A target that takes spans as they come."""
    if isinstance(target, FileTarget):
        raise UsageError(
            "a hook sends to a backend, not to a file", "turnlog hook install --to URL"
        )
    return target


def _jobs(notes: Iterable[Note]) -> list[Job]:
    by_session: dict[Path, list[Note]] = {}
    for note in notes:
        by_session.setdefault(note.transcript, []).append(note)
    return [Job(held) for held in by_session.values()]
