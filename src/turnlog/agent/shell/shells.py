"""Commands in the background: started by one call, looked at and stopped by others."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from turnlog.agent.shell.processes import Flood, Running, Tail, end, follow


@dataclass
class Job:
    """A command in the background."""

    name: str
    command: str
    running: Running
    tail: Tail
    watch: asyncio.Task[None]
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
    """The commands in the background, by name."""

    jobs: dict[str, Job] = field(default_factory=dict[str, Job])

    def add(self, name: str, command: str, running: Running) -> Job:
        """Let a command that was started go on by itself."""
        watch = asyncio.create_task(_guard(running))
        job = Job(name, command, running, Tail(running.printed), watch)
        self.jobs[name] = job
        return job

    async def kill(self, job: Job) -> None:
        """Stop a command, unless it has ended."""
        if job.running.code is None:
            job.is_killed = True
            await end(job.running)
        await job.watch

    async def close(self) -> None:
        """Stop all that still run."""
        await asyncio.gather(*(self.kill(job) for job in self.jobs.values()))


async def _guard(running: Running) -> None:
    """Wait for a command's end; one that prints forever is stopped."""
    try:
        await follow(running, lambda text: None)
    except Flood:
        with suppress(ProcessLookupError):
            await end(running)
    finally:
        running.left_in.close()
