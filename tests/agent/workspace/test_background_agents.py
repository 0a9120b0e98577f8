"""Sub-agents in the background: which of their ends the model is notified of."""

import asyncio
from pathlib import Path

from turnlog.agent.workspace.shell.background_tasks import BackgroundAgent, Shells


def test_an_agent_that_was_killed_is_not_reported_as_ended(tmp_path: Path) -> None:
    async def run() -> Shells:
        shells = Shells()
        killed = BackgroundAgent("a1", "wait", "t1", tmp_path / "a1.jsonl")
        shells.add_agent(killed, asyncio.sleep(600))
        finished = BackgroundAgent("a2", "end", "t2", tmp_path / "a2.jsonl")
        shells.add_agent(finished, asyncio.sleep(0))
        await finished.watch
        killed.watch.cancel()
        await killed.watch
        return shells

    shells = asyncio.run(run())
    assert [job.name for job in shells.ended] == ["a2"]
    assert shells.jobs["a1"].status == "killed"
