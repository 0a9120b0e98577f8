"""turnlog sync-with: what it prints, and when it refuses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.build import SESSION, session, user
from support.machines import SyncedMachine, machines

START = session(user("hi"))


def turnlog(machine: SyncedMachine, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the command in a process of its own, with the machine's home."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    environment = kept | {"HOME": str(machine.home), "XDG_DATA_HOME": str(machine.home / "data")}
    return subprocess.run(
        [sys.executable, "-m", "turnlog", "sync-with", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture
def two(tmp_path: Path) -> list[SyncedMachine]:
    found = machines(tmp_path, 2)
    found[0].write(START)
    os.utime(found[0].path(), (1, 1))
    return found


def test_it_tells_what_was_sent_and_received(two: list[SyncedMachine]) -> None:
    a, b = two
    sent = turnlog(a, a.dest)
    assert (sent.returncode, sent.stderr) == (0, "")
    assert sent.stdout.startswith("1 session sent, ")
    assert turnlog(a, a.dest).stdout.startswith("nothing has changed\n")
    preview = turnlog(b, b.dest, "--dry-run")
    assert "1 session would be new here" in preview.stdout
    assert not b.path().exists()
    received = turnlog(b, b.dest)
    assert "1 session new here" in received.stdout
    assert f"{b.dest}: 1 session here, 1 other machine" in received.stdout


def test_json_has_every_session(two: list[SyncedMachine]) -> None:
    a, b = two
    turnlog(a, a.dest, "--quiet")
    report = json.loads(turnlog(b, b.dest, "--json").stdout)
    assert report["created"] == [SESSION]
    assert report["problems"] == []
    assert len(report["changes"]) == 1


def test_sessions_that_come_back_are_named_with_a_way_to_avoid_it(
    two: list[SyncedMachine],
) -> None:
    a, _ = two
    turnlog(a, a.dest)
    a.path().unlink()
    done = turnlog(a, a.dest)
    assert "1 removed session came back (try: turnlog sync-with " in done.stderr
    assert "--leave-removed" in done.stderr


def test_deleting_needs_consent(two: list[SyncedMachine]) -> None:
    a, _ = two
    turnlog(a, a.dest)
    a.path().unlink()
    refused = turnlog(a, a.dest, "--delete")
    assert refused.returncode == 2
    assert f"turnlog sync-with {a.dest} --delete --yes" in refused.stderr
    done = turnlog(a, a.dest, "--delete", "--yes")
    assert f"1 session marked as deleted\n  {SESSION}" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ssh:desk"], "is not ssh:HOST:PATH"),
        (["rclone:x"], "is not rclone:REMOTE:PATH"),
        (["git:"], "is not git:URL"),
        (["/tmp", "--map", "x"], "is not LOCAL=SHARED"),
    ],
)
def test_a_mistake_is_one_line_with_a_command_to_type(
    two: list[SyncedMachine], arguments: list[str], message: str
) -> None:
    done = turnlog(two[0], *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "(try: turnlog sync-with " in done.stderr


def test_a_destination_that_is_a_file_is_an_error(two: list[SyncedMachine]) -> None:
    path = two[0].home / "file"
    path.write_text("x")
    done = turnlog(two[0], str(path))
    assert done.returncode == 1
    assert f"{path} is not a directory" in done.stderr


def test_a_failing_program_is_quoted(two: list[SyncedMachine]) -> None:
    done = turnlog(two[0], f"git:{two[0].home}/nowhere")
    assert done.returncode == 1
    assert "git failed: " in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_password_file_encrypts(two: list[SyncedMachine]) -> None:
    a, b = two
    secret = a.home / "secret"
    secret.write_text("correct horse\n")
    assert turnlog(a, a.dest, "--password-file", str(secret)).returncode == 0
    done = turnlog(b, b.dest)
    assert done.returncode == 2
    assert "DEST is encrypted" in done.stderr
    assert turnlog(b, b.dest, "--password-file", str(secret)).returncode == 0
    assert b.path().exists()


def test_two_stores_are_refused(two: list[SyncedMachine]) -> None:
    a, b = two
    stores = ["--store", str(a.store.root), "--store", str(b.store.root)]
    done = turnlog(a, a.dest, *stores)
    assert done.returncode == 2
    assert "sync-with takes one store, not 2" in done.stderr


def test_a_machine_without_a_store_gets_one(two: list[SyncedMachine]) -> None:
    a, b = two
    turnlog(a, a.dest)
    b.store.projects.rmdir()
    b.store.root.rmdir()
    assert turnlog(b, b.dest).returncode == 0
    assert b.path().read_bytes() == START
