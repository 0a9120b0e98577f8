"""Run everyday commands of a coding agent with and without permissions: which ask or differ?

    PYTHONPATH=bench python bench/everyday_commands.py [WORD ...]

Each command runs twice in a fresh copy of a small project: in bash, and as a call of the tool Bash.
It counts if nobody is asked, and exit code and output are the same. A write or a connection that
the read sandbox refuses leads to a question. Prints a table, and the commands that do not count;
with WORDs only for commands that contain one of them.
"""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from difflib import unified_diff
from pathlib import Path

from everyday_project import write_project
from msgspec import Struct

from turnlog.agent.permissions import ApprovalMode, Policy, Rule, VerdictKind, parse_rule
from turnlog.agent.permissions.consent import Consent
from turnlog.agent.tools.bash import BASH
from turnlog.agent.workspace.access import Tier
from turnlog.agent.workspace.sandbox.settings import Confinement
from turnlog.agent.workspace.tool import Grant, ToolError
from turnlog.agent.workspace.workspace import Workspace

LIST = Path(__file__).with_name("everyday_commands.txt")
RULES = ("Bash(git:*)",), ("Read(./.env)",)
VARYING = (
    (re.compile(r"\b(?=[a-f]*\d)[0-9a-f]{7,40}\b"), "HASH"),
    (re.compile(r"\d+(?:\.\d+)?m?s\b|\b\d+\.\d{2,}\b|0x[0-9a-f]{6,}|real\s.*"), "TIME"),
    (re.compile(r"(?:\w{3} )?\w{3} +\d+ \d\d:\d\d(?::\d\d)?(?: \d{4})?|\d\d:\d\d:\d\d"), "DATE"),
    (re.compile(r"(?m)^.* \.\.$\n"), ""),  # the parent directory, which a sandbox makes anew
    (re.compile(r"/tmp/[\w.]*|total \d+|\bpid \d+"), "PLACE"),
    (re.compile(r"(?m)^=+ | =+$|^-+$"), ""),
)
"""What differs from run to run."""
UNORDERED = re.compile(r"\b(?:find|du|grep -r|rg|ls -U)\b")


class Case(Struct):
    """A way to set up permissions."""

    name: str
    aim: float
    tier: Tier
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


CASES = (
    Case("default mode in a terminal", 0.85, Tier.READ),
    Case("with sandbox.enabled", 0.94, Tier.WRITE),
    Case("with allow Bash(git:*), deny Read(./.env)", 0.85, Tier.READ, *RULES),
)


class Settings:
    """Settings with some rules."""

    is_bypass_disabled = False

    def __init__(self, root: Path, case: Case) -> None:
        self.root, self.case = root, case
        self.local_file = root / ".claude/settings.local.json"

    def file_of(self, destination: str) -> None:
        """Save nothing."""

    def policy(
        self,
        mode: ApprovalMode,
        cwd: Path,
        directories: Iterable[Path] = (),
        extra_allow: Iterable[Rule] = (),
        extra_deny: Iterable[Rule] = (),
    ) -> Policy:
        """Return the policy of the case."""
        allow, deny = (
            tuple(parse_rule(each, self.root, "bench") for each in rules)
            for rules in (self.case.allow, self.case.deny)
        )
        allow = (*allow, *extra_allow)
        return Policy((*deny, *extra_deny), (), allow, mode, cwd, (self.root, *directories))


def commands() -> Iterator[str]:
    """Yield the commands of the list; a line that starts with a space continues one."""
    for block in re.split(r"\n(?! )", LIST.read_text().strip("\n")):
        if not block.startswith("#"):
            yield block.replace("\n ", "\n")


def plain(text: str, command: str) -> str:
    """Return an output without what differs from run to run."""
    for pattern, name in VARYING:
        text = pattern.sub(name, text)
    lines = [line.rstrip() for line in text.strip().splitlines()]
    return "\n".join(sorted(lines) if UNORDERED.search(command) else lines)


def bare(command: str, project: Path) -> tuple[int, str]:
    """Return the exit code and output of a command in bash."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=project,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.returncode, os.fsdecode(done.stdout)


def workspace_of(project: Path, case: Case) -> tuple[Workspace, Consent]:
    """Return a workspace, and the permissions in it."""
    folder = project.parent / "session"
    folder.mkdir(exist_ok=True)
    workspace = Workspace(project, folder, project)
    workspace.tier = case.tier
    workspace.confinement = Confinement(is_on=case.tier is Tier.WRITE)
    return workspace, Consent(Settings(project, case), ApprovalMode.DEFAULT)


async def called(command: str, project: Path, case: Case) -> tuple[int, str] | str:
    """Return the exit code and output of a call, or the reason to ask."""
    workspace, consent = workspace_of(project, case)
    given = BASH.read({"command": command})
    verdict = consent.decide("Bash", BASH.touches(given, workspace), workspace)
    if verdict.kind is not VerdictKind.ALLOW:
        return f"asks: {verdict.reason}"
    grant = Grant(verdict.basis, None, None, consent.profile(verdict.basis, workspace))
    try:
        outcome = await BASH.execute(given, workspace, lambda text: None, grant)
    except ToolError as error:
        return f"fails: {error}"
    text = str(outcome.content)
    if outcome.wants:
        return f"asks: {outcome.wants}"
    failed = re.match(r"Exit code (\d+)\n?", text) if outcome.is_error else None
    return (int(failed[1]), text[failed.end() :]) if failed else (0, text)


def compare(command: str, original: Path, project: Path, case: Case) -> str:
    """Return how a call differs from bare bash; empty if it does not."""
    found: list[tuple[int, str] | str] = []
    for is_bare in (True, False):
        shutil.rmtree(project, ignore_errors=True)
        for name in re.findall(r"/tmp/\w+\.\w+", command):
            Path(name).unlink(missing_ok=True)
        shutil.copytree(original, project, symlinks=True)
        ran = bare(command, project) if is_bare else asyncio.run(called(command, project, case))
        found.append(ran)
    expected, given = found
    if isinstance(given, str) or isinstance(expected, str):
        return str(given)
    if given[0] != expected[0]:
        return f"differs: exit code {given[0]}, not {expected[0]}: {given[1][-300:]!r}"
    new, old = (plain(each[1], command) for each in (given, expected))
    changed = unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0)
    return f"differs: {list(changed)[2:8]}" if new != old else ""


def measure(cases: tuple[Case, ...] = CASES, words: tuple[str, ...] = ()) -> str:
    """Run all commands; return the table."""
    listed = [each for each in commands() if not words or any(word in each for word in words)]
    rows = list[str]()
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        top = Path(folder).resolve()
        original, project = top / "original", top / "shop"
        write_project(original)
        (top / "home").mkdir()
        os.environ |= {"HOME": str(top / "home"), "npm_config_fetch_retries": "0"}
        os.environ |= {"npm_config_update_notifier": "false", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        for case in cases:
            found = dict[str, str]()
            for each in listed:
                if why := found.setdefault(each, compare(each, original, project, case)):
                    print(f"{case.name}: {each!r} {why}", file=sys.stderr, flush=True)
            same = sum(not each for each in found.values())
            asked = sum(each.startswith("asks") for each in found.values())
            share, mark = same / len(listed), "✓" if same / len(listed) >= case.aim else "✗"
            rows.append(
                f"| {case.name} | {same} of {len(listed)} | {asked} | {len(listed) - same - asked}"
                f" | {mark} {share:.0%} ≥ {case.aim:.0%} |"
            )
    head = "| everyday commands | unasked, same result | asked | differ | against the aim |"
    return "\n".join([head, "|---|---:|---:|---:|---|", *rows])


if __name__ == "__main__":
    print(measure(words=tuple(sys.argv[1:])))
