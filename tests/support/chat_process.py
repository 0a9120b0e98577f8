"""`turnlog chat` as a process of its own, with a home and a folder of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import PIPE
from typing import NamedTuple

from turnlog.store.paths import Store

NAME = "5e551011-0000-4000-8000-000000000000"
NEW, AGAIN = ("--session-id", NAME), ("--resume", NAME)
STREAM = ("-p", "--input-format", "stream-json", "--output-format", "stream-json")
ANYTHING = ("--permission-mode", "bypassPermissions")
SECONDS = 60


class ChatProcess:
    """Starts `turnlog chat` in a folder."""

    def __init__(self, home: Path, address: str) -> None:
        self.work = home / "work"
        self.work.mkdir(parents=True, exist_ok=True)
        self.store = Store(home / "claude")
        self.session = self.store.project_of(str(self.work)) / f"{NAME}.jsonl"
        kept = {name: value for name, value in os.environ.items() if "ANTHROPIC" not in name}
        self.environment = kept | {
            "HOME": str(home),
            "CLAUDE_CONFIG_DIR": str(self.store.root),
            "TURNLOG_HOME": str(home / "turnlog"),
            "ANTHROPIC_BASE_URL": address,
            "ANTHROPIC_API_KEY": "not-a-key",
            "IS_SANDBOX": "1",  # it may be root who runs it
        }

    def start(
        self, *arguments: str, stdout: int = PIPE, stderr: int = PIPE, largest: int | None = None
    ) -> "subprocess.Popen[str]":
        """Start it; `largest` is how many bytes a file can have that it writes."""
        limit = ("prlimit", f"--fsize={largest}", "--") if largest else ()
        return subprocess.Popen(
            [*limit, sys.executable, "-m", "turnlog", "chat", *arguments],
            cwd=self.work,
            env=self.environment,
            stdin=PIPE,
            stdout=stdout,
            stderr=stderr,
            text=True,
        )

    def run(
        self, *arguments: str, prompts: Sequence[str] = (), largest: int | None = None
    ) -> "ProcessOutput":
        """Let it run to its end."""
        with self.start(*arguments, largest=largest) as running:
            out, err = running.communicate(typed(prompts), timeout=SECONDS)
            return ProcessOutput(running.returncode, out, err)


class ProcessOutput(NamedTuple):
    """The output and exit code of a process."""

    code: int
    out: str
    err: str


def typed(prompts: Sequence[str]) -> str:
    """Prompts as a program writes them."""
    messages = [{"type": "user", "message": {"role": "user", "content": each}} for each in prompts]
    return "".join(f"{json.dumps(message)}\n" for message in messages)
