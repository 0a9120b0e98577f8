"""A store with running sessions: registry files of real processes, and files that grow."""

import json
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from support.build import Fields, encode, stamp
from turnlog.store.paths import Store
from turnlog.store.registry import start_of

CWD = "/home/ada/shop"


class RunningSession:
    """A session whose client is a real process: a Python that sleeps."""

    def __init__(self, store: Store, process: subprocess.Popen[bytes], session_id: str) -> None:
        self.store, self.process, self.id = store, process, session_id
        self.pid = process.pid
        self.cwd = CWD
        self.path = store.project_of(CWD) / f"{session_id}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lines = 0
        self._parents: dict[Path, str] = {}

    def register(self, **fields: Any) -> None:
        """Write the registry file; fields are given as the client writes them."""
        start = start_of(self.pid)
        claim: Fields = {"pid": self.pid, "sessionId": self.id, "cwd": self.cwd}
        claim |= {"startedAt": round((time.time() - 7200) * 1000), "version": "2.1.325"}
        claim |= {"kind": "interactive", "entrypoint": "cli"}
        claim |= {"procStart": start} if start else {}
        self.store.registry.mkdir(parents=True, exist_ok=True)
        file = self.store.registry / f"{self.pid}.json"
        new = file.with_suffix(".new")
        new.write_text(json.dumps(claim | fields))
        new.replace(file)

    def report(self, status: str, waiting_for: str | None = None, ago: float = 0.0) -> None:
        """Register a status, as 2.1.325 does."""
        fields: Fields = {"status": status, "statusUpdatedAt": (time.time() - ago) * 1000}
        self.register(**fields, **({"waitingFor": waiting_for} if waiting_for else {}))

    def write(self, *lines: bytes, ago: float = 0.0, agent: str | None = None) -> None:
        """Append lines, written so many seconds ago, to the session or to a sub-agent."""
        path = self.agent_path(agent) if agent else self.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            for raw in lines:
                file.write(encode(self._chained(json.loads(raw), path, agent, ago)))

    def agent_path(self, agent: str) -> Path:
        return self.path.with_suffix("") / "subagents" / f"agent-{agent}.jsonl"

    def describe_agent(self, agent: str, **meta: Any) -> None:
        path = self.agent_path(agent)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".meta.json").write_text(json.dumps(meta))

    def kill(self) -> None:
        """End the client, which leaves its registry file behind."""
        self.process.kill()
        self.process.wait()

    def _chained(self, fields: Fields, path: Path, agent: str | None, ago: float) -> Fields:
        self._lines += 1
        uuid = f"00000000-0000-4000-8000-{self._lines:012d}"
        shared: Fields = {"uuid": uuid, "parentUuid": self._parents.get(path)}
        shared |= {"sessionId": self.id, "isSidechain": agent is not None, "cwd": self.cwd}
        shared |= {"version": "2.1.325", "timestamp": stamp(_now(ago))}
        shared |= {"agentId": agent} if agent else {}
        self._parents[path] = uuid
        if fields["type"] == "assistant":
            fields["message"].setdefault("id", f"msg_{self.id[:8]}_{self._lines}")
        return shared | fields


def _now(ago: float) -> datetime:
    return datetime.fromtimestamp(time.time() - ago, UTC)


@contextmanager
def running_sessions(root: Path, count: int = 1) -> Generator[list[RunningSession]]:
    """Start processes that stand for clients, each with a session."""
    command = [sys.executable, "-S", "-E", "-c", "import time; time.sleep(600)"]
    processes = [subprocess.Popen(command) for _ in range(count)]
    ids = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(1, count + 1)]
    store = Store(root)
    try:
        sessions = zip(processes, ids, strict=True)
        yield [RunningSession(store, process, id_) for process, id_ in sessions]
    finally:
        for process in processes:
            process.kill()
            process.wait()
