"""Configuration that is not a regular file, or is endless, is not loaded and stops no chat."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from support.chat_process import ChatProcess
from support.scripted_api import ScriptedApi
from turnlog.agent.workspace.repository import CEILINGS

GIB = 1 << 30
MANY = 10_001
SECONDS = 20.0
"""What a chat may take that answers at once, on a busy machine."""
LOADED = (
    "CLAUDE.md",
    "CLAUDE.local.md",
    ".claude/CLAUDE.md",
    ".claude/rules/a.md",
    ".claude/commands/a.md",
    ".claude/agents/a.md",
    ".claude/skills/a/SKILL.md",
    ".mcp.json",
)
SETTINGS = (".claude/settings.json", ".claude/settings.local.json")


@pytest.fixture
def chat(tmp_path: Path, api: ScriptedApi) -> ChatProcess:
    chat = ChatProcess(tmp_path, api.url)
    chat.environment[CEILINGS] = str(tmp_path)
    return chat


def fifo(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def unix_socket(path: Path) -> None:
    before = Path.cwd()
    os.chdir(path.parent)  # a socket's path must be short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(before)


def huge(path: Path) -> None:
    path.touch()
    os.truncate(path, GIB)


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def plant(chat: ChatProcess, names: tuple[str, ...], make: Callable[[Path], None]) -> list[Path]:
    paths = [chat.work / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        make(path)
    return paths


def answer(chat: ChatProcess, *options: str) -> str:
    """Run a chat that answers at once; return its stderr."""
    with chat.start("-p", "hello", *options) as running:
        try:
            out, err = running.communicate("", timeout=SECONDS)
        finally:
            running.kill()
    assert (running.returncode, out) == (0, "Done.\n"), err
    return err


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (fifo, "a named pipe"),
        (unix_socket, "a socket"),
        (folder, "a directory"),
        (huge, "larger than 4 MiB"),
        (endless, "it links to /dev/zero"),
    ],
)
def test_what_is_no_file_of_a_usual_size_is_skipped_and_named_in_one_line(
    chat: ChatProcess, make: Callable[[Path], None], reason: str
) -> None:
    names = LOADED if make is not endless else LOADED[:-1]
    paths = plant(chat, names, make)
    lines = answer(chat, "--trust").splitlines()
    # A folder in the place of a.md is one that may hold further definitions.
    skipped = [path for path in paths if make is not folder or path.name != "a.md"]
    for path in skipped:
        (line,) = [each for each in lines if f"{path} is not loaded" in each]
        assert reason in line
    assert len(lines) == len(skipped)


@pytest.mark.parametrize("make", [fifo, unix_socket, folder])
def test_settings_that_are_no_file_are_skipped_and_named(
    chat: ChatProcess, make: Callable[[Path], None]
) -> None:
    paths = plant(chat, SETTINGS, make)
    assert answer(chat, "--trust").splitlines() == [
        f"turnlog: {path} is not loaded: it is not a regular file" for path in paths
    ]


def test_huge_settings_are_refused_with_one_line(chat: ChatProcess) -> None:
    (path,) = plant(chat, SETTINGS[:1], huge)
    told = chat.run("-p", "hello")
    assert (told.code, told.err.splitlines()) == (
        2,
        [f"turnlog: {path} cannot be read: larger than 4 MiB"],
    )


def test_settings_may_come_from_a_pipe_that_the_user_names(chat: ChatProcess) -> None:
    reader, writer = os.pipe()
    os.write(writer, b'{"permissions": {"deny": ["Nonsense("]}}')
    os.close(writer)
    try:
        err = answer(chat, "--settings", f"/proc/{os.getpid()}/fd/{reader}")
    finally:
        os.close(reader)
    assert "Nonsense(" in err


@pytest.mark.parametrize("make", [fifo, huge, loop, endless])
def test_imports_and_git_files_that_have_no_end_are_not_waited_for(
    chat: ChatProcess, make: Callable[[Path], None]
) -> None:
    plant(chat, ("imported.md", ".git/HEAD", ".git/config"), make)
    (chat.work / "CLAUDE.md").write_text("Read @imported.md and @/dev/zero and @/dev/tty.")
    answer(chat)


def test_links_that_lead_to_themselves_stop_nothing(chat: ChatProcess) -> None:
    plant(chat, (".claude",), loop)
    answer(chat)
    (chat.work / ".claude").unlink()
    names = ("rules", "commands", "skills", "agents", "settings.json", "CLAUDE.md")
    plant(chat, tuple(f".claude/{name}" for name in names), loop)
    answer(chat)


@pytest.mark.parametrize("name", ["rules", "commands", "agents", "skills"])
def test_a_link_out_of_the_project_is_not_searched(
    chat: ChatProcess, tmp_path: Path, name: str
) -> None:
    outside = tmp_path / "outside"
    secret = outside / "deep" / "secret.md"
    secret.parent.mkdir(parents=True)
    secret.write_text("teal")
    (outside / "deep" / "SKILL.md").write_text("teal")
    link = chat.work / ".claude" / name
    link.parent.mkdir()
    link.symlink_to(outside)
    err = answer(chat)
    assert err == (
        f"turnlog: {link} is not loaded: it links to {outside}, outside of the project\n"
    )


@pytest.mark.parametrize("name", ["rules", "commands", "agents"])
def test_a_huge_tree_is_searched_to_a_limit(chat: ChatProcess, name: str) -> None:
    place = chat.work / ".claude" / name
    place.mkdir(parents=True)
    for rank in range(MANY):
        (place / f"{rank}.txt").touch()
    assert f"{place} is not searched further: it has too many files" in answer(chat)


def test_a_deep_tree_is_searched_to_a_limit(chat: ChatProcess) -> None:
    place = chat.work / ".claude" / "rules"
    for _ in range(100):
        place = place / "d"
    place.mkdir(parents=True)
    (place / "a.md").write_text("too deep")
    assert "is not searched: it is nested too deeply" in answer(chat)


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_that_are_nested_too_deeply_are_an_error_in_one_line(
    chat: ChatProcess, name: str
) -> None:
    (chat.work / ".claude").mkdir()
    (chat.work / name).write_text('{"a":' + "[" * 100_000 + "]" * 100_000 + "}")
    done = chat.run("-p", "hello")
    assert (done.code, done.err.count("\n"), "is not valid" in done.err) == (2, 1, True)
