"""Files and network that settings and environment let the calls of a chat reach."""

import json
import subprocess
from functools import partial
from pathlib import Path

import pytest

from support.chat_process import ANYTHING, NEW, ChatProcess
from support.scripted_api import ScriptedApi, called, said


def result_in(api: ScriptedApi, number: int) -> str:
    """Return the result of a call in a request."""
    [block] = api.requests[number].body["messages"][-1]["content"]
    return str(block["content"])


@pytest.mark.needs_bwrap
def test_with_a_sandbox_commands_write_only_in_the_project(
    chat: ChatProcess, api: ScriptedApi, tmp_path: Path
) -> None:
    chat.store.root.mkdir()
    chat.store.settings.write_text(json.dumps({"sandbox": {"enabled": True}}))
    (tmp_path / "temporary").mkdir()
    chat.environment["TMPDIR"] = str(tmp_path / "temporary")
    command = f"echo inside > here; echo outside > {tmp_path}/there"
    api.replies.insert(0, called(("toolu_1", "Bash", {"command": command})))
    assert chat.run("-p", "go", *NEW, *ANYTHING).code == 0
    assert "Read-only file system" in result_in(api, 1)
    assert (chat.work / "here").exists()
    assert not (tmp_path / "there").exists()


def test_pages_of_this_machine_are_fetched_only_where_the_user_says_so(
    chat: ChatProcess, api: ScriptedApi
) -> None:
    fetch = called(("toolu_1", "WebFetch", {"url": api.url, "prompt": "What is it?"}))
    settings = chat.work / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"env": {"TURNLOG_PRIVATE_PAGES": "1"}}))
    api.replies[:] = [fetch, said("Done.")]
    chat.run("-p", "go", *ANYTHING)
    assert "is in a private network" in result_in(api, 1)
    api.replies[:] = [fetch, said("Done.")]
    chat.environment["TURNLOG_PRIVATE_PAGES"] = "1"
    chat.run("-p", "go", *ANYTHING)
    assert "answered 404" in result_in(api, 3)


def canary(tmp_path: Path) -> tuple[Path, Path]:
    """A program that leaves a mark when it runs, and the mark."""
    program, mark = tmp_path / "canary", tmp_path / "canary-ran"
    program.write_text(f"#!/bin/sh\necho x >> '{mark}'\n")
    program.chmod(0o755)
    return program, mark


def test_git_runs_nothing_of_a_folder_that_looks_like_a_bare_repository(
    chat: ChatProcess, api: ScriptedApi, tmp_path: Path
) -> None:
    program, mark = canary(tmp_path)
    fix = chat.work / "fix"
    run = partial(subprocess.run, cwd=chat.work, env=chat.environment, check=True)
    run(["git", "init", "-q", "--bare", "fix"])
    for name, value in (("bare", "false"), ("worktree", "../.."), ("fsmonitor", str(program))):
        run(["git", "--git-dir", str(fix), "config", f"core.{name}", value])
    calls = ({"command": "cd fix"}, {"command": "git status"})
    api.replies[:] = [*(called((f"toolu_{n}", "Bash", each)) for n, each in enumerate(calls))]
    api.replies.append(said("Done."))
    assert chat.run("-p", "go", *NEW).code == 0
    assert not mark.exists()


def test_variables_of_the_settings_do_not_steer_commands_that_run_unprompted(
    chat: ChatProcess, api: ScriptedApi, tmp_path: Path
) -> None:
    program, mark = canary(tmp_path)
    (chat.work / "bin").mkdir()
    (chat.work / "bin" / "ls").symlink_to(program)
    env = {"PATH": f"{chat.work}/bin:/usr/bin:/bin", "BASH_ENV": str(program), "CDPATH": "/"}
    chat.store.root.mkdir()
    chat.store.settings.write_text(json.dumps({"env": env}))
    api.replies.insert(0, called(("toolu_1", "Bash", {"command": "ls"})))
    assert chat.run("-p", "go", *NEW).code == 0
    assert result_in(api, 1) == "bin"
    assert not mark.exists()
