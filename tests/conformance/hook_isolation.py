"""Do two projects with two backends stay apart, while real clients work in both?

    sudo unshare --net env PYTHONPATH=tests python tests/conformance/hook_isolation.py CLIENT ...

Each CLIENT is the command of an installed client. One store has turnlog's hook in its user
settings; each project names its own backend, content level, key and user in
`.claude/settings.json`. Everything is on loopback, with a home of its own. Prints a row for
each case, and exits with 1 if a backend got a span, a level, a key or a user of the other project,
or lacks one of its own.
"""

import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import msgspec
from client import bring_up_loopback
from hook_rig import CLIENT_SECONDS, PAUSE, SEND_SECONDS, TOOLS, client_environment, free_port

from support.otlp_receiver import Received, attributes, receiving
from support.plays import play, text, use
from support.scripted_api import said, scripted_api
from turnlog.trace.span import Span

KEY = "x-project-key"
ASK = {"description": "Look", "prompt": "PLAY:look at a.txt", "subagent_type": "general-purpose"}
READ = use("Read", file_path="a.txt")
SCRIPTS = {
    "PLAY:tools": [[text("Look."), READ], [text("The tools are done.")]],
    "PLAY:agent": [
        [text("Ask."), use("Agent|Task", run_in_background=False, **ASK)],
        [text("The agent is done.")],
    ],
    "PLAY:plain": [[text("Nothing to do.")]],
    "PLAY:look": [[READ], [text("It says so.")]],
}
ALL = ("tools", "agent", "plain")


class Project:
    """A directory with settings, a backend, and what the backend got."""

    def __init__(self, folder: Path, content: str) -> None:
        self.folder, self.content = folder, content
        self.port = free_port()
        self.received: list[Received] = []
        self.write()

    @property
    def name(self) -> str:
        return self.folder.name

    def write(self) -> None:
        """Write the settings and a file to read, whose content names the project."""
        (self.folder / ".claude").mkdir(parents=True, exist_ok=True)
        (self.folder / "a.txt").write_text(f"content-of-{self.name}\n", "utf-8")
        settings = {
            "TURNLOG_TRACE_TO": f"http://127.0.0.1:{self.port}",
            "TURNLOG_TRACE_CONTENT": self.content,
            "TURNLOG_TRACE_HEADERS": f"{KEY}=key-of-{self.name}",
            "TURNLOG_TRACE_USER": f"user-of-{self.name}",
        }
        # In a git worktree, 2.1.325 takes settings.local.json from the main one instead.
        path = self.folder / ".claude" / "settings.json"
        path.write_text(json.dumps({"env": settings}), "utf-8")

    @contextmanager
    def backend(self) -> Generator[None]:
        with receiving(self.port) as receiver:
            receiver.requests = self.received
            yield

    @property
    def ids(self) -> set[str]:
        return {span.span_id.hex() for each in self.received for span in each.spans}


class Machine:
    """Two projects, one store, one home of turnlog."""

    def __init__(self, client: list[str], folder: Path, api: str) -> None:
        self.client = client
        self.environment = client_environment(folder, api)
        for place in (folder / "home", folder / "claude"):
            place.mkdir()
        self.alpha = Project(folder / "alpha", "full")
        self.beta = Project(folder / "beta", "none")
        self.complaints: list[str] = []
        named = {"TURNLOG_TRACE_TO": "http://127.0.0.1:9"}
        self.turnlog("hook", "install", environment=self.environment | named)

    @property
    def projects(self) -> tuple[Project, Project]:
        return self.alpha, self.beta

    def turnlog(self, *arguments: str, environment: dict[str, str] | None = None) -> str:
        run = subprocess.run(
            [sys.executable, "-m", "turnlog", *arguments],
            env=environment or self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode:
            self.complaints.append(f"turnlog {' '.join(arguments)}: {run.stderr.strip()}")
        return run.stdout

    def ask(self, project: Project, script: str, *options: str) -> None:
        """One prompt, and a client for it alone."""
        words = [*self.client, "-p", f"PLAY:{script} in {project.name}", *options]
        run = subprocess.run(
            [*words, "--allowedTools", TOOLS],
            cwd=project.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=CLIENT_SECONDS,
            check=False,
        )
        if run.returncode or run.stderr.strip():
            self.complaints.append(f"{script} in {project.name}: {run.stderr or run.stdout}")

    def ask_all(self, project: Project) -> None:
        for script in ALL:
            self.ask(project, script)

    def at_once(self) -> None:
        threads = [Thread(target=self.ask_all, args=(each,)) for each in self.projects]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def wanted(self, project: Project) -> dict[str, Span]:
        """The spans of the turns that were recorded in a project."""
        told = self.turnlog("trace", "--all", "--dry-run", "--json", "--content", "full")
        spans = msgspec.json.decode(told, type=list[Span])
        return {span.id: span for span in spans if span.trace.cwd == str(project.folder)}

    def settle(self) -> None:
        """Wait until the hooks' own senders have sent everything."""
        wanted = {project.name: set(self.wanted(project)) for project in self.projects}
        for _ in range(int(SEND_SECONDS / PAUSE)):
            if all(wanted[each.name] <= each.ids for each in self.projects):
                break
            time.sleep(PAUSE)


def at_once(machine: Machine) -> None:
    """Clients in both projects at the same time."""
    with machine.alpha.backend(), machine.beta.backend():
        machine.at_once()
        machine.settle()


def one_down(machine: Machine) -> None:
    """Alpha's backend is down; a hook of beta's delivers what waited once it is up."""
    with machine.beta.backend():
        machine.at_once()
        with machine.alpha.backend():
            machine.ask(machine.beta, "plain")
            machine.settle()


def in_a_worktree(machine: Machine) -> None:
    """Beta is a git worktree of alpha, and continues a session that alpha began."""
    name = str(uuid4())
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@x"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run([*git, *words], cwd=machine.alpha.folder, check=True)
    beta = machine.beta.folder
    beta.rename(beta.with_name("aside"))
    add = ["worktree", "add", "-q", str(beta)]
    subprocess.run([*git, *add], cwd=machine.alpha.folder, check=True, capture_output=True)
    machine.beta.write()
    with ExitStack() as stack:
        for project in machine.projects:
            stack.enter_context(project.backend())
        machine.ask(machine.alpha, "tools", "--session-id", name)
        machine.ask(machine.beta, "tools", "--resume", name)
        machine.ask(machine.alpha, "plain", "--resume", name)
        machine.settle()


def switched_off(machine: Machine) -> None:
    """Beta is switched off: nothing of it is sent, while alpha continues."""
    machine.turnlog("hook", "off", "--project", str(machine.beta.folder))
    with machine.alpha.backend(), machine.beta.backend():
        machine.at_once()
        for _ in range(int(SEND_SECONDS / PAUSE)):
            if set(machine.wanted(machine.alpha)) <= machine.alpha.ids:
                break
            time.sleep(PAUSE)
        machine.turnlog("hook", "send")


CASES: dict[str, tuple[Callable[[Machine], None], dict[str, int]]] = {
    "at once": (at_once, {"alpha": 3, "beta": 3}),
    "one backend down": (one_down, {"alpha": 3, "beta": 4}),
    "in a worktree": (in_a_worktree, {"alpha": 2, "beta": 1}),
    "switched off": (switched_off, {"alpha": 3, "beta": 0}),
}
"""What is done, and how many turns each backend should have in the end."""


def faults(machine: Machine, project: Project, turns: int) -> Iterator[str]:
    """Return what a backend got that is not its own project's, at its level, and what it lacks."""
    wanted = machine.wanted(project)
    if turns and (missing := set(wanted) - project.ids):
        yield f"{project.name}: {len(missing)} of {len(wanted)} spans are missing"
    for request in project.received:
        if request.headers.get(KEY) != f"key-of-{project.name}":
            yield f"{project.name}: key {request.headers.get(KEY)}"
        for span in request.spans:
            if span.span_id.hex() not in wanted:
                yield f"{project.name}: a foreign span, {span.name}"
            yield from _faults_of(project, attributes(span), str(span))
    roots = {s.trace_id for each in project.received for s in each.spans if not s.parent_span_id}
    if len(roots) != turns:
        yield f"{project.name}: {len(roots)} turns instead of {turns}"


def _faults_of(project: Project, told: dict[str, Any], everything: str) -> Iterator[str]:
    if told.get("user.id") != f"user-of-{project.name}":
        yield f"{project.name}: user {told.get('user.id')}"
    if "content-of-" in everything.replace(f"content-of-{project.name}", ""):
        yield f"{project.name}: content of another project"
    has_content = "input.value" in told or "output.value" in told
    if has_content != (project.content == "full"):
        yield f"{project.name}: content level is wrong"


def judge(client: list[str], name: str) -> tuple[list[str], str]:
    case, turns = CASES[name]
    with tempfile.TemporaryDirectory() as folder, scripted_api(said("Nothing to play.")) as api:
        api.choose = play(SCRIPTS)
        machine = Machine(client, Path(folder).resolve(), api.url)
        case(machine)
        found = list(machine.complaints)
        for project in machine.projects:
            found += dict.fromkeys(faults(machine, project, turns[project.name]))
        counts = ", ".join(f"{each.name} {len(each.ids)} spans" for each in machine.projects)
        return found, counts


def main() -> int:
    """Try every case with every client, and print what is wrong."""
    bring_up_loopback()
    is_wrong = False
    for command in sys.argv[1:]:
        for name in CASES:
            found, counts = judge(shlex.split(command), name)
            is_wrong |= bool(found)
            print(f"{'WRONG' if found else 'right':6} {name:18} {counts:32} {command}", flush=True)
            for fault in found:
                print(f"         {fault}", flush=True)
    return 1 if is_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
