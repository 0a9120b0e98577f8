"""Turns with work in a directory that is off are not sent, wherever the client was started."""

import json
import os
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from cli.conftest import Run
from support.build import assistant, call, encode, result, session, text, user
from support.hook_projects import Project, ProjectSession, make_spool, send_from, turns_at
from support.hooked_client import Clock, Names
from support.otlp_receiver import receiving
from turnlog.trace.spool import Spool


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spool:
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    return make_spool(tmp_path / "turnlog")


@pytest.fixture
def mono(tmp_path: Path, spool: Spool, turnlog: Run) -> Generator[Project]:
    """A project whose directory `vault` is off."""
    assert spool
    vault = tmp_path / "mono" / "vault"
    vault.mkdir(parents=True)
    assert turnlog("hook", "off", "--project", str(vault)).code == 0
    time.sleep(0.01)
    with receiving() as receiver:
        yield Project(tmp_path / "mono", tmp_path / "claude", receiver, "full", (Clock(), Names()))


def add(going: ProjectSession, raw: bytes, cwd: Path, **more: object) -> None:
    """Write one line of a turn."""
    clock, names = going.project.world
    fields = json.loads(raw) | {"uuid": names.uuid(), "parentUuid": going.tip, "cwd": str(cwd)}
    fields |= {"timestamp": clock.tick()} | more
    going.tip = fields["uuid"]
    with going.path.open("ab") as file:
        file.write(session(encode(fields), session_id=going.path.stem))


def sent(going: ProjectSession) -> int:
    """Announce the last turn; return how many turns the backend has then."""
    with Spool(Path(os.environ["TURNLOG_HOME"]) / "trace" / "spool").lock():
        going.hook()
    send_from(os.environ)
    return turns_at(going.project)


def test_a_turn_in_a_directory_that_is_off_is_not_sent(mono: Project) -> None:
    going = mono.session()
    going.turn(mono.folder / "vault" / "deeper")
    assert sent(going) == 0
    going.turn()
    assert sent(going) == 1


def test_a_hook_in_a_directory_that_is_off_leaves_no_note(mono: Project, spool: Spool) -> None:
    vault = Project(mono.folder / "vault", mono.store, mono.receiver, "full", mono.world)
    for project, notes in ((vault, 0), (mono, 1)):
        going = project.session()
        going.turn()
        with spool.lock():
            going.hook()
            assert len(spool.paths()) == notes


@pytest.mark.parametrize("place", [0, 1, 2])
def test_nor_is_one_that_was_there_for_a_while(mono: Project, place: int) -> None:
    going = mono.session()
    cwds = [mono.folder] * 3
    cwds[place] = mono.folder / "vault"
    add(going, user("look"), cwds[0])
    add(going, assistant(text("so far"), message_id="m1"), cwds[1])
    add(going, assistant(text("done"), message_id="m2"), cwds[2])
    assert sent(going) == 0


def test_nor_is_one_that_reached_it_by_a_link(mono: Project) -> None:
    (mono.folder / "link").symlink_to(mono.folder / "vault")
    going = mono.session()
    going.turn(mono.folder / "link")
    assert sent(going) == 0


def test_nor_is_one_whose_directory_became_a_link_elsewhere(mono: Project) -> None:
    going = mono.session()
    going.turn(mono.folder / "vault")
    (mono.folder / "vault").rename(mono.folder / "before")
    (mono.folder / "vault").symlink_to(mono.folder)
    assert sent(going) == 0


@pytest.mark.parametrize("is_linked", [True, False])
def test_nor_is_one_whose_subagent_worked_there(mono: Project, is_linked: bool) -> None:
    going = mono.session()
    add(going, user("look"), mono.folder)
    add(going, assistant(call("Agent", {"prompt": "look"}, "t1"), message_id="m1"), mono.folder)
    agent = ProjectSession(mono, going.path.with_suffix("") / "subagents" / "agent-a1.jsonl")
    agent.path.parent.mkdir(parents=True)
    side = {"isSidechain": True, "agentId": "a1", "sessionId": going.path.stem}
    add(agent, user("look" if is_linked else "warm up"), mono.folder / "vault", **side)
    add(agent, assistant(text("found"), message_id="m2"), mono.folder / "vault", **side)
    add(going, result("t1", "found"), mono.folder)
    add(going, assistant(text("done"), message_id="m3"), mono.folder)
    assert sent(going) == 0


def test_a_turn_beside_it_is_sent(mono: Project) -> None:
    (mono.folder / "vault2").mkdir()
    going = mono.session()
    going.turn(mono.folder / "vault2")
    assert sent(going) == 1


@pytest.mark.parametrize("spelled", ["~/vault", "~/other/../vault"])
def test_a_tilde_that_the_shell_left_is_expanded(
    tmp_path: Path, turnlog: Run, monkeypatch: pytest.MonkeyPatch, spelled: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "vault").mkdir()
    (tmp_path / "other").mkdir()
    done = turnlog("hook", "off", f"--project={spelled}")
    assert done.out == f"off  {tmp_path / 'vault'}\n"


@pytest.mark.parametrize("spelled", ["valut", "~nosuchuser/vault", "file"])
@pytest.mark.parametrize("word", ["on", "off"])
def test_what_is_no_directory_is_not_switched(
    tmp_path: Path, turnlog: Run, monkeypatch: pytest.MonkeyPatch, spelled: str, word: str
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    done = turnlog("hook", word, "--project", spelled)
    assert (done.code, done.out) == (1, "")
    assert "is not a directory" in done.err


def test_a_directory_that_is_gone_can_be_switched_back(tmp_path: Path, turnlog: Run) -> None:
    folder = tmp_path / "vault"
    folder.mkdir()
    turnlog("hook", "off", "--project", str(folder))
    folder.rmdir()
    assert turnlog("hook", "on", "--project", str(folder)).code == 0
