"""Background commands: started by one call, read and stopped by others."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from turnlog.agent.workspace.shell.processes import Flood, RunningCommand, Tail, end, follow


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


@dataclass
class Shells:
    """Background commands by name."""

    jobs: dict[str, BackgroundCommand] = field(default_factory=dict[str, BackgroundCommand])
    ended: list[BackgroundCommand] = field(default_factory=list[BackgroundCommand])
    """Commands that ended by themselves, until the model is notified."""
    on_end: Callable[[BackgroundCommand], None] = lambda job: None
    """Called with each command that ends by itself."""
    observe: Callable[[BackgroundCommand], None] = lambda job: None
    """Called with each command when it starts and when it has ended."""

    @property
    def running(self) -> list[BackgroundCommand]:
        """Commands that have not ended."""
        return [job for job in self.jobs.values() if not job.watch.done()]

    def add(
        self, name: str, command: str, running: RunningCommand, title: str, call_id: str
    ) -> BackgroundCommand:
        """Register a started command and watch for its end."""
        job = BackgroundCommand(name, command, running, Tail(running.printed), title, call_id)
        job.watch = asyncio.create_task(self._watch(job))
        self.jobs[name] = job
        self.observe(job)
        return job

    async def _watch(self, job: BackgroundCommand) -> None:
        await _guard(job.running)
        self.observe(job)
        if not job.is_killed:
            self.ended.append(job)
            self.on_end(job)

    async def kill(self, job: BackgroundCommand) -> None:
        """Stop a command, unless it has ended."""
        if job.running.code is None:
            job.is_killed = True
            await end(job.running)
        await job.watch

    async def close(self) -> None:
        """Stop all running commands."""
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
