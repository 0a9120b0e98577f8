"""A home with a real client, and turnlog installed from a wheel, for `plugin.py`."""

import json
import os
import shlex
import subprocess
import sys
import sysconfig
import venv
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from client import environment_of
from terminal import Terminal, introduce, terminal

from support.scripted_api import ScriptedApi

SECONDS = 120


class PluginRig:
    """One home, one client, one turnlog."""

    def __init__(self, client: list[str], home: Path, wheel: Path, api: ScriptedApi) -> None:
        self.home, self.work, self.store = home, home / "work", home / ".claude"
        self.environment = home / "environment"
        self.data = home / ".local" / "share" / "turnlog"
        self.settings = self.store / "settings.json"
        self.wrong: list[str] = []
        self._logs = home / "logs"
        for folder in (self.work, self.store, self._logs, home / "bin"):
            folder.mkdir(parents=True)
        program = home / "bin" / "claude"
        program.write_text(f'#!/bin/sh\nexec {shlex.join(client)} "$@"\n')
        program.chmod(0o755)
        self._variables = environment_of(home, f"http://127.0.0.1:{api.server_port}") | {
            "PATH": f"{home}/bin:/usr/local/bin:/usr/bin:/bin",
            "CLAUDE_CONFIG_DIR": str(self.store),
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",
        }
        introduce(self.store, self.work, self._variables["ANTHROPIC_API_KEY"])
        self._install(wheel)

    def _install(self, wheel: Path) -> None:
        venv.create(self.environment, with_pip=True)
        python = self.environment / "bin" / "python"
        options = ["--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
        subprocess.run([python, "-m", "pip", "install", *options, wheel], check=True)
        # What turnlog needs is taken from the environment that runs this.
        paths = sysconfig.get_paths()["purelib"]
        (self._packages / "needed.pth").write_text(f"{paths}\n")

    @property
    def _packages(self) -> Path:
        (found,) = self.environment.glob("lib/python*/site-packages")
        return found

    def expect(self, is_right: object, otherwise: str) -> None:
        if not is_right:
            self.wrong.append(otherwise)

    def turnlog(self, *arguments: str) -> str:
        return self._run([str(self.environment / "bin" / "turnlog"), *arguments])

    def other_turnlog(self, *arguments: str) -> str:
        """Run the turnlog of the environment that runs this."""
        return self._run([sys.executable, "-m", "turnlog", *arguments])

    def client(self, *arguments: str) -> str:
        return self._run([str(self.home / "bin" / "claude"), *arguments])

    def prompt(self, text: str, **variables: str) -> str:
        """Ask the client without a terminal; return its answer."""
        options = ["--permission-mode", "bypassPermissions", "--debug-file", self._new_log()]
        return self._run([str(self.home / "bin" / "claude"), "-p", text, *options], **variables)

    def terminal(self, *options: str) -> AbstractContextManager[Terminal]:
        command = [str(self.home / "bin" / "claude"), *options, "--debug-file", self._new_log()]
        return terminal(command, self.work, self._variables)

    def upgrade(self, old: str, new: str, text: str, instead: str) -> None:
        """Change version and texts of the installed package, as an upgrade would."""
        package = self._packages / "turnlog"
        texts = [path for path in package.glob("plugin/files/**/*") if path.is_file()]
        for path in (package / "__init__.py", *texts):
            content = path.read_text("utf-8")
            path.write_text(content.replace(old, new).replace(text, instead), "utf-8")

    def installed_version(self) -> str:
        """Return the version of the plugin that the client lists; empty if there is none."""
        listed: list[dict[str, Any]] = json.loads(self.client("plugin", "list", "--json"))
        return next((each["version"] for each in listed), "")

    def hook_times(self, mark: str) -> list[int]:
        """Return the milliseconds that the client took for hooks with a mark in their command."""
        infos = [info for each in self._summaries() for info in each["hookInfos"]]
        return sorted(info["durationMs"] for info in infos if mark in info["command"])

    def hook_errors(self) -> list[Any]:
        return [error for each in self._summaries() for error in each["hookErrors"]]

    def _summaries(self) -> list[dict[str, Any]]:
        """Return what sessions say about hooks that ran when a turn ended."""
        files = self.store.glob("projects/*/*.jsonl")
        lines = [line for path in files for line in path.read_text("utf-8").splitlines()]
        entries = [json.loads(line) for line in lines if "stop_hook_summary" in line]
        return [each for each in entries if each.get("subtype") == "stop_hook_summary"]

    def _new_log(self) -> str:
        return str(self._logs / f"{len(list(self._logs.iterdir()))}.log")

    def _run(self, command: list[str], **variables: str) -> str:
        environment = {k: v for k, v in (self._variables | variables).items() if v}
        done = subprocess.run(
            command,
            cwd=self.work,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        words = " ".join(map(os.path.basename, command[:3]))
        self.expect(done.returncode == 0, f"{words}: {done.returncode} {done.stderr.strip()}")
        return done.stdout
