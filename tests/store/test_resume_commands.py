"""The command that resumes a session, run by a real shell."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from support.build import assistant, line, session, text, user
from turnlog.store.paths import Store
from turnlog.store.resume_command import (
    client_version,
    file_command,
    find_client,
    pasteable_command,
    resume_command,
)

ID = "5e551011-0000-4000-8000-000000000000"


@pytest.mark.parametrize("name", ["shop", "my shop", "it's; touch pwned", "$(touch pwned)", "-x"])
def test_a_shell_runs_the_client_in_the_directory(tmp_path: Path, name: str) -> None:
    folder, programs = tmp_path / name, tmp_path / "bin"
    folder.mkdir()
    programs.mkdir()
    client = programs / "claude"
    client.write_text('#!/bin/sh\nprintf "%s|" "$PWD" "$@"\n')
    client.chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    command = resume_command(ID, str(folder))
    output = subprocess.check_output(
        ["sh", "-c", command], cwd=tmp_path, env=environment, text=True
    )
    assert output == f"{folder}|--resume|{ID}|"
    assert not list(tmp_path.rglob("pwned"))


def test_the_name_of_a_file_is_never_an_option(tmp_path: Path) -> None:
    found = resume_command("--dangerously-skip-permissions", None)
    assert found == "claude --resume=--dangerously-skip-permissions"


def test_a_command_to_paste_has_no_control_characters(store: Store) -> None:
    assert pasteable_command(ID, "/my shop", store) == f"cd '/my shop' && claude --resume {ID}"
    for name in ("/\x03touch pwned\n", "/\x1b[201~", "/\ud800"):
        assert pasteable_command(ID, name, store) == f"turnlog resume {ID}"
        assert pasteable_command(name, "/x", store) is None


def test_another_store_is_named(store: Store, tmp_path: Path) -> None:
    assert resume_command("5e55", "/x", store) == "cd /x && claude --resume 5e55"
    other = Store(tmp_path / "other store")
    wanted = f"cd /x && CLAUDE_CONFIG_DIR='{other.root}' claude --resume 5e55"
    assert resume_command("5e55", "/x", other) == wanted


def test_the_first_of_several_stores_is_named_too(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", f"{store.root},{tmp_path / 'other'}")
    # The client would take both for one directory.
    wanted = f"CLAUDE_CONFIG_DIR={store.root} claude --resume 5e55"
    assert resume_command("5e55", None, store) == wanted


def test_the_client_is_found_by_an_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = tmp_path / "claude"
    client.write_text("#!/bin/sh\n")
    client.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    # In the session's directory, `.` is another one: what was found here must be what runs.
    assert find_client({"PATH": "."}) == str(client)
    assert find_client({"PATH": "/nowhere"}) is None


def test_the_version_of_a_client_is_known_without_starting_it(tmp_path: Path) -> None:
    native = tmp_path / "versions" / "2.1.325"
    native.parent.mkdir()
    native.touch()
    (tmp_path / "claude").symlink_to(native)
    assert client_version(str(tmp_path / "claude")) == "2.1.325"
    package = tmp_path / "node_modules/@anthropic-ai/claude-code"
    package.mkdir(parents=True)
    (package / "cli.js").touch()
    facts = {"name": "@anthropic-ai/claude-code", "version": "1.0.60"}
    (package / "package.json").write_text(json.dumps(facts))
    assert client_version(str(package / "cli.js")) == "1.0.60"
    (package / "package.json").write_text("[]")
    assert client_version(str(package / "cli.js")) is None


UNRESUMED = {
    "empty": b"",
    "titles only": line("summary", summary='"user"', leaf_uuid=ID),
    "prompts of all sessions": line(display="hi", project="/home/ada/shop"),
    "a sub-agent in the session's file": session(user("hi", is_sidechain=True)),
    "no JSON": b"user\n\x00\n",
}


@pytest.mark.parametrize("name", UNRESUMED)
def test_a_file_without_conversation_has_no_command(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{ID}.jsonl"
    path.write_bytes(UNRESUMED[name])
    assert file_command(path, "/home/ada/shop") is None


@pytest.mark.parametrize("name", ["history", "agent-1f", "notes"])
def test_a_file_that_is_not_named_by_an_id_has_no_command(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.jsonl"
    path.write_bytes(session(user("hi")))
    assert file_command(path, "/home/ada/shop") is None
    assert file_command(tmp_path / f"{ID}.jsonl", None) is None  # there is no such file


@pytest.mark.parametrize("lines", [user("hi"), assistant(text("hi")), b"\n{\n" + user("hi")])
def test_one_message_is_enough_for_a_command(tmp_path: Path, lines: bytes) -> None:
    path = tmp_path / f"{ID}.jsonl"
    path.write_bytes(UNRESUMED["titles only"] + lines)
    assert file_command(path, "/shop") == f"cd /shop && claude --resume {ID}"
