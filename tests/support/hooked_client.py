"""A client that writes session files and calls its hooks, line by line."""

import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from support.build import (
    assistant,
    call,
    compaction,
    encode,
    result,
    session,
    system,
    text,
    user,
)
from turnlog.trace.note import leave_notes
from turnlog.trace.route_capture import capture
from turnlog.trace.variable_origin import HookPlaces

PROJECT = "/home/ada/shop"
"""Where the lines of a session say that they were written."""
LONG_AGO = 10_000
"""Seconds after which nobody continues a session."""


class Clock:
    """Times as lines have them: each later than those before, and than the last hook called."""

    def __init__(self) -> None:
        self.last = datetime.now(UTC)

    def tick(self) -> str:
        self.last = max(self.last + timedelta(milliseconds=1), datetime.now(UTC))
        return self.last.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def catch_up(self) -> None:
        """Wait until it is later than all lines; those to come are later than now."""
        time.sleep(max(0, (self.last - datetime.now(UTC)).total_seconds()) + 0.001)
        self.last = datetime.now(UTC) + timedelta(milliseconds=2)


class Names:
    """Ids that no other line has."""

    def __init__(self) -> None:
        self.count = 0

    def uuid(self) -> str:
        self.count += 1
        return str(UUID(int=self.count, version=4))

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}_{self.count}"


class Client:
    """One session in a running client; older clients pass less to their hooks and write less."""

    def __init__(self, spool: Path, to: str, folder: Path, world: tuple[Clock, Names]) -> None:
        self.spool, self.to, self.folder = spool, to, folder
        self.clock, self.names = world
        self.is_new = True
        self.is_asked = False
        self.tip: str | None = None
        self.background: dict[str, str] = {}
        """Sub-agents that run, and the calls that started them."""
        self.id = self.names.uuid()
        self.project = PROJECT
        self.variables: dict[str, str] = {}
        """Variables that the client adds to the environment of its hooks."""

    @property
    def path(self) -> Path:
        return self.folder / f"{self.id}.jsonl"

    def add(self, make: Callable[..., bytes], *values: Any, **fields: Any) -> None:
        """Write a line that follows on the tip."""
        given = {"uuid": self.names.uuid(), "parent": self.tip, "timestamp": self.clock.tick()}
        given |= fields
        self.tip = given["uuid"]
        raw = json.loads(make(*values, **given)) | {"cwd": self.project}
        self._write(self.path, session(encode(raw), session_id=self.id))

    def call_hooks(self, event: str, **told: Any) -> None:
        """Spool the payload of an event, as the real hook does."""
        told |= {"session_id": self.id, "transcript_path": str(self.path)}
        told |= {"hook_event_name": event}
        time.sleep(max(0, (self.clock.last - datetime.now(UTC)).total_seconds()))
        places = {
            "CLAUDE_PROJECT_DIR": self.project,
            "CLAUDE_CONFIG_DIR": str(self.folder.parent.parent),
        }
        environment = {**os.environ, **places, **self.variables}
        options = ["--to", self.to] if self.to else []
        routes = capture(HookPlaces([*options, "--spool", str(self.spool)], environment))
        leave_notes(str(self.spool), routes, json.dumps(told).encode())
        self.clock.last = max(self.clock.last, datetime.now(UTC) + timedelta(milliseconds=1))

    def ask(self) -> None:
        self.add(user, self.names.name("prompt"))
        self.is_asked = True

    def work(self, parallel: int = 1) -> None:
        """Tools that run and come back, all called in one message."""
        message = self.names.name("msg")
        calls = [call("Bash", {"n": n}, self.names.name("toolu")) for n in range(parallel)]
        for each in calls:
            self.add(assistant, each, message_id=message)
        for each in calls:
            self.add(result, each["id"], "done")

    def delegate(self, in_background: bool) -> None:
        """Run a sub-agent, at whose end the hook is called; one in the background runs on."""
        agent, name = self.names.name("agent"), self.names.name("toolu")
        self.add(assistant, call("Agent", {"prompt": "look"}, name), message_id=f"msg_{name}")
        self._agent_says(agent, user, "look", call_id=name)
        self._agent_says(agent, assistant, text("so far"), message_id=f"msg_{agent}")
        if in_background:
            status = {"status": "async_launched", "agentId": agent}
            self.add(result, name, "launched", tool_use_result=status)
            self.background[agent] = name
        else:
            self.call_hooks("SubagentStop", agent_id=agent)
            self.add(result, name, "found", tool_use_result={"agentId": agent})

    def notify(self) -> None:
        """End a sub-agent in the background; the client notifies the model."""
        agent, _ = self.background.popitem()
        self._agent_says(agent, assistant, text("found"), message_id=f"msg_{agent}_2")
        self.call_hooks("SubagentStop", agent_id=agent)
        told = f"<task-notification><task-id>{agent}</task-id></task-notification>"
        self.add(user, told, origin={"kind": "task-notification"})
        self.is_asked = True

    def say(self, is_late: bool) -> None:
        """The last words of a turn; the newest clients call the hook before they write them."""
        words = self.names.name("answer")
        running = [{"id": name, "status": "running"} for name in self.background]
        told = {"last_assistant_message": words, "background_tasks": running}
        said = {"message_id": self.names.name("msg"), "timestamp": self.clock.tick()}
        if self.is_new and is_late:
            self.call_hooks("Stop", **told)
            self.add(assistant, text(words), **said)
        else:
            self.add(assistant, text(words), **said)
            self.call_hooks("Stop", **(told if self.is_new else {}))

    def close(self) -> None:
        """Write the lines that end a turn, after its hooks have run."""
        if self.is_new:
            self.add(system, "stop_hook_summary", hook_count=1, hook_infos=[])
            self.add(system, "turn_duration", duration_ms=50)
        self.is_asked = False

    def be_sent_back(self) -> None:
        """Let another hook make the model continue."""
        self.add(system, "stop_hook_summary", hook_count=2, prevented_continuation=False)
        self.add(user, "Stop hook feedback:\nnot yet", is_meta=True)

    def be_interrupted(self) -> None:
        self.add(user, [text("[Request interrupted by user]")])
        self.is_asked = False

    def compact(self) -> None:
        boundary, summary = compaction("told", logical_parent_uuid=self.tip)
        for raw, parent in ((boundary, None), (summary, self.tip)):
            fields = json.loads(raw) | {"uuid": self.names.uuid(), "timestamp": self.clock.tick()}
            fields["parentUuid"] = self.tip if parent else None
            self.tip = fields["uuid"]
            self._write(self.path, session(encode(fields), session_id=self.id))

    def end(self) -> None:
        self.call_hooks("SessionEnd", reason="other")
        self.is_asked = False
        self.background.clear()

    def start(self, source: str) -> None:
        self.call_hooks("SessionStart", source=source)

    def die(self) -> None:
        """Be killed: no hook is called."""
        self.is_asked = False
        self.background.clear()
        if self.path.exists():
            then = time.time() - LONG_AGO
            os.utime(self.path, (then, then))

    def fork(self) -> None:
        """Go on in a copy, which has the same lines under another id."""
        before, content = self.id, self.path.read_bytes()
        self.id = self.names.uuid()
        self.path.write_bytes(content.replace(before.encode(), self.id.encode()))

    def _agent_says(
        self, agent: str, make: Callable[..., bytes], *values: Any, **given: Any
    ) -> None:
        folder = self.path.with_suffix("") / "subagents"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"agent-{agent}.jsonl"
        if name := given.pop("call_id", None):
            path.with_suffix(".meta.json").write_bytes(encode({"toolUseId": name}))
        given |= {"uuid": self.names.uuid(), "timestamp": self.clock.tick()}
        self._write(path, session(make(*values, **given), session_id=self.id, agent_id=agent))

    def _write(self, path: Path, raw: bytes) -> None:
        with path.open("ab") as file:
            file.write(raw)
