"""The running sessions of a machine and their sub-agents, with their states and costs.

One reader serves the terminal and the web app. A poll costs a few `stat` calls per session, and
continues each file where the last poll stopped.
"""

import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from msgspec import Struct

from turnlog.conversation.live_figures import HOUR, LiveFigures, cost_per_hour
from turnlog.conversation.live_files import SLICE, LiveFile, ReadBudget
from turnlog.conversation.live_states import (
    IDLE_SECONDS,
    LiveState,
    StateSince,
    StateSource,
    inferred_state,
    is_finished,
    may_ask,
    may_run_command,
    notified_state,
    reported_state,
)
from turnlog.conversation.subagents import SubAgent, subagents_in_files
from turnlog.format.jsonl import FileState
from turnlog.format.regular_files import collect_skipped
from turnlog.secrets import mask
from turnlog.store.catalog import title_of
from turnlog.store.client_notifications import read_notification
from turnlog.store.client_report import ClientReport
from turnlog.store.paths import Store, last_part, subagents_folder
from turnlog.store.registry import Registration, RegistryReader, RunningClient, has_child_since

RESCAN_SECONDS = 10.0
"""Seconds between two scans for rare changes: titles, sub-agents in subfolders."""
ORDER = (LiveState.PERMISSION, LiveState.INPUT, LiveState.WORKING, LiveState.IDLE)
"""Sessions that need the user come first."""


class LiveLane(Struct, frozen=True, kw_only=True):
    """A running session or sub-agent."""

    id: str
    title: str
    state: LiveState
    source: StateSource
    since: float
    """Start of the state, in seconds since 1970."""
    detail: str | None
    """The awaited event, or the running tools."""
    model: str | None
    context_tokens: int
    window: int | None
    """Size of the model's context window in tokens."""
    turns_left: int | None
    """Estimated turns until the context is compacted."""
    cost_usd: float
    """List price of all answers so far; of a session, including its sub-agents."""
    is_cost_complete: bool
    """False while a large file is still being read, or if a model has no known price."""
    activity: list[tuple[float, float]]
    """Start and end of the newest turns, in seconds since 1970."""

    @property
    def fill(self) -> float | None:
        """The share of the context window that is used."""
        return self.context_tokens / self.window if self.window else None


class LiveSession(LiveLane, frozen=True, kw_only=True):
    """A running session with its sub-agents."""

    pid: int
    version: str | None
    entrypoint: str | None
    cwd: str
    project: str
    """The last part of its directory."""
    path: str | None
    """Its file; None before the first line is written."""
    store: str
    """The directory of the store that it is in."""
    started: float | None
    mode: str | None
    """Its permission mode."""
    usd_per_hour: float
    agents: list[LiveLane]
    """Sub-agents that have not finished."""
    finished_agents: int


class LiveReader:
    """Polls the running sessions of some stores."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self._registries = [(RegistryReader(store), ClientReport(store)) for store in stores]
        self._stores = list(stores)
        self._followed: dict[tuple[int, int, str], _FollowedSession] = {}
        self._lock = Lock()

    def read(self, now: float | None = None, most: int | None = SLICE) -> list[LiveSession]:
        """Return the sessions that are running now, those that wait for the user first.

        Read at most about `most` bytes of files that are new to this reader; None reads all.
        """
        # The first reading of large files is spread over several calls, so that no screen freezes.
        now, budget = time.time() if now is None else now, ReadBudget(most)
        with self._lock, collect_skipped():
            found = [each.read(now, budget) for each in self._follow()]
        return sorted(found, key=lambda each: (ORDER.index(each.state), each.project, each.pid))

    def _follow(self) -> Iterator["_FollowedSession"]:
        known, self._followed = self._followed, {}
        for number, (registry, report) in enumerate(self._registries):
            for client in registry.running():
                # The session is part of the key: after `/clear` or `/resume`, the same process
                # writes another file.
                key = (number, client.pid, client.registration.session_id)
                followed = known.get(key) or _FollowedSession(self._stores[number], report)
                followed.client = client
                self._followed[key] = followed
                yield followed


class _FollowedSession:
    """A running session, its file, and the files of its sub-agents."""

    client: RunningClient

    def __init__(self, store: Store, report: ClientReport) -> None:
        self._store = store
        self._report = report
        self._file: LiveFile | None = None
        self._agents_folder = Path()
        self._agents: dict[Path, _FollowedAgent] = {}
        self._title: str | None = None
        self._next_scan = float("-inf")
        self._titled: FileState | None = None
        self._folder_changed: int | None = None

    def read(self, now: float, budget: ReadBudget) -> LiveSession:
        registration, file = self.client.registration, self._refresh(now, budget)
        figures = file.figures if file else LiveFigures()
        reported = self._reported(figures, now)
        running = [each for each in self._agents.values() if each.is_running(self._began, now)]
        agents = [each.lane(self._state_of(each.file.figures, now, reported)) for each in running]
        state = reported or self._inferred(figures, agents, now)
        files = [each.file for each in self._agents.values()] + ([file] if file else [])
        hour = max(now - HOUR, self._began)
        recent = sum(each.figures.cost_since(hour) for each in files)
        return LiveSession(
            **_figures_of(figures),
            **_state_fields(state),
            id=registration.session_id,
            title=self._shown_title(registration),
            cost_usd=sum(each.figures.cost() for each in files),
            is_cost_complete=all(each.is_complete and not each.figures.unpriced for each in files),
            pid=self.client.pid,
            version=registration.version or figures.version,
            entrypoint=registration.entrypoint,
            cwd=_masked(registration.cwd),
            project=_masked(last_part(registration.cwd.rstrip("/\\")) or registration.cwd),
            path=str(file.path) if file else None,
            store=str(self._store.root),
            started=registration.started,
            mode=figures.mode,
            usd_per_hour=cost_per_hour(recent, registration.started, now),
            agents=agents,
            finished_agents=len(self._agents) - len(agents),
        )

    def _shown_title(self, registration: Registration) -> str:
        """Return the name that the user typed, else the file's title, else the client's name."""
        typed = registration.name if registration.name_source == "user" else None
        return _masked(typed or self._title or registration.name or "")

    @property
    def _began(self) -> float:
        return self.client.registration.started or 0.0

    def _refresh(self, now: float, budget: ReadBudget) -> LiveFile | None:
        if self._file is None and (path := self._find()):
            self._file = LiveFile(path)
            self._agents_folder = subagents_folder(path)
        if self._file is None:
            return None
        budget.refresh(self._file)
        if self._is_scan_due(now):
            self._scan()
        for agent in self._agents.values():
            agent.refresh(now, budget)
        return self._file

    def _find(self) -> Path | None:
        registration = self.client.registration
        name = f"{registration.session_id}.jsonl"
        usual = self._store.project_of(registration.cwd) / name
        # A session resumed in another worktree stays in the folder it was started in.
        others = (folder / name for folder in self._store.projects.glob("*/"))
        return usual if usual.is_file() else next((each for each in others if each.is_file()), None)

    def _is_scan_due(self, now: float) -> bool:
        assert self._file
        try:
            changed = self._agents_folder.stat().st_mtime_ns
        except OSError:
            changed = None
        is_due = changed != self._folder_changed or now >= self._next_scan
        if is_due:
            self._folder_changed, self._next_scan = changed, now + RESCAN_SECONDS
        return is_due

    def _scan(self) -> None:
        assert self._file
        path = self._file.path
        try:
            # Finding a title reads the end of the file, so only a changed file is looked at.
            if (state := FileState.of(path)) != self._titled:
                self._titled, self._title = state, title_of(path)
        except OSError:
            return
        if self._folder_changed is not None:
            for agent in subagents_in_files(path, [], lambda call_id: None):
                self._agents.setdefault(agent.path, _FollowedAgent(agent))

    def _reported(self, figures: LiveFigures, now: float) -> StateSince | None:
        registration = self.client.registration
        if registration.status is None and (
            listed := self._report.status_of(registration.session_id)
        ):
            registration = registration._replace(
                status=listed.status, waiting_for=listed.waiting_for, status_since=figures.changed
            )
        return reported_state(registration, figures.changed, now) or self._notified(figures, now)

    def _notified(self, figures: LiveFigures, now: float) -> StateSince | None:
        notification = read_notification(self.client.registration.session_id)
        if notification is None or notification.at < self._began:
            return None
        has_child = may_run_command(figures) and has_child_since(self.client.pid, notification.at)
        state = notified_state(notification, figures, has_child)
        # As in `reported_state`: a session that waits for input is idle after a while.
        if state and state.state is LiveState.INPUT and now - state.since >= IDLE_SECONDS:
            return state._replace(state=LiveState.IDLE)
        return state

    def _state_of(
        self, figures: LiveFigures, now: float, reported: StateSince | None = None
    ) -> StateSince:
        has_child = None
        is_asking = reported is not None and reported.state is LiveState.PERMISSION
        if may_run_command(figures) and not is_asking:
            has_child = has_child_since(self.client.pid, figures.changed or now)
        state = inferred_state(figures, self._began, now, has_child)
        if reported and not is_asking and state.state is LiveState.PERMISSION:
            # The client would have reported a question, so this is a call that takes long.
            return state._replace(state=LiveState.WORKING)
        if is_asking and may_ask(figures):
            return state._replace(state=LiveState.PERMISSION)
        return state

    def _inferred(self, figures: LiveFigures, agents: list[LiveLane], now: float) -> StateSince:
        for agent in agents:
            if agent.state is LiveState.PERMISSION:
                return StateSince(agent.state, StateSource.INFERRED, agent.since, agent.detail)
        return self._state_of(figures, now)


class _FollowedAgent:
    """A sub-agent of a running session."""

    def __init__(self, agent: SubAgent) -> None:
        self.file = LiveFile(agent.path)
        self._id = agent.id
        self._title = _masked(agent.description)
        self._next_look = float("-inf")

    def refresh(self, now: float, budget: ReadBudget) -> None:
        """Read new lines; the file of a finished sub-agent is checked less often."""
        if now < self._next_look:
            return
        budget.refresh(self.file)
        quiet = now - (self.file.figures.changed or now)
        if is_finished(self.file.figures, now) and quiet > RESCAN_SECONDS:
            self._next_look = now + RESCAN_SECONDS / 2

    def is_running(self, began: float, now: float) -> bool:
        """Return whether the sub-agent still runs; `began` is when the client's process started."""
        figures = self.file.figures
        changed = figures.changed or now
        # A call that an earlier process left unanswered will never get a result.
        is_left = changed < began or (not figures.unanswered and now - changed > IDLE_SECONDS)
        return not is_left and not is_finished(figures, now)

    def lane(self, state: StateSince) -> LiveLane:
        figures = self.file.figures
        return LiveLane(
            **_figures_of(figures),
            **_state_fields(state),
            id=self._id,
            title=self._title,
            cost_usd=figures.cost(),
            is_cost_complete=self.file.is_complete and not figures.unpriced,
        )


@lru_cache(1024)
def _masked(text: str) -> str:
    return mask(text)


def _figures_of(figures: LiveFigures) -> dict[str, Any]:
    return {
        "model": figures.model,
        "context_tokens": figures.context,
        "window": figures.window,
        "turns_left": figures.turns_left(),
        "activity": list(figures.activity),
    }


def _state_fields(state: StateSince) -> dict[str, Any]:
    return {
        "state": state.state,
        "source": state.source,
        "since": state.since,
        "detail": _masked(state.detail) if state.detail else None,
    }
