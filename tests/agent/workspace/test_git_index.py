"""Commands of git that run unprompted, without a sandbox: what they write to the index."""

import os
import subprocess
from pathlib import Path

import pytest

from turnlog.agent.workspace.shell.git_environment import guard_git


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a file that was touched, and a hook that leaves a mark."""
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init -q .", {})
    (root / "a.txt").write_text("one\n")
    git(root, "add a.txt", {})
    git(root, "-c user.name=a -c user.email=a@localhost commit -qm start", {})
    hook = root / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hook-ran\n")
    hook.chmod(0o755)
    os.utime(root / "a.txt", (1, 1))
    return root


def git(
    root: Path, arguments: str, variables: dict[str, str]
) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", **variables}
    return subprocess.run(
        ["git", *arguments.split()],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "command", ["status --short", "diff", "diff --stat HEAD", "describe --always --dirty"]
)
def test_at_most_times_are_written_and_no_hook_runs(repository: Path, command: str) -> None:
    staged = git(repository, "ls-files --stage", {}).stdout
    before = (repository / ".git" / "index").read_bytes()
    done = git(repository, command, guard_git(f"git {command}", repository, os.environ))
    assert done.returncode == 0
    assert git(repository, "ls-files --stage", {}).stdout == staged
    assert not (repository.parent / "hook-ran").exists()
    if command.startswith("status"):
        assert (repository / ".git" / "index").read_bytes() == before


def test_a_touched_file_is_no_change(repository: Path) -> None:
    variables = guard_git("git diff --quiet", repository, os.environ)
    assert git(repository, "diff --quiet", variables).returncode == 0
