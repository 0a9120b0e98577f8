"""Hosts on which no sandbox works: one clear line, a fallback, and never a weaker retry."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from turnlog.agent.tools.bash import BASH
from turnlog.agent.workspace.access import Basis
from turnlog.agent.workspace.sandbox import bubblewrap
from turnlog.agent.workspace.sandbox.bubblewrap import (
    Enclosure,
    NoSandbox,
    enclose,
    sandbox_notes,
    why_unavailable,
)
from turnlog.agent.workspace.sandbox.patterns import PathPattern
from turnlog.agent.workspace.sandbox.profile import Profile
from turnlog.agent.workspace.sandbox.settings import Confinement
from turnlog.agent.workspace.tool import Grant, ToolError
from turnlog.agent.workspace.workspace import Workspace
from turnlog.errors import UsageError

PROBE = """
import sys
from pathlib import Path
from turnlog.agent.workspace.access import Basis
from turnlog.agent.workspace.sandbox.bubblewrap import NoSandbox, enclose, why_unavailable
from turnlog.agent.workspace.sandbox.profile import Profile
print(why_unavailable())
for basis in (Basis.READ, Basis.WRITE, Basis.RULE):
    try:
        print(len(enclose(Profile(basis, (Path("/usr"),))).argv))
    except NoSandbox:
        print("unavailable")
"""
OUTER = ("bwrap", "--bind", "/", "/", "--dev", "/dev")
HOSTS = {
    "user namespaces": (*OUTER, "--proc", "/proc", "--unshare-user", "--disable-userns"),
    "privileges": (
        *OUTER,
        "--proc",
        "/proc",
        "--cap-drop",
        "ALL",
        "--unshare-user",
        "--disable-userns",
    ),
}


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    why_unavailable.cache_clear()
    yield
    why_unavailable.cache_clear()


@pytest.fixture
def failing(tmp_path: Path) -> Path:
    """A bubblewrap that records how it is called, and fails as the real one does."""
    path = tmp_path / "bin" / "bwrap"
    path.parent.mkdir()
    path.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n'
        'echo "bwrap: Creating new namespace failed: Operation not permitted" >&2\n'
        'echo "more" >&2\nexit 1\n'
    )
    path.chmod(0o755)
    return path


def run(command: str, profile: Profile) -> str:
    place = profile.roots[0]
    workspace = Workspace(place, place.parent / "session", place)

    async def go() -> str:
        value = BASH.read({"command": command})
        grant = Grant(profile.basis, profile=profile)
        return str((await BASH.run(value, workspace, lambda text: None, grant)).content)

    return asyncio.run(go())


@pytest.mark.parametrize("basis", [Basis.READ, Basis.WRITE])
def test_a_command_that_only_a_sandbox_allows_does_not_run_without(
    basis: Basis, failing: Path, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    profile = Profile(basis, (tmp_path / "work",), settings=Confinement(program=str(failing)))
    for _ in range(2):
        with pytest.raises(ToolError, match="cannot start a sandbox here: Creating new namespace"):
            run("touch ran", profile)
    assert not (tmp_path / "work/ran").exists()
    calls = (tmp_path / "calls").read_text().splitlines()
    # One attempt with all that a profile takes away, and no other one with less.
    assert len(calls) == 1
    assert {"--unshare-net", "--unshare-pid", "--cap-drop", "--seccomp"} <= set(calls[0].split())


def test_a_command_that_the_user_confirmed_runs_without(failing: Path, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    settings = Confinement(program=str(failing))
    hidden = (PathPattern(tmp_path / "work", ".env"),)
    for basis in (Basis.USER, Basis.RULE, Basis.BYPASS):
        profile = Profile(basis, (tmp_path / "work",), hidden, settings=settings)
        assert run("echo ran", profile) == "ran"
    required = Confinement(is_on=True, is_required=True, program=str(failing))
    with pytest.raises(NoSandbox):
        enclose(Profile(Basis.USER, (tmp_path / "work",), settings=required))


def test_a_session_is_told_in_one_line_or_does_not_start(failing: Path) -> None:
    (note,) = sandbox_notes(Confinement(program=str(failing)))
    assert note.startswith("commands ask before they run, because ")
    assert note.endswith("Creating new namespace failed: Operation not permitted")
    (note,) = sandbox_notes(Confinement(is_on=True, program=str(failing)))
    assert note.startswith("commands run without a sandbox: ")
    with pytest.raises(UsageError, match="the settings require a sandbox"):
        sandbox_notes(Confinement(is_on=True, is_required=True, program=str(failing)))


def test_a_missing_bubblewrap_is_named_with_how_to_install_it() -> None:
    assert why_unavailable("/not/there/bwrap") == (
        "/not/there/bwrap is not installed (try: apt install bubblewrap)"
    )


def test_a_bubblewrap_that_hangs_does_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bubblewrap, "MAX_SECONDS", 0.2)
    slow = tmp_path / "bwrap"
    slow.write_text("#!/bin/sh\nexec sleep 9\n")
    slow.chmod(0o755)
    assert "timed out" in why_unavailable(str(slow))


def test_an_unknown_processor_has_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    known = os.uname()
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((*known[:4], "riscv64")))
    assert why_unavailable() == "the sandbox does not support riscv64 processors"


@pytest.mark.needs_bwrap
@pytest.mark.parametrize("missing", HOSTS)
def test_a_container_without_namespaces_has_no_sandbox(missing: str) -> None:
    done = subprocess.run(
        [*HOSTS[missing], "--", sys.executable, "-c", PROBE],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.stderr.startswith("bwrap: "):
        pytest.skip(done.stderr)
    why, *enclosures = done.stdout.splitlines()
    assert "cannot start a sandbox here: " in why, done.stderr
    assert enclosures == ["unavailable", "unavailable", "0"]


@pytest.mark.needs_bwrap
def test_no_program_of_the_project_is_started_as_bubblewrap_or_git(
    tmp_path: Path, failing: Path
) -> None:
    project = tmp_path
    (tmp_path / "bin/git").write_text(failing.read_text())
    (tmp_path / "bin/git").chmod(0o755)
    for place in (project, project / "nested"):
        subprocess.run(["git", "init", "-q", str(place)], check=True)
    (project / "nested/.env").write_text("x")
    program = (
        f"{PROBE}\nfrom turnlog.agent.workspace.sandbox.patterns import PathPattern\n"
        "p = Path.cwd(); e = enclose(Profile(Basis.WRITE, (p,), (PathPattern(p, '.env'),)))\n"
        "print(e.argv[0])"
    )
    variables = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=project,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not (tmp_path / "calls").exists(), (tmp_path / "calls").read_text()
    assert done.stdout.splitlines()[-1] not in ("bwrap", str(failing)), done.stderr


def test_on_a_mac_the_profile_is_a_text_for_sandbox_exec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text is checked for what it must say; it was never run on a Mac."""
    monkeypatch.setattr(sys, "platform", "darwin")
    assert why_unavailable() == "sandbox-exec is missing"
    with pytest.raises(NoSandbox):
        enclose(Profile(Basis.READ, (tmp_path,)))
    why_unavailable.cache_clear()
    monkeypatch.setattr(os, "access", _always)
    for name in (".env", ".mcp.json", 'odd "name")'):
        (tmp_path / name).write_text("x")
    hidden = (PathPattern(tmp_path, ".env"), PathPattern(tmp_path, "odd*"))
    text = _profile(enclose(Profile(Basis.WRITE, (tmp_path,), hidden)))
    lines = text.splitlines()
    assert lines[:2] == ["(version 1)", "(deny default)"]
    assert "(allow network*)" not in lines
    writable = lines.index(f"(allow file-write* (subpath {tmp_path}))")
    for path in (".env", 'odd "name")'):
        assert lines.index(f"(deny file-read* file-write* (subpath {tmp_path}/{path}))") > writable
    assert lines.index(f"(deny file-write* (subpath {tmp_path}/.mcp.json))") > writable
    for path in (tmp_path / ".env", tmp_path, tmp_path.parent):
        assert f"(deny file-write-unlink (literal {path}))" in lines
    read = _profile(enclose(Profile(Basis.READ, (tmp_path,))))
    assert f"(allow file-write* (subpath {tmp_path}))" not in read
    assert read.count("(allow file-write*") == 2
    ruled = _profile(enclose(Profile(Basis.RULE, (tmp_path,))))
    assert "(allow network*)" in ruled
    opened = _profile(enclose(Profile(Basis.USER, (tmp_path,), hidden)))
    assert "(allow file-write*)" in opened.splitlines()
    assert enclose(Profile(Basis.USER, (tmp_path,))) == Enclosure()


def _always(path: object, mode: int) -> bool:
    return True


def _profile(enclosure: Enclosure) -> str:
    """Return the text of a profile, with each parameter replaced by its value."""
    program, option, text, *rest = enclosure.argv
    assert (program, option, rest[-1]) == ("/usr/bin/sandbox-exec", "-p", "--")
    assert text.count("(") == text.count(")")
    values = dict(value.split("=", 1) for value in rest[1:-1:2])
    return re.sub(r'\(param "(P\d+)"\)', lambda found: values[found[1]], text)
