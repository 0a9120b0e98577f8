"""Commands in bubblewrap: what they can write and reach."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from support.tool_calls import Calls
from turnlog.agent.sandbox.seccomp import filtered
from turnlog.agent.workspace.access import Basis
from turnlog.agent.workspace.shell.bubblewrap import sandbox_notes, wrapper_of
from turnlog.agent.workspace.shell.sandbox_settings import Confinement
from turnlog.errors import UsageError

GONE = "/not/there/bwrap"
ON = Confinement(is_on=True)
HOSTS = Confinement(is_on=True, filters_hosts=True)


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    return Calls(tmp_path)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    for name in ("work/.git/hooks", "work/.claude", "temporary", "other"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path / "work"


def run(
    work: Path, command: str, options: Confinement = ON, basis: Basis = Basis.USER
) -> subprocess.CompletedProcess[str]:
    wrapper = wrapper_of(basis, options, [work], work.parent / "temporary")
    with filtered(wrapper) as (whole, filters):
        return subprocess.run(
            [*whole, "sh", "-c", command],
            cwd=work,
            capture_output=True,
            text=True,
            check=False,
            pass_fds=filters,
        )


def test_without_a_word_in_the_settings_a_command_is_left_as_it_is(work: Path) -> None:
    assert wrapper_of(Basis.USER, Confinement(), [work], work) == ()


def test_where_bubblewrap_is_missing_commands_run_without_it_and_that_is_told(work: Path) -> None:
    options = replace(ON, program=GONE)
    assert wrapper_of(Basis.USER, options, [work], work) == ()
    (note,) = sandbox_notes(options)
    assert "bwrap is not installed: commands run without one" in note


@pytest.mark.parametrize(
    "options",
    [
        Confinement(is_on=True, filters_hosts=True),
        Confinement(is_on=True, hidden=("/secret",)),
        Confinement(is_on=True, unwritable=("/kept",)),
        Confinement(is_on=True, variables=("TOKEN",)),
    ],
)
def test_where_bubblewrap_is_missing_nothing_runs_that_it_was_to_guard_against(
    work: Path, options: Confinement
) -> None:
    options = replace(options, program=GONE)
    with pytest.raises(UsageError, match="bwrap is not installed"):
        wrapper_of(Basis.USER, options, [work], work)
    assert any("no command is run" in note for note in sandbox_notes(options))


def test_a_sandbox_that_is_required_and_missing_is_an_error_from_the_start(
    work: Path,
) -> None:
    required = Confinement(is_on=True, is_required=True, program=GONE)
    with pytest.raises(UsageError, match="bwrap is not installed"):
        sandbox_notes(required)
    with pytest.raises(UsageError, match="bwrap is not installed"):
        wrapper_of(Basis.USER, required, [], work)


def test_hosts_that_cannot_be_told_apart_are_told_of() -> None:
    assert any("no network access" in note for note in sandbox_notes(HOSTS))
    assert sandbox_notes(Confinement(filters_hosts=True)) == []


@pytest.mark.needs_bwrap
def test_a_command_writes_in_its_directory_and_in_the_temporary_one(work: Path) -> None:
    assert run(work, "echo x > new && echo y > $TMPDIR/new").returncode == 0
    assert (work / "new").read_text() == "x\n"
    assert (work.parent / "temporary" / "new").read_text() == "y\n"


@pytest.mark.needs_bwrap
def test_a_command_reads_anything_and_writes_nowhere_else(work: Path) -> None:
    other = work.parent / "other"
    (other / "file").write_text("text")
    assert run(work, f"cat {other}/file").stdout == "text"
    for target in (f"{other}/new", f"{other}/file", "/usr/new", "../new"):
        assert "Read-only file system" in run(work, f"echo x > {target}").stderr
    assert [path.name for path in other.iterdir()] == ["file"]


@pytest.mark.needs_bwrap
def test_what_git_runs_and_the_settings_stay_as_they_are(work: Path) -> None:
    for target in (".git/hooks/pre-commit", ".claude/settings.json"):
        assert "Read-only file system" in run(work, f"echo x > {target}").stderr
    assert run(work, "echo x > .git/index").returncode == 0


@pytest.mark.needs_bwrap
@pytest.mark.parametrize("basis", [Basis.USER, Basis.EDITS])
def test_a_repository_cannot_be_replaced_by_another(work: Path, basis: Basis) -> None:
    """The hooks of `evil` would run with the user's next commit, outside of the sandbox."""
    (work / "evil" / "hooks").mkdir(parents=True)
    done = run(work, "mv .git old && mv evil .git", basis=basis)
    assert (done.returncode, (work / "old").exists()) == (1, False)
    assert "busy" in done.stderr


def test_a_linked_work_tree_cannot_be_led_to_another_repository(work: Path) -> None:
    (work / ".git" / "hooks").rmdir()
    (work / ".git").rmdir()
    (work / ".git").write_text("gitdir: ../main/.git/worktrees/work\n")
    for command in ("echo 'gitdir: evil' > .git", "rm .git", "mv .git old"):
        assert run(work, command).returncode != 0
    assert (work / ".git").read_text() == "gitdir: ../main/.git/worktrees/work\n"


def test_the_settings_name_further_places_to_write(work: Path) -> None:
    other = work.parent / "other"
    options = Confinement(is_on=True, writable=(str(other), "/not/there"))
    assert run(work, f"echo x > {other}/new", options).returncode == 0


@pytest.mark.needs_bwrap
def test_the_network_is_out_of_reach_unless_all_of_it_is_allowed(work: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        program = (
            f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
        )
        command = f'{shutil.which("python3")} -c "{program}"'
        allowed = Confinement(is_on=True, is_online=True)
        assert run(work, command).returncode != 0
        assert run(work, command, HOSTS).returncode != 0
        assert run(work, command, allowed).returncode == 0


@pytest.mark.needs_bwrap
def test_a_command_sees_no_other_process(work: Path) -> None:
    assert run(work, "echo $$").stdout.strip() in ("2", "3")
    assert int(run(work, "ls /proc | grep -c '^[0-9]'").stdout) < 8


@pytest.mark.needs_bwrap
def test_what_is_hidden_cannot_be_read(work: Path) -> None:
    other = work.parent / "other"
    (other / "key").write_text("SECRET")
    (work / ".env").write_text("SECRET")
    (work / "link").symlink_to(other / "key")
    options = Confinement(is_on=True, hidden=(str(other), str(work / ".env")))
    done = run(work, f"cat .env link {other}/key; ls -a {other}; touch {other}/new", options)
    assert "SECRET" not in done.stdout
    assert "Read-only file system" in done.stderr
    assert run(work, f"cat {work}/.env", options).stdout == ""
    assert (work / ".env").read_text() == "SECRET"


@pytest.mark.needs_bwrap
def test_of_what_is_hidden_some_can_be_shown_and_of_that_some_be_hidden(work: Path) -> None:
    (work / "code").write_text("CODE")
    (work / ".env").write_text("SECRET")
    (work.parent / "other" / "key").write_text("SECRET")
    hidden = (str(work.parent), str(work.parent / "**" / ".env"))
    closed = Confinement(is_on=True, hidden=hidden)
    assert run(work, f"cat {work}/code", closed).stdout == ""
    opened = Confinement(is_on=True, hidden=hidden, shown=(str(work),))
    command = f"cat {work}/code {work}/.env {work.parent}/other/key; echo new > {work}/new"
    assert run(work, command, opened).stdout == "CODE"
    assert (work / "new").read_text() == "new\n"
    assert "Read-only file system" in run(work, f"echo x > {work}/.claude/x", opened).stderr


@pytest.mark.needs_bwrap
@pytest.mark.parametrize("path", ["work/locked", "work/lock*", "work", ""])
def test_what_is_locked_cannot_be_written(work: Path, path: str) -> None:
    (work / "locked").mkdir()
    options = Confinement(is_on=True, unwritable=(str(work.parent / path),))
    assert "Read-only file system" in run(work, "echo x > locked/new", options).stderr
    is_free = path.startswith("work/")
    assert (run(work, "echo x > new", options).returncode == 0) == is_free


@pytest.mark.needs_bwrap
@pytest.mark.parametrize("environment", ["env", "tr '\\0' '\\n' < /proc/1/environ"])
def test_variables_can_be_taken_away(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, environment: str
) -> None:
    """Process 1 in the sandbox is bubblewrap itself."""
    monkeypatch.setenv("SHOP_TOKEN", "SECRET")
    command = f"{environment} | grep -a ^SHOP_TOKEN || echo none"
    calls.workspace.confinement = ON
    assert calls.text("Bash", command=command) == "SHOP_TOKEN=SECRET"
    calls.workspace.confinement = replace(ON, variables=("SHOP_TOKEN", "A=B", ""))
    assert calls.text("Bash", command=command) == "none"


@pytest.mark.needs_bwrap
@pytest.mark.parametrize("basis", list(Basis))
def test_settings_of_the_kernel_stay_as_they_are(work: Path, basis: Basis) -> None:
    """Root owns them, and needs no capability to write them."""
    path = "/proc/sys/kernel/core_pattern"
    done = run(work, f"cat {path} && cat {path} > {path}", basis=basis)
    assert done.returncode != 0
    assert "Read-only file system" in done.stderr or os.geteuid()


@pytest.mark.needs_bwrap
def test_a_command_reaches_no_socket_of_another_process(calls: Calls) -> None:
    path = str(calls.root / "socket")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        program = f"import socket; socket.socket(socket.AF_UNIX).connect('{path}')"
        command = f'python3 -c "{program}"'
        assert not calls.run("Bash", command=command).is_error
        calls.workspace.confinement = ON
        assert "Operation not permitted" in str(calls.run("Bash", command=command).content)
