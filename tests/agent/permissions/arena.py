"""A throw-away project full of canaries, and the Bash tool that runs what the policy allows.

A command gets through if it changes a file, shows a secret, reaches the network or runs a program
although its tier does not permit that. Verdicts do not count, only what happens.
"""

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from turnlog.agent.config.settings import load
from turnlog.agent.permissions import ApprovalMode, Verdict, VerdictKind
from turnlog.agent.permissions.consent import Consent
from turnlog.agent.tools.bash import BASH
from turnlog.agent.workspace.access import (
    PROTECTED_FILES,
    PROTECTED_FOLDERS,
    PROTECTED_PATHS,
    Basis,
    Runs,
    Tier,
)
from turnlog.agent.workspace.sandbox.protected import GIT_PARTS
from turnlog.agent.workspace.tool import Grant, ToolError
from turnlog.agent.workspace.workspace import Workspace
from turnlog.store.paths import Store

OUTSIDE, DENIED, AT_HOME = "outside-canary-7d1f", "denied-canary-93ab", "home-canary-51c0"
TIMEOUT = 10_000
DENY_FILES = ("Read(./.env)", "Read(/config/**)", "Edit(/docs/keep.md)", "Read(~/.ssh/**)")
DENY_PROGRAMS = ("Bash(curl:*)", "Bash(evil:*)")
FILES = {
    "src/app.py": "import os\n",
    "src/b.py": "x = 1\n",
    "docs/a.md": "a\n",
    "docs/keep.md": "keep\n",
    "README.md": "read me\n",
    ".env": f"KEY={DENIED}\n",
    "config/prod.key": f"{DENIED}\n",
    ".claude/settings.json": "{}\n",
    ".mcp.json": "{}\n",
    ".envrc": "export A=1\n",
    "evil.json": '{"hooks": {}}\n',
    "list.txt": ".env\nsrc/app.py\n",
    "vendor/lib/.git/HEAD": "ref: refs/heads/main\n",
    "vendor/lib/.git/config": "[core]\n",
    "mk/git/config": "x\n",
    "pattern.txt": "KEY\n",
}


class Trial(NamedTuple):
    """The conditions under which commands are tried."""

    name: str
    mode: ApprovalMode = ApprovalMode.DEFAULT
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = (*DENY_FILES, *DENY_PROGRAMS)
    is_confirmed: bool = False
    """True if the user answers every question with yes."""

    @property
    def is_contained(self) -> bool:
        """True if the command has no network and sees no files of the user."""
        return not self.allow and not self.is_confirmed


READ = Trial("read")
WRITE = Trial("write", ApprovalMode.ACCEPT_EDITS)
# Every simple command, as a pattern: `Bash` alone lets commands change the whole machine.
RULE = Trial("rule", allow=("Bash(* *)",))
CONFIRMED = Trial("confirmed", is_confirmed=True)
TIERS = (READ, WRITE, RULE, CONFIRMED)


class Outcome(NamedTuple):
    """What became of a command."""

    verdict: Verdict
    output: str = ""
    wants: str = ""
    breaches: tuple[str, ...] = ()
    has_run: bool = False


class Arena:
    """A project, what lies around it, a server, and a record of what got through."""

    def __init__(self, place: Path, *, is_committed: bool = True) -> None:
        self.place, self.template, self.world = place, place / "template", place / "world"
        self.project, self.home = self.world / "project", self.world / "home"
        self.programs = place / "programs"
        self.programs.mkdir(parents=True)
        for name in ("evil", "ok"):
            program(self.programs / name, name)
        _make_world(self.template, is_committed=is_committed)
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.settimeout(0)
        self.address = f"http://127.0.0.1:{self.server.getsockname()[1]}"
        self.renew()
        self.pristine = fingerprint(self.world)

    def environment(self) -> dict[str, str]:
        """The variables to set for the test: a home, canary programs, and a proxy that records."""
        return {
            "HOME": str(self.home),
            "PATH": f"{self.programs}:/usr/local/bin:/usr/bin:/bin",
            "http_proxy": self.address,
            "GIT_CONFIG_NOSYSTEM": "1",
            "LC_ALL": "C.UTF-8",
        }

    def renew(self, source: Path | None = None) -> None:
        """Put everything back as it was, or as it is in a copy."""
        shutil.rmtree(self.world, ignore_errors=True)
        shutil.copytree(source or self.template, self.world, symlinks=True)
        (self.project / "deep" / "key").unlink()
        (self.project / "deep" / "key").hardlink_to(self.project / ".env")

    def try_all(self, commands: Iterable[str], *trials: Trial) -> dict[str, tuple[str, ...]]:
        """Run commands in several tiers; return what got through of each."""
        return asyncio.run(self._try_all(list(dict.fromkeys(commands)), trials))

    async def _try_all(
        self, commands: list[str], trials: tuple[Trial, ...]
    ) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for trial in trials:
            for command in commands:
                if breaches := (await self.run(command, trial)).breaches:
                    found[f"{trial.name}: {command}"] = breaches
        return found

    def try_one(self, command: str, trial: Trial) -> Outcome:
        """Run a command in one tier."""
        return asyncio.run(self.run(command, trial))

    async def run(self, command: str, trial: Trial, *, is_renewed: bool = True) -> Outcome:
        """Run a command as a session with nobody to ask, or with one who confirms everything.

        Without `is_renewed`, what it changes stays, and is not looked for.
        """
        settings = load(Store(self.home / ".claude"), self.project, self.place / "managed.json")
        consent = Consent(settings, trial.mode, trial.allow, trial.deny)
        workspace = Workspace(self.project, self.place / "session", self.project)
        workspace.tier = Tier.READ
        workspace.environment = {"PATH": os.environ["PATH"]}
        verdict = consent.decide("Bash", [Runs(command)], workspace)
        basis = Basis.USER if trial.is_confirmed else verdict.basis
        if verdict.kind is VerdictKind.DENY or (
            verdict.kind is VerdictKind.ASK and not trial.is_confirmed
        ):
            return Outcome(verdict)
        grant = Grant(basis, profile=consent.profile(basis, workspace))
        value = BASH.read({"command": command, "timeout": TIMEOUT})
        try:
            outcome = await BASH.run(value, workspace, lambda text: None, grant)
        except ToolError as error:
            return Outcome(verdict, str(error))
        finally:
            await workspace.shells.close()
        text = f"{outcome.content}"
        found = (*self._shown(text, trial), *self._reached(trial))
        found += tuple(self._changes(trial)) if is_renewed else ()
        return Outcome(verdict, text, outcome.wants, found, has_run=True)

    def _shown(self, text: str, trial: Trial) -> Iterator[str]:
        for canary, what in ((DENIED, "a denied file"), (AT_HOME, "a denied file at home")):
            if canary in text and trial.deny:
                yield f"showed {what}"
        if OUTSIDE in text and trial.is_contained:
            yield "showed a file outside"
        if "ran-evil" in text and trial.deny:
            yield "ran evil"

    def _reached(self, trial: Trial) -> Iterator[str]:
        with suppress(BlockingIOError):
            while True:
                connection, _ = self.server.accept()
                with closing(connection):
                    connection.settimeout(1)
                    said = connection.recv(1 << 16) if not trial.is_contained else b"curl"
                    if b"curl" in said:
                        yield "reached the network"

    def _changes(self, trial: Trial) -> Iterator[str]:
        now = fingerprint(self.world)
        if now == self.pristine:
            return
        names = now.keys() | self.pristine.keys()
        changed = sorted(name for name in names if now.get(name) != self.pristine.get(name))
        for name in changed:
            if name.startswith("home/.local"):  # turnlog's own data: what it moved away
                continue
            content = now.get(name, (0, ""))[1]
            if DENIED in content and trial.deny and name not in self.pristine:
                yield f"copied a denied file to {name}"
            if not self._may_change(name, trial):
                yield f"changed {name}"
        if "project/ran-evil" in changed and trial.deny:
            yield "ran evil"
        self.renew()

    def _may_change(self, name: str, trial: Trial) -> bool:
        if trial is READ:
            return False
        is_denied = name in ("project/.env", "project/docs/keep.md", "home/.ssh/id") or (
            name.startswith("project/config/") or name in ("project/config", "project/docs")
        )
        if is_denied and trial.deny:
            return False
        if trial.is_confirmed:
            return True
        is_caching = bool(trial.allow) and name.startswith(("home/.cache", "home/.npm"))
        if not name.startswith("project/") and not is_caching:
            return False
        is_new, is_ruled = name not in self.pristine, bool(trial.allow)
        inner = name.removeprefix("project/")
        return (is_new and is_ruled) or not _is_protected(inner, is_new=is_new, is_ruled=is_ruled)


def _is_protected(name: str, *, is_new: bool, is_ruled: bool) -> bool:
    """Return whether the sandboxes keep a file: what runs later, where it is looked for."""
    parts = name.split("/")
    if {".claude", ".mcp.json"} & set(parts):
        return True
    if ".git" in parts:
        inner = parts[parts.index(".git") + 1 :]
        kept = set(GIT_PARTS) - ({"config"} if is_ruled else set())
        if is_new and parts[0] != ".git":  # a copy; git itself makes samples of hooks
            return inner[:1] == ["hooks"] and len(inner) > 1 and not inner[1].endswith(".sample")
        return bool(inner) and inner[0] in kept
    whole = f"{'/'.join(parts)}/"
    return parts[0] in PROTECTED_FILES | PROTECTED_FOLDERS or any(
        whole.startswith(f"{each}/") for each in PROTECTED_PATHS
    )


def program(path: Path, name: str) -> None:
    """Write a program that says that it ran, and leaves a mark in its directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho ran-{name}; echo ran-{name} >&2; : > ran-{name}\n")
    path.chmod(0o755)


def _make_world(world: Path, *, is_committed: bool) -> None:
    project, outside = world / "project", world / "outside"
    for name, text in FILES.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    outside.mkdir()
    (outside / "secret.txt").write_text(f"{OUTSIDE}\n")
    (world / "home" / ".ssh").mkdir(parents=True)
    (world / "home" / ".ssh" / "id").write_text(f"{AT_HOME}\n")
    (project / "out").symlink_to("../outside")
    (project / "out.txt").symlink_to("../outside/secret.txt")
    (project / "in.txt").symlink_to("src/app.py")
    (project / "notes").symlink_to(".env")
    (project / "keys").symlink_to("config")
    (project / "proc").symlink_to("/proc/self/cwd")
    (project / "deep").mkdir()
    (project / "deep" / "up").symlink_to("../../outside")
    (project / "deep" / "key").hardlink_to(project / ".env")
    for name in ("3/ls", "bin/ls", "ls", "src/git"):
        program(project / name, "planted")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    plain = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
    named = ["."] if is_committed else [".", ":!.env", ":!config", ":!deep/key", ":!vendor"]
    for arguments in (
        ["init", "-q"],
        ["add", "-f", "--", *named],
        ["commit", "-qm", "one"],
        ["gc", "-q"],
    ):
        subprocess.run([*git, *arguments], cwd=project, check=True, env=plain)


def fingerprint(folder: Path) -> dict[str, tuple[int, str]]:
    """Every file below a directory, with its mode and content."""
    found: dict[str, tuple[int, str]] = {}
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(root, name)
            key = str(path.relative_to(folder))
            if not key.endswith(".git/index"):
                found[key] = (path.lstat().st_mode, _content(path))
    return found


def _content(path: Path) -> str:
    if path.is_symlink():
        return f"link {path.readlink()}"
    return path.read_bytes().decode("latin-1") if path.is_file() else "other"
