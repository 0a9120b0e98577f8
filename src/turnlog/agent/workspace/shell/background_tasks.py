"""Background tasks (commands and sub-agents): started by one call, read and stopped by others."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turnlog.agent.workspace.shell.processes import (
    Flood,
    RunningCommand,
    Tail,
    end,
    exit_status,
    follow,
)


@dataclass
class BackgroundCommand:
    """A command in the background."""

    name: str
    command: str
    running: RunningCommand
    tail: Tail
    title: str
    """A short description."""
    call_id: str
    """The call that started it."""
    watch: asyncio.Task[None] = field(init=False)
    is_killed: bool = False

    @property
    def status(self) -> str:
        """running, completed, failed or killed."""
        if self.running.code is None:
            return "running"
        if self.is_killed:
            return "killed"
        return "failed" if self.running.code else "completed"

    @property
    def output_file(self) -> Path:
        """The file with its output."""
        return self.running.printed

    @property
    def summary(self) -> str:
        """One sentence on how it ended."""
        if self.is_killed:
            return f'Background command "{self.title}" was stopped'
        code = exit_status(self.running.code)
        how = f"failed with exit code {code}" if code else "completed (exit code 0)"
        return f'Background command "{self.title}" {how}'


@dataclass
class BackgroundAgent:
    """A sub-agent in the background."""

    name: str
    """The sub-agent's id."""
    title: str
    call_id: str
    """The call that started it."""
    output_file: Path
    """Its session file."""
    watch: asyncio.Task[None] = field(init=False)
    status: str = "running"
    """running, completed, failed or killed."""
    report: str = ""
    """Its last answer, or why it failed."""
    usage: dict[str, int] = field(default_factory=dict[str, int])
    """Usage figures for the notification, under the names that it uses."""

    @property
    def command(self) -> str:
        """The text shown in lists of tasks."""
        return self.title

    @property
    def summary(self) -> str:
        """One sentence on how it ended."""
        how = {"completed": "finished", "killed": "was stopped"}.get(self.status, "failed")
        return f'Agent "{self.title}" {how}'


BackgroundTask = BackgroundCommand | BackgroundAgent


@dataclass(eq=False)
class ForegroundCall:
    """A running call that the user can move to the background."""

    moved: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once it is moved."""
    is_for_message: bool = False
    """True if it is moved so that the model can get a message from the user."""

    def move(self, is_for_message: bool = False) -> None:
        """Move it to the background."""
        self.is_for_message = is_for_message
        self.moved.set()

    async def outlasts(self, work: asyncio.Future[Any]) -> bool:
        """Wait until its work has ended or it is moved; return whether it was moved.

        The work is not cancelled, and its result is not read: that is up to the caller.
        """
        moving = asyncio.create_task(self.moved.wait())
        try:
            await asyncio.wait({work, moving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            moving.cancel()
        return not work.done()


@dataclass
class Shells:
    """Background commands and sub-agents by name."""

    jobs: dict[str, BackgroundTask] = field(default_factory=dict[str, BackgroundTask])
    ended: list[BackgroundTask] = field(default_factory=list[BackgroundTask])
    """Tasks that ended by themselves, until the model is notified."""
    on_end: Callable[[BackgroundTask], None] = lambda job: None
    """Called with each task that ends by itself."""
    observe: Callable[[BackgroundTask], None] = lambda job: None
    """Called with each task when it starts and when it has ended."""
    foreground: list[ForegroundCall] = field(default_factory=list[ForegroundCall])
    """Running calls that can be moved to the background."""

    @contextmanager
    def movable(self) -> Generator[ForegroundCall]:
        """Let a running call be moved to the background."""
        call = ForegroundCall()
        self.foreground.append(call)
        try:
            yield call
        finally:
            self.foreground.remove(call)

    @property
    def running(self) -> list[BackgroundTask]:
        """Tasks that have not ended."""
        return [job for job in self.jobs.values() if not job.watch.done()]

    def add_agent(self, agent: BackgroundAgent, work: Coroutine[Any, Any, None]) -> None:
        """Run a sub-agent in the background; `work` sets its status, report and usage."""
        agent.watch = asyncio.create_task(self._follow(agent, work))
        self.jobs[agent.name] = agent
        self.observe(agent)

    async def _follow(self, agent: BackgroundAgent, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except asyncio.CancelledError:
            agent.status = "killed"
        self.observe(agent)
        # Whoever stopped it knows; a notification would make the model answer again.
        if agent.status != "killed":
            self.ended.append(agent)
            self.on_end(agent)

    def add(
        self,
        name: str,
        command: str,
        running: RunningCommand,
        title: str,
        call_id: str,
        sweep: Callable[[], None] = lambda: None,
    ) -> BackgroundCommand:
        """Register a started command and watch for its end; `sweep` then tidies up after it."""
        job = BackgroundCommand(name, command, running, Tail(running.printed), title, call_id)
        job.watch = asyncio.create_task(self._watch(job, sweep))
        self.jobs[name] = job
        self.observe(job)
        return job

    async def _watch(self, job: BackgroundCommand, sweep: Callable[[], None]) -> None:
        await _guard(job.running)
        await asyncio.to_thread(sweep)
        self.observe(job)
        if not job.is_killed:
            self.ended.append(job)
            self.on_end(job)

    async def kill(self, job: BackgroundTask) -> None:
        """Stop a task, unless it has ended."""
        if isinstance(job, BackgroundAgent):
            job.watch.cancel()
        elif job.running.code is None:
            job.is_killed = True
            await end(job.running)
        with suppress(asyncio.CancelledError):  # cancelled before it began
            await job.watch

    async def close(self) -> None:
        """Stop all running tasks."""
        await asyncio.gather(*(self.kill(job) for job in self.jobs.values()))


async def _guard(running: RunningCommand) -> None:
    """Wait for a command's end; one that prints forever is stopped."""
    try:
        await follow(running, lambda text: None)
    except Flood:
        with suppress(ProcessLookupError):
            await end(running)
    finally:
        running.left_in.close()
