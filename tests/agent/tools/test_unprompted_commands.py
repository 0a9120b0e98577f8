"""Commands that run unprompted: what they can see and change."""

import os
import shutil
import socket
from pathlib import Path

import pytest
from msgspec.structs import replace

from support.tool_calls import Calls
from turnlog.agent.workspace.access import Basis
from turnlog.agent.workspace.shell.command_environment import environment_of, search_path
from turnlog.agent.workspace.tool import Grant

UNDERSTOOD, EDITS, RULE = map(Grant, (Basis.UNDERSTOOD, Basis.EDITS, Basis.RULE))
HARMFUL = {
    "BASH_ENV": "evil.sh",
    "ENV": "evil.sh",
    "CDPATH": "/",
    "PROMPT_COMMAND": "./evil",
    "GREP_OPTIONS": "-r",
    "LESSOPEN": "|./evil %s",
    "SHELLOPTS": "xtrace",
    "BASH_FUNC_ls%%": "() { ./evil; }",
    "GLOBIGNORE": "*",
    "PS4": "$(./evil)",
}
LOADING = {
    "LD_PRELOAD": "./evil.so",
    "GCONV_PATH": ".",
    "NODE_OPTIONS": "--require ./evil.js",
    "PYTHONSTARTUP": "evil.py",
    "PERL5OPT": "-Mevil",
    "RUBYOPT": "-revil",
    "RIPGREP_CONFIG_PATH": "evil.rc",
    "GIT_EXTERNAL_DIFF": "./evil",
    "GIT_SSH_COMMAND": "./evil",
    "PAGER": "./evil",
}
SECRETS = {"ANTHROPIC_API_KEY": "not-a-key", "AWS_SECRET_ACCESS_KEY": "not-a-key"}


@pytest.fixture
def bare(calls: Calls) -> Calls:
    """Calls whose commands run without a sandbox."""
    calls.workspace.confinement = replace(calls.workspace.confinement, program="/not/there")
    return calls


def printed(calls: Calls, grant: Grant, command: str) -> str:
    return str(calls.run_by(grant, "Bash", command=command).content)


def test_a_command_that_only_reads_sees_nothing_but_basic_variables(
    bare: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (HARMFUL | LOADING | SECRETS | {"ANYTHING": "x"}).items():
        monkeypatch.setenv(name, value)
    told = printed(bare, UNDERSTOOD, "env")
    seen = {line.partition("=")[0] for line in told.splitlines()}
    assert not seen & {*HARMFUL, *SECRETS, "ANYTHING", "LD_PRELOAD", "GCONV_PATH"}
    assert "evil" not in told
    assert {"HOME", "PATH", "CLAUDECODE"} <= seen


def test_a_command_that_a_rule_allows_keeps_the_users_variables(
    bare: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (HARMFUL | LOADING | SECRETS).items():
        monkeypatch.setenv(name, value)
    seen = printed(bare, RULE, "env")
    assert "ANTHROPIC_API_KEY=not-a-key" in seen
    assert not [name for name in HARMFUL if f"\n{name}=" in f"\n{seen}"]
    # Set after startup, so by a settings file: no project may load code into `npm test`.
    assert not [name for name in LOADING if f"\n{name}=" in f"\n{seen}"]


def test_variables_that_load_code_count_as_the_users_shell_set_them(tmp_path: Path) -> None:
    startup = {"NODE_OPTIONS": "--max-old-space-size=8192", "PATH": "/usr/bin"}
    kept = environment_of(Basis.RULE, {}, [tmp_path], startup)
    assert kept["NODE_OPTIONS"] == "--max-old-space-size=8192"
    assert "NODE_OPTIONS" not in environment_of(Basis.UNDERSTOOD, {}, [tmp_path], startup)
    hooked = environment_of(Basis.RULE, {"NODE_OPTIONS": "--inspect"}, [tmp_path], startup)
    assert hooked["NODE_OPTIONS"] == "--inspect"


def test_a_command_that_the_user_confirmed_sees_everything(
    bare: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LESSOPEN", "|own %s")
    assert bare.text("Bash", command="echo $LESSOPEN") == "|own %s"


def test_the_path_has_no_relative_entries_and_none_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "project")
    path = f":/usr/bin:bin::.:./x:{tmp_path}/project/bin:{tmp_path}/link/bin:/bin:"
    assert search_path([tmp_path / "project"], {"PATH": path}) == "/usr/bin:/bin"


def test_programs_of_the_project_are_not_found_on_the_path(
    bare: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ls", "bash", "bwrap", "git"):
        bare.file(f"bin/{name}", "#!/bin/sh\necho EVIL\n").chmod(0o755)
    for path in (f"{bare.root}/bin:{os.environ['PATH']}", f"bin:{os.environ['PATH']}"):
        monkeypatch.setenv("PATH", path)
        for grant in (UNDERSTOOD, EDITS, RULE):
            assert "EVIL" not in printed(bare, grant, "ls; git --version")


@pytest.mark.parametrize(
    "command",
    [
        "printf 'aaa%n' PATH; ls",
        "echo ${CDPATH:=/}; cd etc; pwd",
        "PATH=3; ls",
        "read -r PATH <<< 3; ls",
        "for PATH in 3; do ls; done",
        "declare -n x=PATH; x=3; ls",
        "EXECIGNORE=*; ls",
    ],
)
def test_a_command_cannot_change_where_programs_are_looked_for(bare: Calls, command: str) -> None:
    bare.file("3/ls", "#!/bin/sh\necho EVIL\n").chmod(0o755)
    told = printed(bare, UNDERSTOOD, command)
    assert "EVIL" not in told
    assert "/etc" not in told


def test_functions_and_startup_files_of_the_environment_do_not_count(
    bare: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare.file("evil.sh", "echo EVIL\n")
    monkeypatch.setenv("BASH_ENV", str(bare.root / "evil.sh"))
    monkeypatch.setenv("BASH_FUNC_ls%%", "() { echo EVIL; }")
    assert "EVIL" in bare.text("Bash", command="ls")
    for grant in (UNDERSTOOD, EDITS, RULE):
        assert "EVIL" not in printed(bare, grant, "ls; pwd")


def test_the_directory_is_kept_from_one_confined_command_to_the_next(calls: Calls) -> None:
    calls.file("sub/x", "")
    assert printed(calls, UNDERSTOOD, "cd sub && pwd").endswith("/sub")
    assert calls.workspace.cwd == calls.root / "sub"
    assert printed(calls, UNDERSTOOD, "ls; exit 3") == "Exit code 3\nx"


@pytest.mark.needs_bwrap
class TestReadOnly:
    """In bubblewrap."""

    def test_a_command_that_only_reads_can_write_nowhere(
        self, calls: Calls, tmp_path: Path
    ) -> None:
        calls.file("kept", "kept")
        for target in ("new", "kept", f"{tmp_path}/new", "/tmp/turnlog-new", "/var/tmp/new"):
            assert "Read-only file system" in printed(calls, UNDERSTOOD, f"echo x > {target}")
        assert printed(calls, UNDERSTOOD, "cat kept; echo x > /dev/null") == "kept"

    def test_a_command_that_edits_can_write_only_in_the_working_directories(
        self, calls: Calls, tmp_path: Path
    ) -> None:
        more = tmp_path / "more"
        more.mkdir()
        calls.workspace.directories.append(more)
        assert printed(calls, EDITS, f"echo x > new; mkdir a; echo y > {more}/new") == ""
        assert (calls.root / "new").read_text() == "x\n"
        assert (more / "new").read_text() == "y\n"
        for target in (tmp_path / "new", "/tmp/turnlog-new", Path.home() / "new"):
            assert "Read-only file system" in printed(calls, EDITS, f"echo x > {target}")

    def test_what_only_a_rule_allows_is_not_confined(self, calls: Calls, tmp_path: Path) -> None:
        printed(calls, RULE, f"echo x > {tmp_path}/new")
        assert (tmp_path / "new").exists()

    @pytest.mark.parametrize("grant", [UNDERSTOOD, EDITS])
    def test_confined_commands_have_no_network_and_see_no_other_process(
        self, calls: Calls, grant: Grant
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = f"/dev/tcp/127.0.0.1/{server.getsockname()[1]}"
            assert "refused" in printed(calls, grant, f"echo x > {address}")
            assert calls.text("Bash", command=f"echo x > {address}") == ""
        assert f"/proc/{os.getpid()}" not in printed(calls, grant, "ls -d /proc/[0-9]*")

    def test_root_cannot_make_the_file_system_writable_again(self, calls: Calls) -> None:
        mount = shutil.which("mount")
        for grant in (UNDERSTOOD, EDITS):
            assert calls.run_by(grant, "Bash", command=f"{mount} -o remount,rw,bind /").is_error

    def test_here_documents_and_large_sorts_have_room_for_temporary_files(
        self, calls: Calls
    ) -> None:
        calls.file("many", "".join(f"{number}\n" for number in range(50_000)))
        text = "x" * 100_000
        assert printed(calls, UNDERSTOOD, f"wc -c <<'EOF'\n{text}\nEOF") == "100001"
        assert printed(calls, UNDERSTOOD, "sort -S 64k -n many | tail -n 1") == "49999"

    def test_a_long_output_of_a_confined_command_is_kept(self, calls: Calls) -> None:
        assert "persisted-output" in printed(calls, UNDERSTOOD, "seq 100000")

    def test_the_settings_sandbox_and_the_basis_count_together(
        self, calls: Calls, tmp_path: Path
    ) -> None:
        hidden = calls.file("hidden", "SECRET")
        other = tmp_path / "other"
        other.mkdir()
        calls.workspace.confinement = replace(
            calls.workspace.confinement,
            is_on=True,
            is_online=True,
            hidden=(str(hidden),),
            writable=(str(other),),
        )
        assert "SECRET" not in printed(calls, UNDERSTOOD, "cat hidden")
        for grant in (UNDERSTOOD, EDITS):
            assert "Read-only file system" in printed(calls, grant, f"echo x > {other}/new")
        assert "Read-only file system" in printed(calls, UNDERSTOOD, "echo x > new")
        assert printed(calls, EDITS, "echo x > new") == ""
        assert calls.text("Bash", command=f"echo x > {other}/new") == ""

    def test_a_command_that_takes_too_long_is_stopped_with_its_children(self, calls: Calls) -> None:
        outcome = calls.run_by(UNDERSTOOD, "Bash", command="sleep 61 | cat", timeout=300)
        assert "timed out" in str(outcome.content)


def test_a_sandbox_that_fails_to_start_is_told_and_the_command_runs_once(calls: Calls) -> None:
    program = calls.root.parent / "bwrap"
    program.write_text(
        "#!/bin/sh\nfor each; do :; done\n"
        '[ "${each}" = : ] && exit 0\necho "bwrap: no namespaces today" >&2; exit 1\n'
    )
    program.chmod(0o755)
    calls.workspace.confinement = replace(calls.workspace.confinement, program=str(program))
    told = printed(calls, EDITS, "echo ran >> log; cat log")
    assert told.startswith("ran\n")
    assert "ran without a sandbox, which failed to start: bwrap: no namespaces today" in told
    assert (calls.root / "log").read_text() == "ran\n"
    slow = calls.run_by(EDITS, "Bash", command="sleep 61", timeout=300)
    assert "timed out" in str(slow.content)


def test_a_command_that_fails_in_the_sandbox_is_not_run_again(calls: Calls) -> None:
    program = calls.root.parent / "bwrap"
    program.write_text('#!/bin/sh\nuntil [ "$1" = -- ]; do shift; done\nshift; exec "$@"\n')
    program.chmod(0o755)
    calls.workspace.confinement = replace(calls.workspace.confinement, program=str(program))
    printed(calls, EDITS, "echo ran >> log; echo 'bwrap: no'; exit 1")
    assert (calls.root / "log").read_text() == "ran\n"


def test_a_sandbox_that_does_not_work_here_is_not_used(calls: Calls) -> None:
    program = calls.root.parent / "bwrap"
    program.write_text('#!/bin/sh\necho "bwrap: not permitted" >&2; exit 1\n')
    program.chmod(0o755)
    calls.workspace.confinement = replace(calls.workspace.confinement, program=str(program))
    assert printed(calls, UNDERSTOOD, "echo x") == "x"
