"""A call runs as it was judged: in that directory, with those names, within the time limit.

Commands go through the gate and the real Bash tool, as in a chat that nobody can answer in.
"""

import asyncio
import os
import shutil
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from support.chatting import AllowAll, make_parts
from turnlog.agent.loop.conversation import Parts
from turnlog.agent.permissions import Policy, Verdict, decide, parse_rule
from turnlog.agent.permissions.gate import Refused, admit
from turnlog.agent.tools.bash import BASH
from turnlog.agent.workspace.access import Access, ApprovalMode
from turnlog.agent.workspace.shell.background_tasks import BackgroundCommand
from turnlog.agent.workspace.shell.processes import MOVED, Launch, launch
from turnlog.agent.workspace.tool import ToolError
from turnlog.agent.workspace.workspace import Workspace
from turnlog.store.paths import Store

ASKED = "asked"
SECRET = "OUTSIDE-CANARY"
DENIED = "DENIED-CANARY"


class PolicyRules(AllowAll):
    """The rules of a test, decided about as in a chat."""

    def __init__(self, mode: str, allow: Sequence[str], deny: Sequence[str], root: Path) -> None:
        super().__init__()
        self.mode = ApprovalMode(mode)
        self._allow = tuple(parse_rule(text, root, "test") for text in allow)
        self._deny = tuple(parse_rule(text, root, "test") for text in deny)

    def decide(self, tool: str, accesses: Sequence[Access], workspace: Workspace) -> Verdict:
        places = tuple(workspace.folders)
        policy = Policy(self._deny, (), self._allow, self.mode, workspace.cwd, places)
        return decide(tool, accesses, policy)


class World:
    """A project with a secret beside it, and a session in it."""

    def __init__(self, place: Path) -> None:
        self.root = place / "u" / "proj"
        self.root.mkdir(parents=True)
        self.store = Store(place / "store")
        for folder in (self.root, self.root.parent, place):
            (folder / "secret.txt").write_text(f"{SECRET}\n" if folder != self.root else "own\n")
        self.file("config/prod.key", f"{DENIED}\n")
        self.file("docs/keep.md", "keep\n")
        self.parts: Parts | None = None

    def file(self, name: str, text: str = "x\n") -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def session(
        self,
        *steps: "str | Step",
        mode: str = "acceptEdits",
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
    ) -> list[str]:
        """Run commands one after the other; return what each printed, or that it was asked."""
        parts = make_parts(self.store, self.root)
        parts.tools = {"Bash": BASH}
        parts.rules = PolicyRules(mode, allow, deny, self.root)

        async def run() -> list[str]:
            told: list[str] = []
            for step in steps:
                if isinstance(step, str):
                    told.append(await call(parts, step))
                elif found := await step(parts):
                    told.append(found)
            await parts.workspace.shells.close()
            return told

        return asyncio.run(run())


Step = Callable[[Parts], Coroutine[Any, Any, str]]


async def call(parts: Parts, command: str, in_background: bool = False) -> str:
    given = {"command": command, "run_in_background": in_background}
    try:
        admitted = await admit(parts, {"id": "1", "name": "Bash", "input": given})
        outcome = await BASH.run(admitted.value, parts.workspace, lambda text: None, admitted.grant)
    except Refused:
        return ASKED
    except ToolError as error:
        return str(error)
    return str(outcome.content)


def background(command: str) -> Step:
    async def step(parts: Parts) -> str:
        return await call(parts, command, in_background=True)

    return step


async def ended(parts: Parts) -> str:
    """Wait for the commands in the background; return what they printed."""
    for job in parts.workspace.shells.running:
        await job.watch
    jobs = parts.workspace.shells.jobs.values()
    return "".join(job.tail.more(5_000) for job in jobs if isinstance(job, BackgroundCommand))


def outside_of_the_session(change: Callable[[], object]) -> Step:
    async def step(parts: Parts) -> str:
        change()
        return ""

    return step


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize(
    ("place", "command"),
    [
        ("a/d", "mv ../d ../../e && cat ../../secret.txt"),
        ("a/d", "mv ../../a ../../../proj/b && cat ../../secret.txt"),
        ("a/d", "mv -f -- ../d ../../e; cat ../../secret.txt"),
        ("a/d", "cd x; mv ../../d ../../../e; cat ../../secret.txt"),
        ("a", "mv d/x x && cd d && rmdir ../d; mv ../../a ../../b"),
        ("a/d", "timeout 5 mv ../d ../../e; head -1 ../../secret.txt"),
        ("a/d", "mv ../d ../../e | cat ../../secret.txt"),
        ("a/d", "mv ../d ../../e && echo x > ../../written.txt"),
    ],
)
def test_moving_a_directory_that_the_command_runs_in_asks(
    place: str, command: str, world: World
) -> None:
    told = world.session("mkdir -p a/d/x", f"cd {place}", command)
    assert told[-1] == ASKED
    assert not (world.root.parent / "written.txt").exists()


@pytest.mark.parametrize(
    ("mode", "allow"),
    [
        ("acceptEdits", ()),
        ("bypassPermissions", ()),
        ("default", ("Bash",)),
        ("default", ("Bash(mv:*)",)),
    ],
)
def test_moving_the_directory_leads_to_no_denied_file_in_any_mode(
    mode: str, allow: tuple[str, ...], world: World
) -> None:
    (world.root / "x" / "y").mkdir(parents=True)
    deny = ("Read(config/prod.key)", "Edit(/docs/keep.md)")
    for command in (
        "mv ../y ../../y && cat ../config/prod.key",
        "mv ../y ../../y && echo PWNED > ../docs/keep.md",
    ):
        told = world.session("cd x/y", command, mode=mode, allow=allow, deny=deny)
        assert told[-1] == ASKED


def test_a_rule_for_mv_does_not_let_cat_read_outside(world: World) -> None:
    (world.root / "a" / "d").mkdir(parents=True)
    told = world.session(
        "cd a/d",
        "mv ../d ../../e && cat ../../secret.txt",
        "X=..; mv $X/d ../../e && cat ../../secret.txt",
        mode="default",
        allow=("Bash(mv:*)",),
    )
    assert told[1:] == [ASKED, ASKED]


@pytest.mark.parametrize("move", ["mv bg/bgd bgd", "mv bg bg2", "rm -rf bg", "rmdir bg/bgd"])
def test_the_directory_of_a_running_command_is_not_moved_unasked(move: str, world: World) -> None:
    told = world.session(
        "mkdir -p bg/bgd",
        "cd bg/bgd",
        background("sleep 1; cat ../../secret.txt"),
        f"cd {world.root}",
        move,
        ended,
        move,
    )
    assert told[4] == ASKED
    assert SECRET not in told[5]
    assert told[6] != ASKED


def test_a_directory_that_a_running_command_goes_to_is_not_moved_unasked(world: World) -> None:
    told = world.session(
        "mkdir -p p/q/a/b",
        "cd p/q",
        background("cd a/b; sleep 1; cat ../../secret.txt"),
        f"cd {world.root}",
        "mv p/q/a/b b",
        ended,
    )
    assert told[4] == ASKED
    assert SECRET not in told[5]


def test_nothing_runs_unasked_where_a_running_command_moves_the_directory(world: World) -> None:
    told = world.session(
        "cd .",
        background("sleep 1; mv q/r r2"),
        "cd q/r",
        "cat docs/keep.md",
        allow=("Bash(mv:*)",),
    )
    assert told[2] == ASKED
    assert told[3] == "keep"


@pytest.mark.parametrize(
    "command",
    [
        "sleep 1 && rm -rf q",
        "sleep 1; mv q p",
        "sleep 1; cp -r q .config",
        "sleep 1; git status",
        "tail -f docs/keep.md | tee x",
    ],
)
def test_what_depends_on_files_that_may_change_meanwhile_does_not_wait_unasked(
    command: str, world: World
) -> None:
    (world.root / "q").mkdir()
    told = world.session(background(command), command, f"({command}) &")
    assert told == [ASKED, ASKED, ASKED]
    assert world.session("mkdir -p x/y", "rmdir x/y") == ["", ""]


def test_a_search_waits_unasked_only_without_rules_about_files(world: World) -> None:
    search = "sleep 0; grep -r own secret.txt"
    assert "own" in world.session(search)[0]
    assert world.session(search, deny=("Read(.env)",)) == [ASKED]


@pytest.mark.parametrize("mode", ["default", "acceptEdits"])
def test_a_verdict_is_about_the_root_where_the_directory_is_gone(mode: str, world: World) -> None:
    (world.root / "q" / "r").mkdir(parents=True)
    gone = outside_of_the_session(lambda: shutil.rmtree(world.root / "q"))
    deny = ("Read(config/prod.key)", "Edit(/docs/keep.md)")
    for command in (
        "cat ../secret.txt",
        "cat ../../secret.txt",
        "cat config/prod.key",
        "echo PWNED > docs/keep.md",
        "echo PWNED > ../written.txt",
    ):
        (world.root / "q" / "r").mkdir(parents=True, exist_ok=True)
        assert world.session("cd q/r", gone, command, mode=mode, deny=deny)[-1] == ASKED
    assert (world.root / "docs/keep.md").read_text() == "keep\n"
    (world.root / "q" / "r").mkdir(parents=True)
    assert world.session("cd q/r", gone, "pwd", mode=mode)[-1] == str(world.root)


@pytest.mark.parametrize("replaced", [True, False])
def test_a_directory_that_changes_after_the_verdict_stops_the_command(
    replaced: bool, world: World
) -> None:
    folder = world.root / "q" / "r"
    folder.mkdir(parents=True)

    async def run_in_another_directory(parts: Parts) -> str:
        request = {"id": "1", "name": "Bash", "input": {"command": "cat ../../secret.txt"}}
        admitted = await admit(parts, request)
        folder.rename(world.root / "r")
        if replaced:
            folder.mkdir()
        with pytest.raises(ToolError, match="was moved, removed or replaced"):
            await BASH.run(admitted.value, parts.workspace, print, admitted.grant)
        return str(parts.workspace.cwd)

    assert world.session("cd q/r", run_in_another_directory)[-1] == str(world.root)


@pytest.mark.parametrize(
    ("command", "planted"),
    [
        ("sleep 1; sed *", "$e echo new"),
        ("sleep 1; sort *", "-oPWNED"),
        ("sleep 1; sort ?p*", "2p -o PWNED"),
        ("sleep 1; echo *", "new"),
        ("sleep 1; [ -n *p ] && cat ./*", "new"),
    ],
)
def test_a_pattern_does_not_match_files_that_come_later(
    command: str, planted: str, world: World
) -> None:
    world.file("d/1p", "hello\n")
    planting = outside_of_the_session(lambda: world.file(f"d/{planted}", "new-content\n"))
    told = world.session("cd d", background(command), planting, ended)
    assert ASKED not in told
    assert "new" not in "".join(told[2:])
    assert "PWNED" not in "".join(path.name for path in (world.root / "d").glob("P*"))


def test_names_are_handed_over_in_the_order_that_was_judged(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("b", "A", "a", "it's", "c d", "é"):
        world.file(f"d/{name}", f"{name}\n")
    monkeypatch.setenv("LC_ALL", "en_US.UTF-8")
    assert world.session("cd d", "printf '<%s>' *; cat ? 'it'*")[-1] == (
        "<A><a><b><c d><it's><é>A\na\nb\né\nit's"
    )


@pytest.mark.parametrize(
    "command",
    [
        "echo ../*",
        "printf '%s\\n' ../../*",
        "basename -a ../*",
        "[ -n /etc/* ]",
        "echo ~/*",
        "true */../../*",
        "echo `ls *`",
        "cat < d*s/keep.md",
        "echo x > k*",
        "cd docs && echo *",
    ],
)
def test_a_pattern_lists_only_directories_that_may_be_read(command: str, world: World) -> None:
    assert world.session(command) == [ASKED]


@pytest.mark.parametrize(
    ("mode", "allow"), [("default", ()), ("default", ("Bash",)), ("bypassPermissions", ())]
)
@pytest.mark.parametrize(
    "command", ["echo config/*", "printf %s c*/p*", "true */*", "[ -n config/? ]"]
)
def test_a_pattern_does_not_list_a_denied_directory(
    command: str, mode: str, allow: tuple[str, ...], world: World
) -> None:
    assert world.session(command, mode=mode, allow=allow, deny=("Read(config/**)",)) == [ASKED]


@pytest.mark.parametrize(
    "command",
    ["ls *", "cat docs/*.md | head -1", "grep -n keep */*.md", "wc -l docs/*", "ls *.none; echo *"],
)
def test_everyday_patterns_need_no_permission(command: str, world: World) -> None:
    assert ASKED not in world.session(command, mode="default")


def test_a_pattern_that_another_part_may_change_asks(world: World) -> None:
    world.file("docs/a.txt")
    assert world.session("touch docs/b.txt && ls docs/*") == [ASKED]
    assert world.session("rm docs/*.txt") == [""]
    assert world.session("true && ls docs/*", allow=("Bash(true:*)",), mode="default") != [ASKED]
    assert world.session("make; ls docs/*", allow=("Bash(make:*)",), mode="default") == [ASKED]


@pytest.mark.parametrize("mode", ["default", "bypassPermissions"])
def test_a_command_gets_no_open_directory_that_leads_out_of_a_sandbox(
    mode: str, world: World
) -> None:
    command = "for fd in /proc/self/fd/*; do [ -d $fd/. ] && echo $fd; done; echo end"
    told = world.session(command, mode=mode, allow=("Bash",))
    assert told == ["end"]


@pytest.mark.parametrize("written", ["/%05000d", "/%0300d", "/\\0%d", "/etc%.0d", "%d"])
def test_what_a_command_writes_to_open_descriptors_does_not_hide_its_output(
    world: World, written: str
) -> None:
    writing = f"for n in {{3..39}}; do printf '{written}' 1 >&$n; done 2>/dev/null; echo end"
    told = world.session(f"cd .; {writing}", "pwd -P", mode="bypassPermissions")
    # One of the descriptors is where bash keeps stderr meanwhile, so that more is printed.
    assert told[0].endswith("end")
    assert told[1] == str(world.root)


def test_a_shell_that_starts_in_another_directory_runs_nothing(world: World) -> None:
    (world.root / "other").mkdir()

    async def run_elsewhere(parts: Parts) -> str:
        sandbox = world.root.parent / "bwrap"
        sandbox.write_text(f"#!/bin/sh\nshift 2; cd '{world.root}/other'; exec \"$@\"\n")
        sandbox.chmod(0o755)
        there = (str(sandbox),)
        folder = world.store.root
        folder.mkdir(parents=True, exist_ok=True)
        wanted = Launch(
            "echo RAN", world.root, folder / "out", dict(os.environ), ("bash",), "", there
        )
        running = await launch(wanted)
        await running.process.wait()
        running.left_in.close()
        return running.printed.read_text()

    assert world.session(run_elsewhere) == [f"{MOVED}\n"]
