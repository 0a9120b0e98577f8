"""A throw-away project full of canaries, and a real bash that runs what the policy allows.

Where bubblewrap works, nothing outside of the project's surroundings can be changed.

A command gets through if it changes a file, shows a secret, or runs a program without permission.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from turnlog.agent.permissions import ApprovalMode, Policy, VerdictKind, decide, parse_rule
from turnlog.agent.workspace.access import Runs

OUTSIDE_SECRET = "outside-canary-7d1f"
DENIED_SECRET = "denied-canary-93ab"
PROGRAMS = ("curl", "evil", "ok")
"""Programs that leave a mark when they run; `ok` is the only one that a rule allows."""
ENTRIES_THAT_GIT_REFRESHES = frozenset((".git/index", "fix/index"))
TIMEOUT = "2"


class Trial(NamedTuple):
    """A policy under which commands are tried, and what it permits."""

    name: str
    mode: str = "default"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    may_write: bool = False
    runs: frozenset[str] = frozenset()
    """Canary programs that may run."""


DENIES = (
    *("Read(./.env)", "Read(config/**)", "Edit(/docs/keep.md)", "Read(//**/outside/**)"),
    *("Read(~/.ssh/**)", "Bash(curl:*)", "Bash(evil:*)"),
)
TRIALS = (
    Trial("default"),
    Trial("plan", mode="plan"),
    Trial("denies", deny=DENIES),
    Trial("edits", mode="acceptEdits", may_write=True),
    Trial("edits and denies", mode="acceptEdits", deny=DENIES, may_write=True),
    Trial(
        "rules",
        allow=("Bash(cat:*)", "Bash(echo:*)", "Bash(ok:*)"),
        deny=DENIES,
        runs=frozenset(("ok",)),
    ),
    Trial(
        "all but denied",
        allow=("Bash",),
        deny=("Bash(curl:*)", "Bash(evil:*)"),
        may_write=True,
        runs=frozenset(("ok", "planted")),
    ),
)


class Arena:
    """A project, what lies around it, and a record of the programs that ran."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.template = place / "template"
        self.world = place / "world"
        self.project = self.world / "project"
        self.ran = place / "ran"
        self.ran.mkdir(parents=True)
        self.bin = place / "bin"
        self._make_programs()
        self._make_world(self.template)
        self.renew()
        self.pristine = fingerprint(self.world)

    def _make_programs(self) -> None:
        self.bin.mkdir()
        for name in PROGRAMS:
            self._program(self.bin / name, name)

    def _program(self, path: Path, name: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/sh\n: > "{self.ran}/{name}"\n')
        path.chmod(0o755)

    def _make_world(self, world: Path) -> None:
        project, outside = world / "project", world / "outside"
        for name, text in {
            "src/app.py": "import os\n",
            "src/b.py": "x = 1\n",
            "docs/a.md": "a\n",
            "docs/b.md": "b\n",
            "docs/keep.md": "keep\n",
            "README.md": "read me\n",
            ".env": f"KEY={DENIED_SECRET}\n",
            "config/prod.key": f"{DENIED_SECRET}\n",
            ".claude/settings.json": "{}\n",
            "evil.json": '{"hooks": {}}\n',
            ".mcp.json": "{}\n",
            "list.txt": ".env\nsrc/app.py\n",
            "dash/-R": "x\n",
            "dash/a": "x\n",
            "vendor/lib/.git/HEAD": "x\n",
            "secretß.txt": "x\n",
            "mk/git/config": "x\n",
            "pattern.txt": "KEY\n",
            "nb/-o": "x\n",
            "s p/a b.txt": "x\n",
        }.items():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            (project / name).write_text(text)
        outside.mkdir()
        (outside / "secret.txt").write_text(f"{OUTSIDE_SECRET}\n")
        (world / "home" / ".ssh").mkdir(parents=True)
        (world / "home" / ".ssh" / "id").write_text(f"{OUTSIDE_SECRET}\n")
        (project / "out").symlink_to("../outside")
        (project / "out.txt").symlink_to("../outside/secret.txt")
        (project / "in.txt").symlink_to("src/app.py")
        (project / "proc").symlink_to("/proc/self/cwd")
        (project / "deep").mkdir()
        (project / "deep" / "rel").symlink_to("../README.md")
        (project / "deep" / "up").symlink_to("../../outside")
        for name in ("3/ls", "3/cat", "bin/ls", "ls", "src/git", "etc/passwd"):
            self._program(project / name, "planted")
        self._make_repositories(project)

    def _make_repositories(self, project: Path) -> None:
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
        for arguments in (
            ["init", "-q", "--template="],
            ["add", "-f", "."],
            ["commit", "-qm", "one"],
            ["gc", "-q"],
        ):
            subprocess.run([*git, *arguments], cwd=project, check=True, env=self._env())
        bare = project / "fix"
        subprocess.run(
            [*git, "init", "-q", "--template=", "--bare", str(bare)], check=True, env=self._env()
        )
        config = bare / "config"
        program = self.place / "planted"
        self._program(program, "planted")
        config.write_text(
            f"{config.read_text()}\tfsmonitor = {program}\n[core]\n\tbare = false\n"
            f"\tworktree = ..\n\tpager = {program}\n"
        )

    def _env(self) -> dict[str, str]:
        return {
            "PATH": f"{self.bin}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.world / "home"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "LC_ALL": "C.UTF-8",
        }

    def renew(self) -> None:
        """Put everything back as it was."""
        shutil.rmtree(self.world, ignore_errors=True)
        shutil.copytree(self.template, self.world, symlinks=True)

    def policy(self, trial: Trial, cwd: str = ".") -> Policy:
        """The policy of a trial, in the project."""
        root = self.project
        allow, deny = (
            tuple(parse_rule(text, root, "test") for text in texts)
            for texts in (trial.allow, trial.deny)
        )
        return Policy(deny, (), allow, ApprovalMode(trial.mode), root / cwd, (root,))

    def is_allowed(self, command: str, trial: Trial) -> bool:
        return decide("Bash", [Runs(command)], self.policy(trial)).kind is VerdictKind.ALLOW

    def breaches(self, command: str, trial: Trial) -> list[str]:
        """Run a command in bash, and return what it did without permission."""
        if trial.allow == ("Bash",) and not self.confinement:
            # The rule allows everything, `date 01010101` included, and tests often run as root.
            print(f"not run without bubblewrap: {command!r}", file=sys.stderr)
            return []
        for mark in self.ran.iterdir():
            mark.unlink()
        bash = ("bash", "--noprofile", "--norc", "-c", command)
        done = subprocess.run(
            [*self.confinement, "timeout", "-k", "1", TIMEOUT, *bash],
            cwd=self.project,
            env=self._env(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        found = [f"ran {mark.name}" for mark in self.ran.iterdir() if mark.name not in trial.runs]
        shown = done.stdout + done.stderr
        if OUTSIDE_SECRET.encode() in shown and trial.allow != ("Bash",):
            found.append("showed a file outside")
        if DENIED_SECRET.encode() in shown and any("Read" in rule for rule in trial.deny):
            found.append("showed a denied file")
        return found + list(self._changes(trial))

    @cached_property
    def confinement(self) -> tuple[str, ...]:
        """The command that lets another one change nothing but the arena; empty if none works."""
        wrapped = (
            *("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
            *("--bind", str(self.place), str(self.place), "--unshare-all", "--cap-drop", "ALL"),
            "--die-with-parent",
        )
        try:
            done = subprocess.run([*wrapped, "true"], capture_output=True, check=False)
        except FileNotFoundError:
            return ()
        return wrapped if done.returncode == 0 else ()

    def _changes(self, trial: Trial) -> Iterator[str]:
        now = fingerprint(self.world)
        if now == self.pristine:
            return
        changed = {
            name
            for name in now.keys() | self.pristine.keys()
            if now.get(name) != self.pristine.get(name)
        }
        self.renew()
        for name in sorted(changed):
            if not trial.may_write or (trial.allow != ("Bash",) and not _is_writable(name, trial)):
                yield f"changed {name}"


def _is_writable(name: str, trial: Trial) -> bool:
    parts = name.split("/")
    if parts[0] != "project" or {".git", ".claude", ".mcp.json"} & set(parts) or len(parts) == 1:
        return False
    is_denied = name in ("project/.env", "project/docs/keep.md") or parts[1] == "config"
    return not (trial.deny and is_denied)


def fingerprint(folder: Path) -> dict[str, tuple[int, str]]:
    """Every file below a directory, with its mode and content."""
    found: dict[str, tuple[int, str]] = {}
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(root, name)
            key = str(path.relative_to(folder))
            if key.partition("/")[2] in ENTRIES_THAT_GIT_REFRESHES:
                continue
            found[key] = (path.lstat().st_mode, _content(path))
    return found


def _content(path: Path) -> str:
    if path.is_symlink():
        return f"link {path.readlink()}"
    return path.read_bytes().decode("latin-1") if path.is_file() else "other"
