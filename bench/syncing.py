"""Measure syncs: sending a store, receiving it on another machine, and finding nothing new."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from measure import Job

SEND_RATE = 40_000_000
RECEIVE_RATE = 20_000_000
"""Bytes a second that a sync should reach, with a directory as its destination."""
UNCHANGED = 0.05
"""Seconds beyond a start that a sync without changes may take."""


def sync_jobs(
    store: Path, folder: Path, turnlog: Path, environment: Mapping[str, str]
) -> list[Job]:
    """A sync that sends everything, one that receives everything, and one without changes."""
    shutil.rmtree(folder, ignore_errors=True)
    homes = {name: folder / name for name in ("sending", "receiving", "unchanged")}

    def job(name: str, title: str, dest: str, root: Path) -> Job:
        own = {"CLAUDE_CONFIG_DIR": str(root), "TURNLOG_HOME": str(homes[name])}
        command = (turnlog, "sync-with", folder / dest, "--quiet", "--init")
        return Job(title, command, {**environment, **own})

    received = folder / "store"
    send = job("sending", "turnlog sync-with, to an empty directory", "sent", store)
    receive = job("receiving", "turnlog sync-with, to an empty store", "shared", received)
    again = job("unchanged", "turnlog sync-with, nothing new", "shared", store)
    subprocess.run(again.command, env=again.environment, check=True)
    send.prepare = lambda: _clear(homes["sending"], folder / "sent")
    receive.prepare = lambda: _clear(homes["receiving"], received)
    return [send, receive, again]


def _clear(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
