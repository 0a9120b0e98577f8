"""A git repository with a branch that brings a protected file, and verdicts about calls in it."""

import subprocess
from pathlib import Path

from turnlog.agent.permissions import ApprovalMode, Policy, VerdictKind, decide, parse_rule
from turnlog.agent.workspace.access import Runs

SETTINGS = ".claude/settings.json"


class Repository:
    """A repository with the branches `plain` and `hooked`, which brings settings along."""

    def __init__(self, top: Path) -> None:
        self.top = top
        top.mkdir()
        self.git("init", "-q", "-b", "main")
        self.commit("a.txt", "1")
        self.git("checkout", "-q", "-b", "plain")
        self.commit("b.txt", "1")
        self.git("checkout", "-q", "-b", "hooked")
        self.commit(SETTINGS, "{}")
        self.git("checkout", "-q", "main")

    def git(self, *arguments: str) -> None:
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
        subprocess.run(["git", *who, *arguments], cwd=self.top, check=True, capture_output=True)

    def write(self, name: str, text: str) -> None:
        path = self.top / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def commit(self, name: str, text: str) -> None:
        self.write(name, text)
        self.git("add", name)
        self.git("commit", "-qm", name)

    def verdict(
        self, command: str, *deny: str, is_bypass: bool = False, allow: str = "git"
    ) -> VerdictKind:
        programs = () if is_bypass else allow.split()
        allowed = tuple(parse_rule(f"Bash({name}:*)", self.top, "test") for name in programs)
        denied = tuple(parse_rule(text, self.top, "test") for text in deny)
        mode = ApprovalMode.BYPASS if is_bypass else ApprovalMode.DEFAULT
        policy = Policy(denied, (), allowed, mode, self.top, (self.top,))
        return decide("Bash", [Runs(command)], policy).kind

    def hash_of(self, name: str) -> str:
        asked = ["git", "rev-parse", name]
        return subprocess.run(asked, cwd=self.top, check=True, capture_output=True).stdout.decode()
