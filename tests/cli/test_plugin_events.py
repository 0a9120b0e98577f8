"""The plugin's hooks: their work, and what they leave to hooks in the settings."""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from cli.test_hook_command import last_note, turn, wait_for, wait_until_idle, wanted
from support.build import SESSION, assistant, session, text, user
from support.hooked_client import PROJECT, Client, Clock, Names
from support.otlp_receiver import Receiver, receiving
from turnlog.store.client_notifications import read_notification
from turnlog.trace.spool import Spool


@pytest.fixture(autouse=True)
def stored(project: Path) -> Path:
    path = project / f"{SESSION}.jsonl"
    path.write_bytes(session(user("hi"), assistant(text("so"))))
    return path


@pytest.fixture
def receiver() -> Generator[Receiver]:
    with receiving() as started:
        yield started


def fire(event: str, payload: bytes | None = None, **fields: Any) -> None:
    """Run the command behind a hook, which prints nothing."""
    given = {"session_id": SESSION, "hook_event_name": event, **fields}
    done = subprocess.run(
        [sys.executable, "-m", "turnlog", "plugin", "run", event],
        input=json.dumps(given).encode() if payload is None else payload,
        env=os.environ | {"CLAUDE_PROJECT_DIR": PROJECT},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def archived(turnlog: Run, *where: str) -> int:
    return len(json.loads(turnlog("archive", "--list", "--json", *where).out))


@pytest.mark.parametrize("event", ["SessionEnd", "PreCompact"])
def test_sessions_are_archived(turnlog: Run, event: str) -> None:
    fire(event)
    assert archived(turnlog) == 1


def test_the_archive_has_one_writer(turnlog: Run, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    turnlog("archive", "--install", "--into", other)
    fire("SessionEnd")
    assert (archived(turnlog), archived(turnlog, "--into", other)) == (0, 0)
    # The hook in the settings does not know this event; the archive is the one that it names.
    fire("PreCompact")
    assert (archived(turnlog), archived(turnlog, "--into", other)) == (0, 1)


def test_a_failure_is_reported_by_the_archive(turnlog: Run, stored: Path, tmp_path: Path) -> None:
    folder = tmp_path / "turnlog" / "archive"
    (folder / "sessions").mkdir(parents=True)
    (folder / "objects").symlink_to(tmp_path)
    fire("SessionEnd")
    assert "objects" in (folder / "failed").read_text()
    assert "the last archive run failed" in turnlog("archive", "--background").err


def test_a_notification_is_recorded_until_the_session_ends() -> None:
    fire("Notification", notification_type="permission_prompt", message="secret words")
    found = read_notification(SESSION)
    assert found
    assert found.kind == "permission_prompt"
    fire("SessionEnd")
    assert read_notification(SESSION) is None


@pytest.mark.parametrize("payload", [b"", b"no json", b"[]", b'{"session_id": 5}'])
@pytest.mark.parametrize("event", ["Notification", "Unknown"])
def test_odd_payloads_are_ignored(event: str, payload: bytes, tmp_path: Path) -> None:
    fire(event, payload)
    assert not (tmp_path / "turnlog" / "notifications").exists()


def test_a_session_id_is_never_a_path(tmp_path: Path) -> None:
    fire("Notification", notification_type="idle_prompt", session_id="../../x")
    assert list(tmp_path.rglob("x.json")) == []


class TracedProject:
    """A client whose turns may be traced, and the configuration that says so."""

    def __init__(self, folder: Path, root: Path, receiver: Receiver) -> None:
        self.spool = root / "turnlog" / "trace" / "spool"
        self.spool.mkdir(parents=True)
        self.config = root / "turnlog" / "config.toml"
        self.client = Client(self.spool, receiver.url, folder, (Clock(), Names()))
        self.target = f'[trace]\nto = "{receiver.url}"\n'

    def stop(self, configuration: str) -> None:
        self.config.write_text(self.target + configuration)
        turn(self.client)
        fire("Stop", last_note(self.client))


@pytest.fixture
def traced(project: Path, tmp_path: Path, receiver: Receiver) -> TracedProject:
    return TracedProject(project, tmp_path, receiver)


def test_a_turn_is_traced_if_the_configuration_says_so(
    traced: TracedProject, receiver: Receiver
) -> None:
    traced.stop("[plugin]\ntrace = true\n")
    wait_for(wanted(traced.client), receiver)
    wait_until_idle(traced.spool)


@pytest.mark.parametrize("configuration", ["", "[plugin]\ntrace = false\n"])
def test_a_target_alone_is_no_consent(traced: TracedProject, configuration: str) -> None:
    traced.stop(configuration)
    assert Spool(traced.spool).paths() == []


def test_a_turn_is_not_traced_twice(
    turnlog: Run, traced: TracedProject, receiver: Receiver
) -> None:
    turnlog("hook", "install", "--to", receiver.url)
    traced.stop("[plugin]\ntrace = true\n")
    assert Spool(traced.spool).paths() == []
    status = json.loads(turnlog("hook", "status", "--json").out)
    assert status["waiting"] == []
