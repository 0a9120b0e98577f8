"""turnlog as a process: closed streams, signals, other directories, leftovers of killed ones."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import LONG_AGO, Outcome
from support.build import SESSION, assistant, session, text, user
from turnlog.store.paths import unpacking_folder

PATIENCE = 30


def run(*arguments: str, redirect: str = "", cwd: Path | None = None) -> Outcome:
    """Run turnlog by a shell, which can close descriptors."""
    words = [sys.executable, "-m", "turnlog", *arguments]
    done = subprocess.run(
        ["sh", "-c", f'"$@" {redirect}', "sh", *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=cwd,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    "command",
    [("ls",), ("show", SESSION, "--format", "md"), ("stats",), ("cost", SESSION, "--json")],
    ids=" ".join,
)
def test_a_closed_stdout_is_an_error_on_one_line(
    conversation: Path, command: tuple[str, ...]
) -> None:
    done = run(*command, redirect=">&-")
    assert (done.code, done.err) == (1, "turnlog: stdout: Bad file descriptor\n")


def test_help_to_a_closed_stdout_shows_no_traceback() -> None:
    done = run("--help", redirect=">&-")
    assert (done.code, "Traceback" in done.err) == (1, False)


def test_a_closed_stderr_changes_nothing_on_stdout(conversation: Path) -> None:
    done = run("ls", redirect="2>&-")
    assert (done.code, done.out) == (0, run("ls").out)


def test_closed_streams_do_not_let_output_into_files_opened_later(conversation: Path) -> None:
    before = conversation.read_bytes()
    run("stats", redirect="<&- >&- 2>&-")
    assert conversation.read_bytes() == before
    assert run("stats").code == 0


@pytest.mark.parametrize("count", [10**399, -1, 10**13, 2**64])
def test_impossible_token_counts_are_left_out_of_every_sum(conversation: Path, count: int) -> None:
    usage: dict[str, Any] = {"input_tokens": count, "output_tokens": 20}
    usage["cache_creation"] = {"ephemeral_5m_input_tokens": count}
    usage["server_tool_use"] = {"web_search_requests": count}
    odd = assistant(text("hi"), message={"usage": usage})
    conversation.write_bytes(session(user("hello"), odd, user("bye")))
    for command in (["cost"], ["turns"], ["show"], ["trace", "--dry-run", "--json"], ["check"]):
        done = run(command[0], SESSION, *command[1:])
        assert (done.code, done.err) == (0, "")
    assert re.search(r"opus-5-5\s+0\s+20\s", run("cost", SESSION).out)
    assert '"output": 20' in run("stats", "--json").out


def test_an_impossible_duration_is_no_traceback(conversation: Path) -> None:
    lines = session(
        user("hello"),
        assistant(text("hi")),
        b'{"type":"system","subtype":"turn_duration","durationMs":1' + b"0" * 400 + b"}\n",
    )
    conversation.write_bytes(lines)
    for command in (["turns"], ["show"], ["trace", "--dry-run"]):
        done = run(command[0], SESSION, *command[1:])
        assert (done.code, done.err) == (0, "")


INTERRUPTING = """
import os, runpy, signal, sys

class Interrupt:
    def find_spec(self, name, *_):
        if name == wanted:
            os.kill(os.getpid(), signal.SIGINT)

wanted, way = sys.argv[1:]
sys.meta_path.insert(0, Interrupt())
if way == "module":
    sys.argv[1:] = ["stats"]
    runpy.run_module("turnlog", run_name="__main__", alter_sys=True)
else:
    from turnlog.__main__ import main
    sys.argv[:] = ["turnlog", "stats"]
    main()
"""


@pytest.mark.parametrize("way", ["module", "script"])
@pytest.mark.parametrize("name", ["turnlog.cli", "turnlog.cli.main", "turnlog.cli.direct"])
def test_an_interrupt_while_modules_are_imported_shows_no_traceback(name: str, way: str) -> None:
    """Whatever import Ctrl-C comes in, it ends the process as a shell expects: with 130."""
    words = [sys.executable, "-c", INTERRUPTING, name, way]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("delay", [*range(0, 64, 4), 90, 120])
def test_an_interrupt_right_after_the_start_names_no_file_of_turnlog(
    conversation: Path, delay: int
) -> None:
    # Before turnlog's first line runs, Python itself may print a traceback of its own start.
    process = subprocess.Popen(
        [sys.executable, "-m", "turnlog", "stats"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    time.sleep(delay / 1000)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert b"/turnlog/" not in err
    assert process.returncode in (0, 130, -signal.SIGINT) or b"<frozen" in err


def test_an_undo_in_another_directory_takes_back_a_clone_of_a_relative_path(
    conversation: Path, tmp_path: Path
) -> None:
    relative = f"./{conversation.parent.name}/{conversation.name}"
    assert run("clone", relative, cwd=conversation.parent.parent).code == 0
    clones = [path for path in conversation.parent.glob("*.jsonl") if path != conversation]
    done = run("undo", cwd=tmp_path)
    assert done.code == 0
    assert f"removed {clones[0]}" in done.out
    assert not clones[0].exists()


def test_a_clone_outside_the_store_says_how_the_client_finds_it(
    conversation: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "elsewhere" / conversation.name
    outside.parent.mkdir()
    shutil.copy(conversation, outside)
    done = run("clone", str(outside))
    assert "`claude --resume` will not find it" in done.out
    command = next(line for line in done.out.splitlines() if " && mv " in line)
    subprocess.run(["sh", "-c", command], check=True, timeout=PATIENCE)
    clones = [path for path in conversation.parent.glob("*.jsonl") if path != conversation]
    assert len(clones) == 1
    assert run("show", clones[0].stem).code == 0


def test_remains_of_a_killed_command_are_removed_by_the_next_change(conversation: Path) -> None:
    with conversation.open("ab") as file:
        for _ in range(20_000):
            file.write(session(user("more")))
    os.utime(conversation, LONG_AGO)
    process = subprocess.Popen(
        [sys.executable, "-m", "turnlog", "rename", SESSION, "killed"], stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + PATIENCE
    while not list(conversation.parent.glob(".turnlog-*")) and time.monotonic() < deadline:
        assert process.poll() is None, "the command ended before it could be killed"
        time.sleep(0.001)
    process.kill()
    process.wait()
    assert list(conversation.parent.glob(".turnlog-*"))
    assert run("rename", SESSION, "renamed").code == 0
    assert not list(conversation.parent.glob(".turnlog-*"))


def test_files_of_a_running_command_are_left_alone(conversation: Path) -> None:
    from turnlog.edit.journal import staging_folder

    with staging_folder(conversation.parent) as folder:
        assert run("rename", SESSION, "renamed").code == 0
        assert folder.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals_leave_no_content_of_a_bundle_behind(
    conversation: Path, tmp_path: Path, number: signal.Signals
) -> None:
    unpacking = unpacking_folder()
    # Random text takes long to search for secrets.
    words = [user(os.urandom(60_000).hex()) for _ in range(150)]
    conversation.write_bytes(session(*words))
    os.utime(conversation, LONG_AGO)
    output = tmp_path.parent / f"{tmp_path.name}.turnlog"
    running = subprocess.Popen(
        [sys.executable, "-m", "turnlog", "bundle", SESSION, "-o", str(output)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Tests that run under `nohup` pass an ignored SIGHUP on.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # noqa: PLW1509
    )
    end = time.monotonic() + PATIENCE
    while not any(unpacking.glob(".turnlog-*/*")) and time.monotonic() < end:
        time.sleep(0.005)
    running.send_signal(number)
    _, printed = running.communicate(timeout=PATIENCE)
    assert (running.returncode, printed) == (128 + number, b"")
    assert list(unpacking.iterdir()) == []
    assert not output.exists()


def test_a_hangup_that_nohup_ignores_ends_no_command(conversation: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "from turnlog.cli.signals import unwind_on_signals\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "unwind_on_signals()\n"
        "os.kill(os.getpid(), signal.SIGHUP)\n"
        "print('still here')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "still here\n"
