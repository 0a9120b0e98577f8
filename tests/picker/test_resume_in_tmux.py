"""turnlog resume in a real terminal: questions about damaged, moved and missing sessions."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from picker.conftest import FIRST, Put
from support.build import moment
from support.live_store import running_sessions
from support.tmux import Pane, needs_tmux, terminal
from turnlog.cli.main import run
from turnlog.store.paths import Store, folder_name

pytestmark = needs_tmux


def see_joined(pane: Pane, text: str) -> str:
    """Wait for a text that may be broken across lines."""
    return pane.wait(lambda screen: text in screen.replace("\n", ""))


def damage(path: Path) -> None:
    """Remove the last time of a session, without which the client refuses it."""
    path.write_bytes(path.read_bytes().replace(f'"timestamp":"{moment(2)}",'.encode(), b""))


def test_resume_changes_to_the_directory_and_passes_arguments(
    put: Put, turnlog: list[str], project: Path, client: Path, tmp_path: Path
) -> None:
    put(FIRST, "Fix it")
    command = [*turnlog, "resume", "aaaa", "--", "--model", "opus"]
    with terminal(command, tmp_path, 120, 24) as pane:
        see_joined(pane, f"CLIENT {project} --resume {FIRST} --model opus")


def test_arguments_without_a_session_are_not_taken_for_one(
    put: Put, turnlog: list[str], project: Path, client: Path
) -> None:
    put(FIRST, "Fix it")
    with terminal([*turnlog, "resume", "--", "--model", "opus"], project, 120, 24) as pane:
        pane.see("1 session", "Enter resume")
        pane.keys("Enter")
        see_joined(pane, f"CLIENT {project} --resume {FIRST} --model opus")


def test_a_repaired_copy_is_offered_for_a_damaged_session(
    put: Put, turnlog: list[str], project: Path, client: Path, store: Store
) -> None:
    original = put(FIRST, "Fix it")
    damage(original)
    before = original.read_bytes()
    with terminal([*turnlog, "resume", FIRST], project, 120, 24) as pane:
        pane.see("Resume a repaired copy? [Y/n]")
        pane.keys("Enter")
        screen = see_joined(pane, f"CLIENT {project} --resume ")
    (copy,) = (path for path in store.session_files() if path != original)
    assert copy.stem in screen.replace("\n", "")
    assert original.read_bytes() == before
    assert run(["check", copy.stem]) == 0


def test_a_session_can_be_resumed_as_it_is(
    put: Put, turnlog: list[str], project: Path, client: Path
) -> None:
    damage(put(FIRST, "Fix it"))
    with terminal([*turnlog, "resume", FIRST], project, 120, 24) as pane:
        pane.see("Resume a repaired copy? [Y/n]")
        pane.say("n")
        see_joined(pane, f"CLIENT {project} --resume {FIRST}")


def test_a_session_is_moved_if_its_directory_is_gone(
    put: Put, turnlog: list[str], project: Path, client: Path, tmp_path: Path, store: Store
) -> None:
    old = put(FIRST, "Fix it", cwd=tmp_path / "gone")
    with terminal([*turnlog, "resume", FIRST], project, 120, 24) as pane:
        pane.see("no longer exists", "Move the session to which directory?")
        pane.keys("Enter")
        see_joined(pane, f"CLIENT {project} --resume {FIRST}")
    assert not old.exists()
    assert (store.projects / folder_name(str(project)) / old.name).exists()
    assert run(["undo"]) == 0
    assert old.exists()


def test_one_question_decides_on_a_repaired_copy_in_another_directory(
    put: Put, turnlog: list[str], project: Path, client: Path, tmp_path: Path, store: Store
) -> None:
    original = put(FIRST, "Fix it", cwd=tmp_path / "gone")
    damage(original)
    before = original.read_bytes()
    with terminal([*turnlog, "resume", FIRST], project, 160, 24) as pane:
        pane.see("no longer exists", "no valid timestamp", "Resume a repaired copy in which")
        pane.see(f"turnlog clone {FIRST} --repair", f"cd {project} && claude --resume ID_OF_THE")
        assert list(store.session_files()) == [original]
        pane.keys("Enter")
        screen = see_joined(pane, f"CLIENT {project} --resume ")
    assert original.read_bytes() == before
    (copy,) = (store.projects / folder_name(str(project))).glob("*.jsonl")
    assert copy.stem in screen.replace("\n", "")
    assert run(["check", copy.stem]) == 0
    assert run(["undo"]) == run(["undo"]) == 0
    assert list(store.session_files()) == [original]


def test_an_unanswered_question_changes_nothing(
    put: Put, turnlog: list[str], project: Path, client: Path, tmp_path: Path, store: Store
) -> None:
    original = put(FIRST, "Fix it", cwd=tmp_path / "gone")
    damage(original)
    with terminal([*turnlog, "resume", FIRST], project, 160, 24) as pane:
        pane.see("Resume a repaired copy in which")
        pane.keys("C-c")
        pane.see("status 130")
    assert list(store.session_files()) == [original]


def test_without_a_client_the_chat_is_offered(
    put: Put, turnlog: list[str], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(FIRST, "Fix it")
    without = [
        each for each in os.environ["PATH"].split(os.pathsep) if not Path(each, "claude").exists()
    ]
    monkeypatch.setenv("PATH", os.pathsep.join(without))
    with terminal([*turnlog, "resume", FIRST], project, 160, 24) as pane:
        pane.see("claude is not installed", f"cd {project} && turnlog chat --resume {FIRST}")
        pane.see("Resume it in turnlog chat? [Y/n]")
        pane.say("n")
        pane.see("status 130")


def test_an_archived_session_is_restored(
    put: Put, turnlog: list[str], project: Path, client: Path
) -> None:
    path = put(FIRST, "Fix it")
    assert run(["archive"]) == 0
    path.unlink()
    with terminal([*turnlog, "resume", FIRST], project, 120, 24) as pane:
        pane.see("Restore it and resume? [Y/n]")
        pane.keys("Enter")
        see_joined(pane, f"CLIENT {project} --resume {FIRST}")


def test_a_copy_is_offered_of_a_session_that_is_open(
    turnlog: list[str], put: Put, project: Path, client: Path, store: Store
) -> None:
    with running_sessions(store.root, 1) as (running,):
        put(running.id, "Fix it")
        running.register()
        with terminal([*turnlog, "resume", running.id], project, 120, 24) as pane:
            pane.see("is open in a running client", "Resume a copy of it? [Y/n]")
            pane.keys("Enter")
            screen = see_joined(pane, f"CLIENT {project} --resume ")
        assert f"CLIENT {project} --resume {running.id}" not in screen.replace("\n", "")


def test_without_a_client_the_chat_resumes(
    put: Put, project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(FIRST, "Fix it")
    monkeypatch.setenv("PATH", "/nowhere")
    assert run(["resume", FIRST, "--dry-run"]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"cd {project} && turnlog chat --resume {FIRST}\n"
    assert "claude is not installed: turnlog chat resumes the session" in printed.err


Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """Run a command without a terminal; return its code and what it prints."""

    def call(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code, printed = run(list(words)), capsys.readouterr()
        return code, printed.out, printed.err

    return call


def test_a_preview_prints_the_command(put: Put, project: Path, client: Path, say: Say) -> None:
    put(FIRST, "Fix it")
    command = f"cd {project} && claude --resume {FIRST}\n"
    assert say("resume", FIRST, "--dry-run") == (0, command, "")
    copied = f"cd {project} && claude --resume ID_OF_THE_COPY\n"
    forked = f"turnlog clone {FIRST}\n{copied}"
    assert say("resume", FIRST, "--dry-run", "--fork") == (0, forked, "")
    cut = f"turnlog clone {FIRST} --keep-until 1\n{copied}"
    assert say("resume", FIRST, "--dry-run", "--at", "1") == (0, cut, "")
    with_arguments = f"{command.rstrip()} --model 'my opus'\n"
    assert say("resume", FIRST, "--dry-run", "--", "--model", "my opus")[1] == with_arguments


def test_obstacles_are_one_line_with_a_command_without_a_terminal(
    put: Put, client: Path, say: Say, tmp_path: Path
) -> None:
    damage(put(FIRST, "Fix it"))
    code, out, error = say("resume", FIRST)
    assert (code, out, error.count("\n")) == (1, "", 1)
    assert f"would refuse {FIRST}" in error
    assert f"(try: turnlog resume {FIRST} --repair)" in error
    gone = "dddddddd-0000-4000-8000-000000000004"
    put(gone, "Fix it", cwd=tmp_path / "gone")
    code, out, error = say("resume", gone)
    assert (code, out, error.count("\n")) == (1, "", 1)
    assert f"no longer exists: {tmp_path / 'gone'} (try: turnlog mv {gone} .)" in error


def test_a_session_filed_under_another_directory_is_not_started(
    put: Put, client: Path, say: Say, store: Store, project: Path
) -> None:
    path = put(FIRST, "Fix it")
    other = store.projects / "-elsewhere" / path.name
    other.parent.mkdir()
    path.rename(other)
    code, _, error = say("resume", FIRST)
    assert code == 1
    problem = f"{FIRST} is filed under -elsewhere, not under {project}"
    assert f"{problem} (try: turnlog mv {FIRST} {project})" in error
    assert say("mv", FIRST, str(project))[0] == 0
    assert say("resume", FIRST, "--dry-run")[0] == 0


def test_resume_prints_what_other_commands_print(
    put: Put, say: Say, project: Path, client: Path
) -> None:
    put(FIRST, "Fix the zeppelin")
    command = f"cd {project} && claude --resume {FIRST}"
    for words in (["show", FIRST], ["search", "zeppelin"], ["ls", "--long"]):
        assert command in say(*words)[1], words
    assert command in say("ls")[2]
    assert f"cd {project} && claude --resume " in say("clone", FIRST)[1]


def test_nothing_is_copied_that_cannot_be_resumed(
    put: Put, say: Say, client: Path, store: Store
) -> None:
    put(FIRST, "Fix it")
    assert say("resume", FIRST, "--at", "7", "--dry-run")[2].count("no turn 7") == 1
    code, _, error = say("resume", FIRST, "--fork")
    assert (code, f"needs a terminal (try: turnlog clone {FIRST})" in error) == (2, True)
    error = say("resume", FIRST, "--at", "1")[2]
    assert f"(try: turnlog clone {FIRST} --keep-until 1)" in error
    assert len(list(store.session_files())) == 1


def test_an_empty_session_is_not_to_be_moved(put: Put, say: Say, client: Path) -> None:
    put(FIRST, "Fix it").write_bytes(b"")
    reason = f"{FIRST} cannot be resumed: the file contains no conversation"
    assert say("resume", FIRST) == (1, "", f"turnlog: {reason} (try: turnlog check {FIRST})\n")


def test_a_session_that_is_due_for_clean_up_is_protected(
    put: Put, turnlog: list[str], project: Path, client: Path
) -> None:
    path = put(FIRST, "Fix it")
    os.utime(path, (0, 0))
    with terminal([*turnlog, "resume", FIRST], project, 120, 24) as pane:
        see_joined(pane, f"CLIENT {project} --resume {FIRST}")
    assert path.stat().st_mtime > time.time() - 600
