"""States of sessions whose clients report them by a notification, and by nothing else."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.build import Fields, assistant, call, text, user
from support.live_store import RunningSession, running_sessions
from turnlog.conversation.live import LiveReader, LiveSession
from turnlog.store.client_notifications import (
    clear_notification,
    notification_folder,
    read_notification,
    record_notification,
)
from turnlog.store.paths import Store

ASKED = [user("go"), assistant(call("Bash"), message={"stop_reason": "tool_use"})]
ENDED = [user("go"), assistant(text("so"), message={"stop_reason": "end_turn"})]
FAR: Fields = {"startedAt": 1}


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningSession]:
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    monkeypatch.setenv("PATH", str(tmp_path))  # no client to ask
    with running_sessions(tmp_path / "store") as (session,):
        session.register(version="2.1.150")
        yield session


def read(running: RunningSession, later: float = 0.0) -> LiveSession:
    (found,) = LiveReader([Store(running.store.root)]).read(time.time() + later)
    return found


def test_a_permission_prompt_is_reported_before_it_could_be_inferred(
    running: RunningSession,
) -> None:
    running.write(*ASKED, ago=1)
    assert read(running).source == "inferred"
    record_notification(running.id, "permission_prompt")
    found = read(running)
    assert (found.state, found.source) == ("waiting for permission", "reported")
    assert found.detail == "permission prompt"


def test_an_answer_ends_what_was_reported(running: RunningSession) -> None:
    running.write(*ASKED, ago=60)
    record_notification(running.id, "permission_prompt")
    running.write(*ENDED, ago=-1)
    assert read(running).source == "inferred"


@pytest.mark.parametrize(("later", "state"), [(0.0, "waiting for input"), (700.0, "idle")])
def test_a_prompt_that_waits_is_reported(running: RunningSession, later: float, state: str) -> None:
    running.write(*ENDED, ago=60)
    record_notification(running.id, "idle_prompt")
    found = read(running, later)
    assert (found.state, found.source) == (state, "reported")


def test_a_status_in_the_registry_comes_first(running: RunningSession) -> None:
    record_notification(running.id, "permission_prompt")
    running.report("busy")
    assert read(running).state == "working"


@pytest.mark.parametrize("kind", ["auth_success", "something_newer"])
def test_other_notifications_say_nothing(running: RunningSession, kind: str) -> None:
    running.write(*ASKED, ago=60)
    record_notification(running.id, kind)
    assert read(running).source == "inferred"


def test_a_notification_of_an_earlier_process_is_past(running: RunningSession) -> None:
    running.write(*ASKED, ago=60)
    record_notification(running.id, "permission_prompt")
    running.register(startedAt=(time.time() + 60) * 1000)
    assert read(running).source == "inferred"


def test_a_permitted_command_is_working(tmp_path: Path, running: RunningSession) -> None:
    running.write(*ASKED, ago=60)
    record_notification(running.id, "permission_prompt")
    # This process stands for the client: it has a child, which is the command.
    with subprocess.Popen(["sleep", "600"], env={"PATH": "/usr/bin:/bin"}) as child:
        claim: Fields = {"pid": os.getpid(), "sessionId": running.id, "cwd": running.cwd}
        (running.store.registry / f"{running.pid}.json").unlink()
        (running.store.registry / f"{os.getpid()}.json").write_text(json.dumps(claim | FAR))
        found = read(running)
        child.kill()
    assert (found.state, found.source) == ("working", "inferred")


def test_files_of_sessions_that_never_ended_are_removed(running: RunningSession) -> None:
    record_notification("forgotten", "idle_prompt")
    week = time.time() - 8 * 86_400
    os.utime(notification_folder() / "forgotten.json", (week, week))
    record_notification(running.id, "idle_prompt")
    assert read_notification("forgotten") is None
    clear_notification(running.id)
    assert list(notification_folder().iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"[]", b'{"kind": 1, "at": 2}', b'{"kind": "x"}'])
def test_a_damaged_file_says_nothing(running: RunningSession, content: bytes) -> None:
    record_notification(running.id, "idle_prompt")
    (notification_folder() / f"{running.id}.json").write_bytes(content)
    assert read_notification(running.id) is None
