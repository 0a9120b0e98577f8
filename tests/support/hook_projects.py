"""Projects with a backend each, whose clients share one machine, one store and one spool."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from support.build import assistant, encode, session, system, text, user
from support.hooked_client import LONG_AGO, Clock, Names
from support.otlp_receiver import Receiver, attributes
from turnlog.store.paths import folder_name
from turnlog.trace.spool import Spool

COMMAND = [sys.executable, "-m", "turnlog", "hook"]
KEY = "x-project-key"


def make_spool(home: Path) -> Spool:
    """A spool whose hooks were installed long ago, so that no session is too old to be sent."""
    made = Spool(home / "trace" / "spool")
    made.begin()
    os.utime(made.folder / "since", (0, 0))
    return made


@dataclass
class Project:
    """A directory whose settings name a backend, a content level, a key and a user."""

    folder: Path
    store: Path
    receiver: Receiver
    content: str
    world: tuple[Clock, Names]
    more: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def settings(self) -> dict[str, str]:
        """The `env` object of the project's settings."""
        return {
            "TURNLOG_TRACE_TO": self.receiver.url,
            "TURNLOG_TRACE_CONTENT": self.content,
            "TURNLOG_TRACE_HEADERS": f"{KEY}=key-of-{self.name}",
            "TURNLOG_TRACE_USER": f"user-of-{self.name}",
            "TURNLOG_TRACE_TIMEOUT": "5",
            **self.more,
        }

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a hook in this project."""
        inherited = {name: value for name, value in os.environ.items() if "TRACE" not in name}
        places = {"CLAUDE_PROJECT_DIR": str(self.folder), "CLAUDE_CONFIG_DIR": str(self.store)}
        return inherited | places | self.settings

    def session(self, folder: Path | None = None) -> "ProjectSession":
        """A new session, in the project's own folder unless another is named."""
        place = folder or self.store / "projects" / folder_name(str(self.folder))
        place.mkdir(parents=True, exist_ok=True)
        return ProjectSession(self, place / f"{self.world[1].uuid()}.jsonl")


class ProjectSession:
    """A session of a project, which another project may continue."""

    def __init__(self, project: Project, path: Path, tip: str | None = None) -> None:
        self.project, self.path, self.tip = project, path, tip

    def turn(self, cwd: Path | None = None) -> None:
        """Write a whole turn, whose texts name the project."""
        names = self.project.world[1]
        words = f"content-of-{self.project.name} {names.name('w')}"
        at = str(cwd or self.project.folder)
        self._add(user(f"asked {words}"), at)
        self._add(assistant(text(f"answered {words}"), message_id=names.name("msg")), at)
        self._add(system("stop_hook_summary", hook_count=1, hook_infos=[]), at)
        self._add(system("turn_duration", duration_ms=5), at)

    def payload(self, event: str, **more: Any) -> bytes:
        """Return the payload of a hook, once the time of the last line has come."""
        self.project.world[0].catch_up()
        told = {"hook_event_name": event, "session_id": self.path.stem}
        return json.dumps(told | {"transcript_path": str(self.path)} | more).encode()

    def hook(self, event: str = "Stop", **more: Any) -> None:
        """Run the real hook, which starts a sender if none is at work."""
        run_hook(self.project.environment, self.payload(event, **more))

    def abandon(self) -> None:
        """Be killed long ago: no hook is called."""
        then = time.time() - LONG_AGO
        os.utime(self.path, (then, then))

    def continued_by(self, other: Project) -> "ProjectSession":
        """The same file, continued by a client in another project."""
        return ProjectSession(other, self.path, self.tip)

    def _add(self, raw: bytes, cwd: str) -> None:
        clock, names = self.project.world
        fields = json.loads(raw) | {"uuid": names.uuid(), "parentUuid": self.tip, "cwd": cwd}
        fields["timestamp"] = clock.tick()
        self.tip = fields["uuid"]
        with self.path.open("ab") as file:
            file.write(session(encode(fields), session_id=self.path.stem))


def run_hook(
    environment: Mapping[str, str], payload: bytes, *arguments: str, cwd: Path | None = None
) -> None:
    done = subprocess.run(
        [*COMMAND, "run", *arguments],
        env=environment,
        cwd=cwd,
        input=payload,
        capture_output=True,
        check=True,
        timeout=30,
    )
    assert (done.stdout, done.stderr) == (b"", b"")


def send_from(environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Send what waits, from the environment of one project."""
    return subprocess.run(
        [*COMMAND, "send", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@contextmanager
def without_senders(spool: Spool) -> Generator[None]:
    """Let no sender work; those that hooks have started meanwhile give up before this ends."""
    with spool.lock(30) as is_ours:
        assert is_ours
        yield
        limit = time.time() + 60
        while senders_below(spool.folder.parents[2]):
            assert time.time() < limit, "a sender that found the spool locked is still running"
            time.sleep(0.02)


def senders_below(folder: Path) -> list[int]:
    """Return the processes of hooks whose environment names a folder."""
    return [int(path.name) for path in Path("/proc").glob("[0-9]*") if _is_sender(path, folder)]


def _is_sender(process: Path, folder: Path) -> bool:
    try:
        command = (process / "cmdline").read_bytes()
        return b"hook\0run" in command and bytes(folder) in (process / "environ").read_bytes()
    except OSError:  # it has ended
        return False


def leaks(project: Project) -> list[str]:
    """Whatever the backend of a project got that is not the project's own, at its level."""
    return list(_leaks(project))


def _leaks(project: Project) -> Iterator[str]:
    for request in project.receiver.requests:
        if request.headers.get(KEY) != f"key-of-{project.name}":
            yield f"key {request.headers.get(KEY)}"
        for span in request.spans:
            told = attributes(span)
            everything = str(span)
            if told.get("user.id") != f"user-of-{project.name}":
                yield f"user {told.get('user.id')}"
            others = everything.replace(f"content-of-{project.name}", "")
            if "content-of-" in others:
                yield f"foreign content in {span.name}"
            if project.content == "none" and "content-of-" in everything:
                yield f"content in {span.name}"


def turns_at(project: Project) -> int:
    """Count the turns that the backend of a project has."""
    return len({span.trace_id for span in roots_at(project)})


def roots_at(project: Project) -> list[Span]:
    """The spans of whole turns that the backend of a project has."""
    return [span for span in project.receiver.spans.values() if not span.parent_span_id]


def texts_at(project: Project) -> str:
    return " ".join(str(span) for span in project.receiver.spans.values())
