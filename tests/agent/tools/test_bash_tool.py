"""Bash, BashOutput and KillShell: real commands, some of which do not end."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from support.tool_calls import Calls
from turnlog.agent.workspace.sandbox.settings import Confinement
from turnlog.agent.workspace.shell import processes
from turnlog.agent.workspace.tool import ToolError, ToolOutcome


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that must come about."""
    for _ in range(1_000):
        if holds():
            return
        await asyncio.sleep(0.01)
    pytest.fail("it did not come about")


def is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_what_a_command_prints_comes_back(calls: Calls) -> None:
    outcome = calls.run("Bash", command="echo out; echo err >&2; printf end", description="Print")
    assert outcome.content == "out\nerr\nend"
    assert outcome.data == {
        "stdout": "out\nerr\nend",
        "stderr": "",
        "interrupted": False,
        "isImage": False,
        "noOutputExpected": False,
    }
    assert os.listdir(calls.workspace.folder / "tool-results") == []


def test_an_exit_code_is_told(calls: Calls) -> None:
    outcome = calls.run("Bash", command="echo no; exit 3")
    assert (outcome.content, outcome.is_error) == ("Exit code 3\nno", True)
    assert outcome.data == "Error: Exit code 3\nno"


def test_a_command_has_no_input_and_knows_who_runs_it(calls: Calls) -> None:
    calls.workspace.environment["SHOP"] = "open"
    assert calls.text("Bash", command='cat; echo "$CLAUDECODE $SHOP"') == "1 open"


def test_the_directory_is_kept_whatever_ends_the_shell(calls: Calls) -> None:
    calls.text("Bash", command="mkdir -p 'a b/c' && cd 'a b'")
    assert calls.text("Bash", command="pwd") == str(calls.root / "a b")
    calls.run("Bash", command="cd c; exit 1")
    assert calls.text("Bash", command="pwd") == str(calls.root / "a b/c")


def test_a_shell_that_leaves_its_directories_is_brought_back(calls: Calls, tmp_path: Path) -> None:
    assert "reset" in calls.text("Bash", command="cd /")
    assert calls.text("Bash", command="pwd") == str(calls.root)
    (tmp_path / "more").mkdir()
    calls.workspace.directories.append(tmp_path / "more")
    assert calls.text("Bash", command=f"cd {tmp_path}/more") == ""
    assert calls.text("Bash", command="pwd") == str(tmp_path / "more")


def test_a_directory_that_is_gone_is_left(calls: Calls) -> None:
    calls.text("Bash", command="mkdir gone; cd gone; rmdir ../gone")
    assert calls.text("Bash", command="pwd") == str(calls.root)


def test_output_is_told_while_the_command_runs(calls: Calls) -> None:
    command = "echo first; while [ ! -e go ]; do sleep 0.05; done; echo last"

    async def run() -> None:
        running = asyncio.create_task(calls.start("Bash", command=command))
        await until(lambda: calls.printed == ["first\n"])
        assert not running.done()
        (calls.root / "go").touch()
        assert (await running).content == "first\nlast"

    asyncio.run(run())
    assert "".join(calls.printed) == "first\nlast\n"


def test_a_command_that_takes_too_long_is_stopped_with_its_children(calls: Calls) -> None:
    command = "sleep 60 & echo $!; setsid sleep 60 & echo $!; trap '' TERM; sleep 60; sleep 60"
    outcome = calls.run("Bash", command=command, timeout=500)
    assert outcome.is_error
    code, why, *pids = str(outcome.content).split("\n")
    assert code == "Exit code 137"
    assert why == "Command timed out after 0.5 s and was stopped"
    assert [is_alive(int(pid)) for pid in pids] == [False, False]


def cancelled(calls: Calls, *commands: Awaitable[object]) -> list[int]:
    """Run commands that each write their process's id, and cancel them; the ids."""

    async def run() -> list[int]:
        tasks = [asyncio.ensure_future(command) for command in commands]
        await until(lambda: len(list(calls.root.glob("pid*"))) == len(tasks))
        for task in tasks:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in done)
        return [int(path.read_text()) for path in calls.root.glob("pid*")]

    return asyncio.run(run())


def test_a_command_that_is_cancelled_ends_with_its_children(calls: Calls) -> None:
    hanging = calls.start("Bash", command="sleep 60 & echo $! > n; mv n pid; wait")
    assert [is_alive(pid) for pid in cancelled(calls, hanging)] == [False]


def test_long_output_is_kept_and_told_in_extracts(calls: Calls) -> None:
    outcome = calls.run("Bash", command="seq 1 40000")
    text = str(outcome.content)
    path = Path(outcome.data["persistedOutputPath"])
    assert text.startswith("<persisted-output>\nOutput too large (223.5KB). Full output saved to: ")
    assert "\n1\n2\n3\n" in text
    assert text.endswith("\n39999\n40000\n\n</persisted-output>")
    assert len(text) < 5_000
    assert path.parent == calls.workspace.folder / "tool-results"
    assert path.read_text().count("\n") == 40_000
    assert outcome.data["persistedOutputSize"] == path.stat().st_size == 228_894
    assert len(outcome.data["stdout"]) < 31_000


def test_long_output_of_a_command_that_failed_is_told_with_its_code(calls: Calls) -> None:
    outcome = calls.run("Bash", command="seq 1 40000; exit 2")
    assert str(outcome.content).startswith("<persisted-output>")
    assert str(outcome.content).endswith("</persisted-output>\nExit code 2")


FLOOD = """
import asyncio, json, resource, sys
from pathlib import Path
from turnlog.agent.tools.bash import BASH
from turnlog.agent.workspace.workspace import Workspace

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

async def run(command):
    shown = []
    place = Path(sys.argv[1])
    space = Workspace(place, place / "session", place)
    told = lambda text: shown.append(len(text))
    return (await BASH.run(BASH.read({"command": command}), space, told)), sum(shown)

asyncio.run(run("echo warm"))
before = peak()
outcome, shown = asyncio.run(run("head -c 200000000 /dev/zero | tr '\\\\0' x"))
kept = outcome.data["persistedOutputSize"]
print(json.dumps([peak() - before, len(outcome.content), kept, shown]))
"""


def test_two_hundred_megabytes_of_output_take_no_memory(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", FLOOD, tmp_path], capture_output=True, text=True, check=True
    )
    grown, told, kept, shown = json.loads(ran.stdout)
    assert grown < 10_000  # KB
    assert told < 10_000
    assert kept == 200_000_000
    assert shown < 10_000_000


def test_a_command_that_prints_forever_is_stopped(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "MAX_OUTPUT", 100_000)
    outcome = calls.run("Bash", command="yes")
    assert outcome.is_error
    assert "printed more than" in str(outcome.content)


def test_a_command_runs_in_the_sandbox_that_the_settings_ask_for(calls: Calls) -> None:
    program = calls.root.parent / "bwrap"
    program.write_text(
        '#!/bin/sh\nuntil [ "$1" = -- ]; do shift; done\nshift; exec env BOX=closed "$@"\n'
    )
    program.chmod(0o755)
    calls.workspace.confinement = Confinement(is_on=True, program=str(program))
    assert calls.text("Bash", command="mkdir d; cd d; echo $BOX") == "closed"
    assert calls.workspace.cwd == calls.root / "d"


def test_a_command_cannot_name_its_directory_through_a_link(calls: Calls) -> None:
    """The shell reports its directory through a descriptor, which the command inherits."""
    (calls.root / "link").symlink_to(".")
    to_root = "/.." * (len(calls.root.resolve().parts) - 1)
    forged = f"{calls.root}/link{to_root}"  # the shell appends its own directory
    printing = "; ".join(f"printf %s {forged} 1>&{number}" for number in range(3, 40))
    calls.text("Bash", command=f"{printing}; :")
    assert calls.workspace.cwd == calls.root.resolve()


def test_a_command_in_the_background_is_looked_at_until_it_ends(calls: Calls) -> None:
    command = "echo one; while [ ! -e go ]; do sleep 0.05; done; echo two; exit 4"

    async def run() -> None:
        started = await calls.start("Bash", command=command, run_in_background=True)
        name = started.data["backgroundTaskId"]
        job = calls.workspace.shells.jobs[name]
        await until(lambda: job.output_file.read_text() == "one\n")
        first = await calls.start("BashOutput", bash_id=name)
        assert first.content == "<status>running</status>\n\n<stdout>\none\n</stdout>"
        (calls.root / "go").touch()
        await job.watch
        second = await calls.start("BashOutput", bash_id=name)
        assert second.data["status"] == "failed"
        assert second.data["exitCode"] == 4
        assert second.data["stdout"] == "two"
        third = await calls.start("BashOutput", bash_id=name)
        assert third.data["stdout"] == ""

    asyncio.run(run())


def test_only_lines_that_match_are_told(calls: Calls) -> None:
    async def run() -> None:
        given = {"command": "echo ok; echo error 1", "run_in_background": True}
        name = (await calls.start("Bash", **given)).data["backgroundTaskId"]
        await calls.workspace.shells.jobs[name].watch
        outcome = await calls.start("BashOutput", bash_id=name, filter="^error")
        assert outcome.data["stdout"] == "error 1"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("pattern", "told"), [("(a+)+$", "aaa"), ("(", "regex parse error"), ("nothing", "")]
)
def test_no_filter_stops_the_chat(calls: Calls, pattern: str, told: str) -> None:
    async def run() -> ToolOutcome:
        given = {"command": f"echo {'a' * 60}b; echo aaa", "run_in_background": True}
        name = (await calls.start("Bash", **given)).data["backgroundTaskId"]
        await calls.workspace.shells.jobs[name].watch
        return await calls.start("BashOutput", bash_id=name, filter=pattern)

    if pattern == "(":
        with pytest.raises(ToolError, match=told):
            asyncio.run(run())
    else:
        assert asyncio.run(run()).data["stdout"] == told


def test_a_command_in_the_background_is_killed_with_its_children(calls: Calls) -> None:
    async def run() -> None:
        given = {"command": "sleep 60 & echo $!; wait", "run_in_background": True}
        name = (await calls.start("Bash", **given)).data["backgroundTaskId"]
        printed = calls.workspace.shells.jobs[name].output_file
        await until(lambda: printed.read_text().endswith("\n"))
        killed = await calls.start("KillShell", shell_id=name)
        assert killed.data["success"] is True
        assert not is_alive(int(printed.read_text()))
        assert (await calls.start("BashOutput", bash_id=name)).data["status"] == "killed"

    asyncio.run(run())


def test_all_commands_in_the_background_end_with_the_session(calls: Calls) -> None:
    async def run() -> None:
        for _ in range(3):
            await calls.start("Bash", command="sleep 60", run_in_background=True)
        started = time.monotonic()
        await calls.workspace.shells.close()
        assert time.monotonic() - started < 30
        statuses = [job.status for job in calls.workspace.shells.jobs.values()]
        assert statuses == ["killed"] * 3

    asyncio.run(run())


def test_a_command_that_is_not_there_or_has_ended_is_told(calls: Calls) -> None:
    assert "available: none" in calls.refusal("BashOutput", bash_id="b1")
    assert "available: none" in calls.refusal("KillShell", shell_id="b1")


def test_a_command_that_cannot_be_started_is_told(calls: Calls) -> None:
    assert "cannot be run" in calls.refusal("Bash", command="true " + "x" * 3_000_000)
    assert os.listdir(calls.workspace.folder / "tool-results") == []


def test_a_command_may_close_what_the_shell_tells_its_directory_by(calls: Calls) -> None:
    closing = 'for n in 3 4 5 6 7 8 9 {10..1000}; do eval "exec $n>&-"; done; cd /; echo done'
    assert calls.text("Bash", command=closing) == "done"
    assert calls.workspace.cwd == calls.root


def test_a_command_whose_end_nobody_waits_for_is_killed(calls: Calls) -> None:
    """It is cancelled a second time while it is given time to end."""

    async def run() -> int:
        given = {"command": "trap '' TERM; echo $$ > n; mv n pid; while :; do sleep 0.1; done"}
        task = asyncio.create_task(calls.start("Bash", **given))
        await until((calls.root / "pid").exists)
        task.cancel()
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        pid = int((calls.root / "pid").read_text())
        await until(lambda: not is_alive(pid))
        return pid

    assert asyncio.run(run()) > 0
