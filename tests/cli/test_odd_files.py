"""Files named like sessions that are none: skipped and reported; the rest is processed.

Each command runs in a process of its own, so that one that waits for a FIFO fails by its time-out.
"""

import ctypes
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Outcome, Run
from support.build import SESSION, assistant, call, session, text, user
from turnlog.store.paths import subagent_meta, title_file

PATIENCE = 20
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_directory(path: Path) -> None:
    path.mkdir()


def make_broken_link(path: Path) -> None:
    path.symlink_to("missing")


def make_link_loop(path: Path) -> None:
    path.symlink_to(path)


def make_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's path may have about 100 characters
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


ODD: dict[str, Callable[[Path], None]] = {
    "a named pipe": make_fifo,
    "a directory": make_directory,
    "a broken symbolic link": make_broken_link,
    "levels of symbolic links": make_link_loop,
    "a socket": make_socket,
}
COMMANDS = (
    ("ls",),
    ("tree", SESSION),
    ("search", "hello"),
    ("stats",),
    ("sync",),
    ("inspect", "--all"),
    ("check", "--all"),
    ("redact", "--all", "--dry-run"),
    ("redact", "--all"),
    ("trace", "--all", "--dry-run"),
    ("archive",),
    ("lake", "push", "lake"),
    ("bundle", "--since", "9999d", "-o", "x.turnlog", "--dry-run"),
)
UNREADABLE = (
    ("sync",),
    ("inspect", "--all"),
    ("check", "--all"),
    ("redact", "--all"),
    ("trace", "--all", "--dry-run"),
    ("archive",),
)
WITH_AGENTS = (
    ("ls",),
    ("tree", SESSION),
    ("sync",),
    ("inspect", "--all"),
    ("redact", "--all", "--dry-run"),
    ("archive",),
    ("cost", SESSION),
    ("trace", SESSION, "--dry-run"),
    ("show", SESSION),
    ("clone", SESSION),
    ("bundle", SESSION, "-o", "x.turnlog", "--dry-run"),
)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what commands write out of the repository."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def sound(project: Path) -> Path:
    """A session with a secret, long enough ago not to be in use."""
    content = session(
        user("hello, the key is AKIAQYLPMN5HNXJ4TZ7R"), assistant(call("Bash")), user("so?")
    )
    path = project / f"{SESSION}.jsonl"
    path.write_bytes(content)
    os.utime(path, (0, 1_700_000_000))
    return path


def run(*arguments: str, prepare: Callable[[], None] | None = None) -> Outcome:
    done = subprocess.run(
        [sys.executable, "-m", "turnlog", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        preexec_fn=prepare,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def require_skipped(done: Outcome, path: Path, reason: str) -> None:
    lines = [line for line in done.err.splitlines() if str(path) in line]
    assert [reason in line for line in lines] == [True], done.err
    assert lines[0].startswith(f"turnlog: skipped {path}: ")
    assert "Traceback" not in done.err
    assert done.code == 1


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_odd_files_next_to_a_session_are_reported_and_skipped(
    sound: Path, command: tuple[str, ...]
) -> None:
    paths = {reason: sound.with_name(f"x{n}.jsonl") for n, reason in enumerate(ODD)}
    for reason, path in paths.items():
        ODD[reason](path)
    done = run(*command)
    for reason, path in paths.items():
        require_skipped(done, path, reason)
    assert done.out


@pytest.mark.parametrize("command", WITH_AGENTS, ids=" ".join)
def test_odd_files_in_place_of_sub_agents_are_reported_and_skipped(
    sound: Path, command: tuple[str, ...]
) -> None:
    nested = sound.with_suffix("") / "subagents"
    nested.mkdir(parents=True)
    paths = {reason: nested / f"agent-a{n}.jsonl" for n, reason in enumerate(ODD)}
    for reason, path in paths.items():
        ODD[reason](path)
    adjacent = sound.with_name("agent-b1.jsonl")
    make_fifo(adjacent)
    done = run(*command)
    for reason, path in paths.items():
        require_skipped(done, path, reason)
    require_skipped(done, adjacent, "a named pipe")
    assert done.out


@pytest.mark.parametrize("command", [("ls",), ("tree", SESSION), ("rename", SESSION, "x")])
def test_fifos_in_place_of_small_files_block_no_command(
    sound: Path, command: tuple[str, ...], tmp_path: Path
) -> None:
    agent = sound.with_suffix("") / "subagents" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_bytes(session(user("find it"), assistant(text("found"))))
    (tmp_path / "sessions").mkdir()
    for path in (subagent_meta(agent), title_file(sound), tmp_path / "sessions" / "1.json"):
        make_fifo(path)
    assert "Traceback" not in run(*command).err


def test_an_unrelated_odd_file_is_no_failure_of_a_command_for_one_session(sound: Path) -> None:
    elsewhere = sound.parent.with_name("-home-ada-other")
    elsewhere.mkdir()
    make_fifo(elsewhere / "x.jsonl")
    done = run("show", SESSION)
    assert (done.code, done.err) == (0, "")


def test_a_name_that_matches_nothing_lists_what_could_not_be_read(sound: Path) -> None:
    make_fifo(sound.with_name("abc.jsonl"))
    done = run("show", "abc")
    require_skipped(done, sound.with_name("abc.jsonl"), "a named pipe")


def test_a_fifo_named_as_session_is_refused_with_its_reason(sound: Path, tmp_path: Path) -> None:
    make_fifo(tmp_path / "x.jsonl")
    done = run("show", str(tmp_path / "x.jsonl"))
    assert done.code == 1
    assert "cannot be read: a named pipe, not a regular file" in done.err


def test_a_status_line_does_not_report_skipped_files(sound: Path) -> None:
    make_fifo(sound.with_name("x.jsonl"))
    done = subprocess.run(
        [sys.executable, "-m", "turnlog", "statusline"],
        input=f'{{"transcript_path": "{sound}", "session_id": "{SESSION}"}}',
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", UNREADABLE, ids=" ".join)
def test_unreadable_sessions_are_reported_and_skipped(
    sound: Path, command: tuple[str, ...]
) -> None:
    unreadable = sound.with_name("y.jsonl")
    unreadable.write_bytes(session(user("hello")))
    unreadable.chmod(0)
    done = run(*command, prepare=_obey_modes)
    if command == ("archive",):
        assert "y.jsonl: Permission denied" in done.err
        assert done.code == 1
    else:
        require_skipped(done, unreadable, "Permission denied")
    assert done.out


def _obey_modes() -> None:
    """Make file modes apply to root, too: drop the capabilities that override them."""
    if os.geteuid() == 0:
        library = ctypes.CDLL(None, use_errno=True)
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            if library.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "prctl")


NAMED = "\x1b]0;pwned\x07\x9b2J"
LISTING = ["ls", "", "search hello", "stats session", "rm S --dry-run", "clone S --dry-run"]


@pytest.mark.parametrize("line", LISTING)
def test_a_name_of_a_session_controls_no_terminal_behind_a_pipe(
    project: Path, turnlog: Run, line: str
) -> None:
    path = project / f"{NAMED}.jsonl"
    path.write_bytes(session(user("hello"), assistant(text("hi"))))
    done = turnlog(*(str(path) if word == "S" else word for word in line.split()))
    assert (done.code, done.out != "") == (0, True)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", done.out + done.err)


@pytest.mark.parametrize(
    "words",
    [
        ("history-of", "\udcff.py"),
        ("search", "hello", "--project", "\udcff"),
        ("stats", "--project", "\udcff"),
        ("sync-with", "../shared-\udcff", "--init"),
    ],
    ids=" ".join,
)
def test_names_that_are_not_utf_8_are_refused_in_one_line(
    conversation: Path, turnlog: Run, words: tuple[str, ...]
) -> None:
    done = turnlog(*words)
    assert done.code == 2
    assert "<U+DCFF>" in done.err
    assert done.err.endswith("is not UTF-8, and cannot be looked up or recorded (try: ls -b)\n")
    assert len(done.err.splitlines()) == 1


def test_a_directory_whose_name_is_not_utf_8_gets_files_that_can_be_undone(
    conversation: Path, turnlog: Run, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    target = Path(os.fsdecode(os.fsencode(outside) + b"/then-\xff"))
    target.mkdir()
    (target / "a.txt").write_bytes(b"mine")
    done = turnlog("show", SESSION, "-o", str(target / "a.txt"))
    assert done.code == 0, done.err
    assert turnlog("undo").code == 0
    assert (target / "a.txt").read_bytes() == b"mine"


@pytest.mark.parametrize(
    "command",
    [
        f"export {SESSION} -o loop",
        f"bundle {SESSION} -o loop",
        f"share {SESSION} --to loop --yes",
        f"files {SESSION} --at 1 --restore loop",
        f"git {SESSION} -o loop",
        "sync-with ./loop",
        f"mv {SESSION} loop",
    ],
)
def test_loops_of_links_are_refused_in_one_line(
    conversation: Path, turnlog: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    make_link_loop(Path("loop"))
    done = turnlog(*command.split())
    assert done.code in (1, 2)
    assert re.fullmatch(r"turnlog: .*loop .*\(try: .*loop\)\n", done.err)
