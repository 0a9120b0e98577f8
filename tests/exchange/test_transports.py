"""Transports to DEST, each with its real program, or with a stand-in for the network only."""

import os
import shutil
import subprocess
import sys
import threading
from hashlib import sha256
from pathlib import Path

import pytest

from support.build import session, user
from support.machines import SyncedMachine, all_sync
from turnlog.errors import Damaged, Unavailable, UsageError
from turnlog.exchange.destinations import open_transport
from turnlog.exchange.directory_transport import DirectoryTransport
from turnlog.exchange.git_transport import GitTransport
from turnlog.exchange.transports import Transport, canonical_dest, run_program

CONTENT = os.urandom(300_000)
NAME = f"packs/{sha256(CONTENT).hexdigest()}"
FAKE_SSH = """#!/bin/sh
# Stands in for the network: runs the command here, as sshd would, in the home of the user.
while [ "$1" != -- ]; do shift; done
shift 2
cd "$FAKE_HOME" && exec sh -c "$*"
"""


@pytest.fixture(params=["directory", "ssh", "rclone", "git"])
def dest(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A DEST of each kind, below a temporary directory."""
    match request.param:
        case "ssh":
            use_fake_ssh(tmp_path, monkeypatch)
            return "ssh:desk:sessions dir"
        case "rclone":
            use_rclone(tmp_path, monkeypatch)
            return f"rclone:place:{tmp_path}/sessions"
        case "git":
            bare = tmp_path / "sessions.git"
            subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
            return f"git:{bare}"
        case _:
            return str(tmp_path / "sessions")


def use_fake_ssh(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = folder / "bin"
    programs.mkdir()
    (programs / "ssh").write_text(FAKE_SSH)
    (programs / "ssh").chmod(0o755)
    (folder / "remote").mkdir()
    monkeypatch.setenv("FAKE_HOME", str(folder / "remote"))
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")


def use_rclone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the real rclone if it is installed, else a program that takes the same arguments."""
    monkeypatch.setenv("RCLONE_CONFIG", str(folder / "rclone.conf"))
    (folder / "rclone.conf").write_text("[place]\ntype = local\n")
    if shutil.which("rclone") is None:
        programs = folder / "bin"
        programs.mkdir()
        script = Path(__file__).parent.parent / "support" / "fake_rclone.py"
        (programs / "rclone").write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
        (programs / "rclone").chmod(0o755)
        monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")


@pytest.fixture
def transport(dest: str, tmp_path: Path) -> Transport:
    return open_transport(dest, tmp_path / "state")


def test_what_is_written_is_listed_and_read(transport: Transport) -> None:
    assert transport.list() == {}
    transport.write(NAME, CONTENT)
    transport.finish()
    assert transport.list() == {NAME: len(CONTENT)}
    assert transport.read(NAME, len(CONTENT)) == CONTENT


def test_a_file_above_the_limit_is_refused(transport: Transport) -> None:
    transport.write(NAME, CONTENT)
    transport.finish()
    with pytest.raises(Damaged, match="larger than"):
        transport.read(NAME, len(CONTENT) - 1)


def test_a_missing_file_is_an_error(transport: Transport) -> None:
    with pytest.raises((Damaged, Unavailable)):
        transport.read(NAME, 10)


def test_removed_files_are_gone_and_missing_ones_ignored(transport: Transport) -> None:
    transport.write(NAME, CONTENT)
    transport.finish()
    transport.remove([NAME, f"packs/{'0' * 64}"])
    transport.write(f"packs/{'1' * 64}", b"x")
    transport.finish()
    assert list(transport.list()) == [f"packs/{'1' * 64}"]


def test_machines_exchange_sessions_through_it(
    dest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    these = [SyncedMachine(tmp_path / name, dest) for name in "ab"]
    for number, machine in enumerate(these):
        machine.write(session(user("hi"), user(f"m{number}", uuid=f"m{number}")))
    all_sync(these, rounds=2)
    assert these[0].lines() == these[1].lines()
    assert len(these[0].lines()) == 3
    assert not any(report.sent or report.changes for report in all_sync(these))


def test_machines_that_push_at_once_lose_nothing(tmp_path: Path) -> None:
    bare = tmp_path / "sessions.git"
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    transports = [GitTransport(str(bare), tmp_path / f"clone{n}") for n in range(4)]
    names = [f"packs/{n:064d}" for n in range(4)]

    def push(number: int) -> None:
        transports[number].write(names[number], b"x")
        transports[number].finish()

    threads = [threading.Thread(target=push, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(GitTransport(str(bare), tmp_path / "fresh").list()) == names


def test_git_ignores_links_and_other_files_in_the_repository(tmp_path: Path) -> None:
    bare, work = tmp_path / "sessions.git", tmp_path / "work"
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@x", "-C", str(work)]
    subprocess.run(["git", "init", "-q", "-b", "turnlog", str(work)], check=True)
    (work / "packs").mkdir()
    (work / NAME).symlink_to("/etc/passwd")
    (work / "README").write_text("hello")
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "x"], check=True)
    subprocess.run([*git, "push", "-q", str(bare), "turnlog"], check=True)
    transport = GitTransport(str(bare), tmp_path / "clone")
    assert transport.list() == {}
    with pytest.raises(Damaged):
        transport.read(NAME, 1 << 20)


def test_links_in_a_directory_are_not_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "dest", tmp_path / "outside"
    (root / "packs").mkdir(parents=True)
    outside.mkdir()
    (root / NAME).symlink_to("/etc/passwd")
    (root / "manifests").symlink_to(outside)
    transport = DirectoryTransport(root)
    assert transport.list() == {}
    with pytest.raises(Damaged, match="symbolic link"):
        transport.read(NAME, 1 << 20)
    with pytest.raises(Damaged, match="symbolic link"):
        transport.write(f"manifests/{'0' * 32}.{'0' * 12}.{'0' * 64}", b"x")
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    "dest",
    [
        "",
        "desk:sessions",
        "ada@desk:sessions/all",
        "ssh:desk",
        "ssh::x",
        "ssh:-oProxyCommand=touch x:y",
        "rclone:x",
        "rclone:,type=local:y",
        "git:",
    ],
)
def test_a_malformed_destination_is_a_usage_error(dest: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        open_transport(dest, tmp_path)


def test_a_git_url_that_runs_a_program_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        open_transport(f"git:ext::sh -c touch% {tmp_path}/hacked", tmp_path / "state")
    assert not (tmp_path / "hacked").exists()


def test_a_connection_that_breaks_leaves_no_part_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake_ssh(tmp_path, monkeypatch)
    cutting = FAKE_SSH.replace('exec sh -c "$*"', 'head -c 1000 | sh -c "$*"')
    transport = open_transport("ssh:desk:sessions", tmp_path)
    (tmp_path / "bin" / "ssh").write_text(cutting)
    with pytest.raises(Unavailable):
        transport.write(NAME, CONTENT)
    assert not [path for path in (tmp_path / "remote").rglob("*") if path.is_file()]


def test_an_absolute_and_a_relative_path_are_one_destination(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert canonical_dest("dest") == canonical_dest(str(tmp_path / "dest"))


@pytest.mark.parametrize(
    ("path", "place"), [("~", ""), ("~/", ""), ("-x", "-x"), ("~/-x/y", "-x/y"), ("a b'c", "a b'c")]
)
def test_a_path_on_a_host_is_always_below_the_home_there(
    path: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake_ssh(tmp_path, monkeypatch)
    transport = open_transport(f"ssh:desk:{path}", tmp_path)
    transport.write(NAME, CONTENT)
    assert (tmp_path / "remote" / place / NAME).read_bytes() == CONTENT
    assert transport.list() == {NAME: len(CONTENT)}


def test_a_store_is_no_dest(tmp_path: Path) -> None:
    machine = SyncedMachine(tmp_path, str(tmp_path / ".claude" / "sync"))
    with pytest.raises(UsageError, match="in the store"):
        machine.sync()


def test_a_program_may_print_more_messages_than_a_pipe_holds() -> None:
    program = "import sys; sys.stderr.write('x' * 300_000); sys.stdout.write('content')"
    assert run_program([sys.executable, "-c", program], limit=100) == b"content"
    failing = f"{program}; sys.exit('\\nthe last line')"
    with pytest.raises(Unavailable, match="the last line"):
        run_program([sys.executable, "-c", failing], limit=100)
