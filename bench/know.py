"""Jobs that bring an index up to date and ask it, beside the peers' own."""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from measure import Job

LINE = (
    '{"type":"user","uuid":"00000000-0000-4000-8000-0000000000%02d","parentUuid":null,'
    '"timestamp":"2026-11-15T06:00:%02d.000Z","message":{"role":"user","content":"one more"}}'
)


class Homes:
    """A home for each program, with the store in the place where it looks for it."""

    def __init__(self, folder: Path, store: Path) -> None:
        self.folder = folder
        self.store = store

    def job(self, name: str, command: Sequence[str | Path], home: str, **more: str) -> Job:
        """A job that finds what it left in its home the last time."""
        place = self.folder / home
        place.mkdir(parents=True, exist_ok=True)
        link = place / ".claude"
        if not link.is_symlink():
            link.symlink_to(self.store)
        environment = {"PATH": os.environ["PATH"], "HOME": str(place), "LANG": "C.UTF-8"} | more
        return Job(name, command, environment)

    def fresh_job(self, name: str, command: Sequence[str | Path], home: str, **more: str) -> Job:
        """A job that starts without anything kept from before."""
        kept = " ".join(str(self.folder / home / each) for each in KEPT)
        script = f'rm -rf {kept}; exec "$@"'
        return self.job(name, ("sh", "-c", script, "sh", *command), home, **more)


KEPT = (".cache", ".agentsview", ".cc-search")
"""Where the programs keep their indexes in a home."""


TOTALS = (
    ("inputTokens", ("input",)),
    ("outputTokens", ("output",)),
    ("cacheCreationTokens", ("cache_write_5m", "cache_write_1h")),
    ("cacheReadTokens", ("cache_read",)),
)
"""What ccusage calls the tokens, and what turnlog does."""


def require_same_totals(stats: Job, peer: Job) -> None:
    """End if turnlog counts other tokens than ccusage: a wrong answer is no fast one."""
    ours, theirs = _told(stats)["total"], _told(peer)["totals"]
    for name, parts in TOTALS:
        if theirs[name] != sum(ours[part] for part in parts):
            raise SystemExit(f"{stats.name}: {name} differs from what {peer.name} counts")


def _told(job: Job) -> dict[str, dict[str, int]]:
    return json.loads(subprocess.check_output(job.command, env=job.environment))


def copy_with_one_apart(store: Path, target: Path) -> Path:
    """A copy of a store that shares all files but one, which is given: it can be appended to."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(store, target, copy_function=os.link)
    path = max(target.glob("projects/*/*.jsonl"), key=lambda each: each.stat().st_size)
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)
    return path


def appending(path: Path, command: Sequence[str | Path]) -> tuple[str | Path, ...]:
    """A command that runs behind one more line of a session."""
    script = f"""printf '%s\\n' '{LINE % (1, 1)}' >> {path}; exec "$@" """
    return ("sh", "-c", script, "sh", *command)


def telling(home: Path, command: Sequence[str | Path]) -> tuple[str | Path, ...]:
    """A command that is told of a session on stdin, as the client tells its status line."""
    files = home.glob(".claude/projects/*/*.jsonl")
    path = max(files, key=lambda each: each.stat().st_size)
    told = {"session_id": path.stem, "transcript_path": str(path), "model": {"id": "claude-opus-5"}}
    given = home / "told.json"
    given.write_text(json.dumps(told))
    return ("sh", "-c", f'exec "$@" < {given}', "sh", *command)
