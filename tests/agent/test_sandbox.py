"""Commands in bubblewrap: what they can write, and what they can reach."""

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from turnlog.agent.sandbox import in_sandbox
from turnlog.agent.settings import Sandbox, SandboxFiles, SandboxNetwork
from turnlog.errors import UsageError

ON = Sandbox(enabled=True)
needs_bwrap = pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    for name in ("work/.git/hooks", "work/.claude", "temporary", "other"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path / "work"


def run(work: Path, command: str, options: Sandbox = ON) -> subprocess.CompletedProcess[str]:
    argv = in_sandbox(["sh", "-c", command], options, [work], work.parent / "temporary")
    return subprocess.run(argv, cwd=work, capture_output=True, text=True, check=False)


def test_without_a_word_in_the_settings_a_command_is_left_as_it_is(work: Path) -> None:
    assert in_sandbox(["ls"], Sandbox(), [work], work) == ["ls"]


def test_where_bubblewrap_is_missing_the_settings_say_what_happens(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(work))
    assert in_sandbox(["ls"], ON, [work], work) == ["ls"]
    with pytest.raises(UsageError, match="bwrap is missing"):
        in_sandbox(["ls"], Sandbox(enabled=True, fail_if_unavailable=True), [work], work)


@needs_bwrap
def test_a_command_writes_in_its_directory_and_in_the_temporary_one(work: Path) -> None:
    assert run(work, "echo x > new && echo y > $TMPDIR/new").returncode == 0
    assert (work / "new").read_text() == "x\n"
    assert (work.parent / "temporary" / "new").read_text() == "y\n"


@needs_bwrap
def test_a_command_reads_anything_and_writes_nowhere_else(work: Path) -> None:
    other = work.parent / "other"
    (other / "file").write_text("text")
    assert run(work, f"cat {other}/file").stdout == "text"
    for target in (f"{other}/new", f"{other}/file", "/usr/new", "../new"):
        assert "Read-only file system" in run(work, f"echo x > {target}").stderr
    assert [path.name for path in other.iterdir()] == ["file"]


@needs_bwrap
def test_what_git_runs_and_the_settings_stay_as_they_are(work: Path) -> None:
    for target in (".git/hooks/pre-commit", ".claude/settings.json"):
        assert "Read-only file system" in run(work, f"echo x > {target}").stderr
    assert run(work, "echo x > .git/index").returncode == 0


@needs_bwrap
def test_the_settings_name_further_places_to_write(work: Path) -> None:
    other = work.parent / "other"
    options = Sandbox(enabled=True, filesystem=SandboxFiles([str(other), "/not/there"]))
    assert run(work, f"echo x > {other}/new", options).returncode == 0


@needs_bwrap
def test_the_network_is_out_of_reach_unless_all_of_it_is_allowed(work: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        program = (
            f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
        )
        command = f'{shutil.which("python3")} -c "{program}"'
        some = Sandbox(enabled=True, network=SandboxNetwork(["example.com"]))
        allowed = Sandbox(enabled=True, network=SandboxNetwork(["*"]))
        assert run(work, command).returncode != 0
        assert run(work, command, some).returncode != 0
        assert run(work, command, allowed).returncode == 0


@needs_bwrap
def test_a_command_sees_no_other_process(work: Path) -> None:
    assert run(work, "echo $$").stdout.strip() in ("2", "3")
    assert int(run(work, "ls /proc | grep -c '^[0-9]'").stdout) < 8
