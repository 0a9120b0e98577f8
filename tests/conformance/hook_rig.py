"""A real client with turnlog's hook in its settings, and a backend that can go down."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from socket import socket

import msgspec
from client import environment_of
from terminal import Terminal, terminal

from support.otlp_receiver import Received, receiving
from turnlog.trace.span import Span

CLIENT_SECONDS = 120
SEND_SECONDS = 15
PAUSE = 0.1
BEGUN = '"name":"Bash","input":'
"""In the line of a call; the client also writes its request, which names only the tool."""
TOOLS = "Read,Bash,Task,Agent"


class Rig:
    """One store, one client, one backend."""

    def __init__(self, client: list[str], folder: Path, api: str) -> None:
        self.client = client
        self.work = folder / "work"
        self.store = folder / "claude"
        self.complaints: list[str] = []
        self.received: list[Received] = []
        self._port = free_port()
        self._environment = client_environment(folder, api)
        for place in (self.work, self.store, folder / "home"):
            place.mkdir()
        (self.work / "a.txt").write_text("alpha\n")
        self.turnlog("hook", "install", "--to", f"http://127.0.0.1:{self._port}/v1/traces")

    def turnlog(self, *arguments: str) -> str:
        """Run turnlog; return its output."""
        command = [sys.executable, "-m", "turnlog", *arguments]
        run = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, check=False
        )
        if run.returncode:
            self.complaints.append(f"turnlog {' '.join(arguments)}: {run.stderr.strip()}")
        return run.stdout

    @contextmanager
    def backend(self) -> Generator[None]:
        """The backend, while it is up."""
        with receiving(self._port) as receiver:
            receiver.requests = self.received
            yield

    def settle(self) -> None:
        """Wait until the hook has sent everything; to send by hand should then add nothing."""
        wanted = {span.id for span in self.wanted()}
        for _ in range(int(SEND_SECONDS / PAUSE)):
            if wanted <= self._ids:
                break
            time.sleep(PAUSE)
        before = self._ids
        self.turnlog("hook", "send")
        if self._ids - before:
            self.complaints.append(f"{len(self._ids - before)} spans were sent only by hand")

    def let_pass(self, seconds: float) -> None:
        """Make all files as old as if some time had passed."""
        for path in self.store.parent.rglob("*"):
            if path.is_file():
                then = path.stat().st_mtime - seconds
                os.utime(path, (then, then))

    @property
    def _ids(self) -> set[str]:
        return {span.span_id.hex() for each in self.received for span in each.spans}

    def ask(self, script: str, *options: str) -> None:
        """One prompt, and a client for it alone."""
        self._require_silence(script, self._start("-p", f"PLAY:{script}", *options))

    def talk(self, *scripts: str) -> None:
        """Several prompts in one client, each when the one before is answered."""
        formats = ("--input-format", "stream-json", "--output-format", "stream-json")
        run = self._start("-p", "--verbose", *formats, stdin=subprocess.PIPE)
        assert run.stdin, "piped"
        assert run.stdout, "piped"
        for script in scripts:
            message = {"role": "user", "content": f"PLAY:{script}"}
            run.stdin.write(json.dumps({"type": "user", "message": message}) + "\n")
            run.stdin.flush()
            while (line := run.stdout.readline()) and json.loads(line)["type"] != "result":
                pass
        self._require_silence(" ".join(scripts), run)

    def break_off(self, script: str, how: signal.Signals) -> None:
        """One prompt, and a signal while its tool runs."""
        run = self._start("-p", f"PLAY:{script}")
        self.wait_for(BEGUN)
        run.send_signal(how)
        run.communicate(timeout=CLIENT_SECONDS)

    def terminal(self) -> AbstractContextManager[Terminal]:
        """A client to be typed to."""
        return terminal([*self.client, "--allowedTools", TOOLS], self.work, self._environment)

    def wait_for(self, text: str) -> None:
        """Wait until a session's file holds a text."""
        for _ in range(int(CLIENT_SECONDS / PAUSE)):
            files = self.store.glob("projects/*/*.jsonl")
            if any(text in path.read_text("utf-8") for path in files):
                return
            time.sleep(PAUSE)
        self.complaints.append(f"no session ever held {text}")

    def wanted(self) -> list[Span]:
        """The spans that turnlog makes of all files there are."""
        told = self.turnlog("trace", "--all", "--dry-run", "--json")
        return msgspec.json.decode(told, type=list[Span])

    def _start(self, *arguments: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.client, *arguments, "--allowedTools", TOOLS],
            cwd=self.work,
            env=self._environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _require_silence(self, script: str, run: subprocess.Popen[str]) -> None:
        _, errors = run.communicate(timeout=CLIENT_SECONDS)
        if errors.strip():
            self.complaints.append(f"{script}: the client said {errors.strip()}")


def client_environment(folder: Path, api: str) -> dict[str, str]:
    programs = Path(sys.executable).parent
    # The hook has to run the code under test, wherever that lies.
    sources = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    return (
        environment_of(folder / "home", api)
        | sources
        | {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "TMPDIR": str(folder),
            "CLAUDE_CONFIG_DIR": str(folder / "claude"),
            "TURNLOG_HOME": str(folder / "turnlog"),
        }
    )


def free_port() -> int:
    with socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]
