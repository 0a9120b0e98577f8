"""turnlog hook run with payloads that no client sends: nothing outside of the store is traced."""

import json
import os
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from cli.conftest import Run
from support.build import assistant, session, text, user
from support.hook_projects import (
    COMMAND,
    Project,
    ProjectSession,
    run_hook,
    texts_at,
    turns_at,
    without_senders,
)
from support.hooked_client import Clock, Names
from support.otlp_receiver import receiving
from turnlog.trace.spool import Spool

DIARY = session(user("dear diary"), assistant(text("a private thought")))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    return tmp_path / "claude"


@pytest.fixture
def shop(tmp_path: Path, store: Path) -> Generator[Project]:
    (tmp_path / "shop").mkdir()
    with receiving() as receiver:
        yield Project(tmp_path / "shop", store, receiver, "full", (Clock(), Names()))


@pytest.fixture
def spool(tmp_path: Path, shop: Project) -> Spool:
    made = Spool(tmp_path / "turnlog" / "trace" / "spool")
    made.begin()
    return made


def wait_until_idle(spool: Spool) -> None:
    limit = time.time() + 30
    while spool.paths() and time.time() < limit:
        time.sleep(0.02)
    assert spool.paths() == []


def announce(shop: Project, path: Path) -> None:
    """Run the hook as any local program can."""
    told = {"hook_event_name": "Stop", "session_id": path.stem, "transcript_path": str(path)}
    run_hook(shop.environment, json.dumps(told).encode())


def test_a_session_in_the_store_is_sent(shop: Project, spool: Spool) -> None:
    own = shop.session()
    own.turn()
    own.hook()
    wait_until_idle(spool)
    assert (turns_at(shop), spool.failures) == (1, [])


def test_a_store_behind_a_link_is_sent(shop: Project, spool: Spool, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    shop.store.symlink_to(disk)
    own = shop.session()
    own.turn()
    own.hook()
    wait_until_idle(spool)
    assert (turns_at(shop), spool.failures) == (1, [])


def run_elsewhere(session: ProjectSession, **more: str) -> None:
    """Run the hook in another directory, without the client's variable for the project."""
    environment = session.project.environment
    del environment["CLAUDE_PROJECT_DIR"]
    elsewhere = session.project.folder.parent / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    run_hook(environment, session.payload("Stop", **more), cwd=elsewhere)


def test_a_turn_belongs_to_the_directory_in_the_payload(shop: Project, spool: Spool) -> None:
    own = shop.session()
    own.turn()
    run_elsewhere(own, cwd=str(shop.folder))
    wait_until_idle(spool)
    assert (turns_at(shop), spool.failures) == (1, [])


@pytest.mark.parametrize("cwd", ["shop", "/a\0b", "/\ud800", ""])
def test_a_payload_without_a_valid_directory_is_queued_for_the_current_one(
    shop: Project, spool: Spool, cwd: str
) -> None:
    own = shop.session()
    own.turn()
    with without_senders(spool):
        run_elsewhere(own, cwd=cwd)
    assert [note.route.project for note in spool.notes()] == [str(shop.folder.parent / "elsewhere")]


def test_status_names_withheld_turns_and_why(turnlog: Run, shop: Project, spool: Spool) -> None:
    own = shop.session()
    own.turn()
    run_elsewhere(own)
    wait_until_idle(spool)
    assert turns_at(shop) == 0
    why = f"recorded in {shop.folder}, not in {shop.folder.parent / 'elsewhere'}"
    (status,) = json.loads(turnlog("hook", "status", "--json").out)["sessions"]
    assert status["withheld"] == {why: [1]}
    assert f"withheld: turn 1 of {own.path.stem}, {why}" in turnlog("hook", "status").out
    own.turn()
    own.hook()
    wait_until_idle(spool)
    (status,) = json.loads(turnlog("hook", "status", "--json").out)["sessions"]
    assert (turns_at(shop), status["withheld"]) == (1, {why: [1]})


@pytest.mark.parametrize(
    "place",
    [
        "diary.jsonl",
        "other/projects/-x/diary.jsonl",
        "claude/diary.jsonl",
        "claude/projects/diary.jsonl",
        "claude/projects/-x/deeper/diary.jsonl",
        "claude/projects/-x/../../../diary.jsonl",
    ],
)
def test_a_file_outside_of_the_projects_is_not_sent(
    shop: Project, spool: Spool, tmp_path: Path, place: str, turnlog: Run
) -> None:
    (shop.store / "projects" / "-x").mkdir(parents=True)
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(DIARY)
    announce(shop, path)
    wait_until_idle(spool)
    assert not shop.receiver.requests
    (failure,) = spool.failures
    assert failure.reason.startswith(f"{path} is not sent: it is not a session in ")
    assert "diary.jsonl is not sent" in turnlog("hook", "status").out


@pytest.mark.parametrize("link", ["file", "folder"])
def test_a_link_out_of_the_projects_is_not_followed(
    shop: Project, spool: Spool, tmp_path: Path, link: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "diary.jsonl").write_bytes(DIARY)
    folder = shop.store / "projects" / "-x"
    folder.parent.mkdir(parents=True)
    if link == "folder":
        folder.symlink_to(outside)
    else:
        folder.mkdir()
        (folder / "diary.jsonl").symlink_to(outside / "diary.jsonl")
    announce(shop, folder / "diary.jsonl")
    wait_until_idle(spool)
    assert not shop.receiver.requests
    assert len(spool.failures) == 1


def test_a_session_that_moved_is_not_found_behind_a_link(
    shop: Project, spool: Spool, tmp_path: Path
) -> None:
    (tmp_path / "diary.jsonl").write_bytes(DIARY)
    elsewhere = shop.store / "projects" / "-y"
    elsewhere.mkdir(parents=True)
    (elsewhere / "diary.jsonl").symlink_to(tmp_path / "diary.jsonl")
    announce(shop, shop.store / "projects" / "-x" / "diary.jsonl")
    wait_until_idle(spool)
    assert not shop.receiver.requests


@pytest.mark.parametrize("kind", ["fifo", "folder", "socket"])
def test_what_is_no_regular_file_is_not_sent(
    shop: Project, spool: Spool, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shop.store / "projects" / "-x"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)  # a socket's path must be short
    if kind == "fifo":
        os.mkfifo("odd.jsonl")
    elif kind == "folder":
        Path("odd.jsonl").mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("odd.jsonl")
    announce(shop, folder / "odd.jsonl")
    wait_until_idle(spool)
    (failure,) = spool.failures
    assert failure.reason == f"{folder / 'odd.jsonl'} is not sent: it is not a regular file"


def test_a_subagent_outside_of_the_project_is_not_sent(
    shop: Project, spool: Spool, tmp_path: Path
) -> None:
    (tmp_path / "diary.jsonl").write_bytes(DIARY)
    own = shop.session()
    own.turn()
    folder = own.path.with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    (folder / "agent-1.jsonl").symlink_to(tmp_path / "diary.jsonl")
    own.hook("SessionEnd", reason="other")
    wait_until_idle(spool)
    assert turns_at(shop) == 1
    assert "private thought" not in texts_at(shop)


def test_a_huge_payload_is_refused_without_reading_it_all(
    shop: Project, spool: Spool, turnlog: Run
) -> None:
    own = shop.session()
    own.turn()
    written = 0
    with subprocess.Popen(
        [*COMMAND, "run"], env=shop.environment, stdin=subprocess.PIPE, bufsize=0
    ) as hook:
        assert hook.stdin
        with suppress(BrokenPipeError):
            for _ in range(100):
                written += hook.stdin.write(b" " * (1 << 20))
            hook.stdin.write(own.payload("Stop"))
        hook.stdin.close()
        assert hook.wait(timeout=10) == 0
    assert written < 20 << 20
    wait_until_idle(spool)
    assert not shop.receiver.requests
    assert [each.reason for each in spool.failures] == ["the hook's payload is larger than 16 MiB"]
    assert "larger than 16 MiB" in turnlog("hook", "status").out


def test_a_long_payload_is_no_obstacle(shop: Project, spool: Spool) -> None:
    own = shop.session()
    own.turn()
    own.hook("Stop", field_of_a_later_client="x" * (4 << 20))
    wait_until_idle(spool)
    assert (turns_at(shop), spool.failures) == (1, [])
