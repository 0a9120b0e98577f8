"""turnlog, installed into an empty environment: the core alone, and with each extra."""

import json
import subprocess
import sys
import tomllib
import venv
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parent.parent
TOOLS = {"pip", "setuptools", "pkg_resources", "_distutils_hack"}
"""What a new environment has by itself."""
CORE_PACKAGES, CORE_SIZE = 20, 30_000_000


def call(*command: str | Path) -> str:
    found = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_the_wheel_runs_in_an_empty_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    call(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel)
    turnlog = environment / "bin" / "turnlog"
    sessions = json.loads(call(turnlog, "--samples", "ls", "--json"))
    assert len(sessions) == 5
    for session in sessions:
        assert call(turnlog, "entries", session["path"])
        assert call(turnlog, "inspect", session["path"])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    question = ("--like", "amounts on bills are a cent off")
    (found,) = json.loads(call(turnlog, "--samples", "search", *question, "-n", "1", "--json"))
    assert found["title"] == "Fix the rounding bug in invoices"
    assert json.loads(call(turnlog, "--samples", "stats", "--json"))["total"]["sessions"] == 5
    plugin = Path(call(turnlog, "plugin", "path").strip())
    assert (plugin / ".claude-plugin" / "plugin.json").is_file()
    assert (plugin / ".mcp.json").is_file()
    # The launcher is executable, and finds the program in PATH.
    monkeypatch.setenv("PATH", f"{turnlog.parent}:/usr/bin:/bin")
    assert call(plugin / "bin" / "turnlog", "--version") == call(turnlog, "--version")
    installed = json.loads(call(python, "-m", "pip", "list", "--format", "json"))
    names = {each["name"] for each in installed} - TOOLS
    assert "pytest" not in names
    assert len(names) <= CORE_PACKAGES
    assert installed_size(environment) < CORE_SIZE


def installed_size(environment: Path) -> int:
    """Return the bytes that packages brought; bytecode comes later, and only if it is used."""
    (packages,) = environment.glob("lib/python3*/site-packages")
    own = [each for each in packages.iterdir() if each.name.partition("-")[0] not in TOOLS]
    files = [file for each in own for file in (each, *each.rglob("*")) if file.is_file()]
    return sum(file.stat().st_size for file in files if file.suffix != ".pyc")


def install(tmp_path: Path, extra: str) -> Path:
    """Install turnlog with an extra into an empty environment; return the program."""
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=True)
    python, wanted = environment / "bin" / "python", f"{ROOT}{extra}"
    call(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wanted)
    return environment / "bin" / "turnlog"


def failure(*command: str | Path) -> str:
    """Return the last line on stderr of a command that fails."""
    found = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert found.returncode != 0
    return found.stderr.splitlines()[-1]


def test_the_core_names_the_extra_that_a_command_needs(tmp_path: Path) -> None:
    turnlog = install(tmp_path, "")
    chat = "turnlog: chat is not installed (try: pip install 'turnlog[chat]')"
    assert failure(turnlog, "chat", "-p", "hi") == chat
    assert failure(turnlog, "chat", "--explain-permission", "ls") == chat
    tracing = "turnlog: tracing is not installed (try: pip install 'turnlog[trace]')"
    assert failure(turnlog, "hook", "install", "--to", "langfuse") == tracing
    sent = failure(turnlog, "--samples", "trace", "last", "--to", "http://127.0.0.1:9")
    assert sent.endswith("is not installed (try: pip install 'turnlog[trace]')")
    call(turnlog, "--samples", "trace", "last", "--to", tmp_path / "t.json")
    assert (tmp_path / "t.json").stat().st_size
    call(turnlog, "--samples", "export", "last", "-o", tmp_path / "x.html")
    assert (tmp_path / "x.html").stat().st_size
    (tmp_path / "password").write_text("secret")
    given = ("--password-file", tmp_path / "password", "-o", tmp_path / "y.html")
    sealed = failure(turnlog, "--samples", "export", "last", *given)
    assert sealed.endswith("is not installed (try: pip install 'turnlog[encryption]')")


def test_the_extra_for_traces_brings_what_sending_needs(tmp_path: Path) -> None:
    turnlog = install(tmp_path, "[trace]")
    refused = failure(turnlog, "--samples", "trace", "last", "--to", "http://127.0.0.1:9")
    assert "is not installed" not in refused


def test_the_extra_for_chat_brings_what_a_chat_needs(tmp_path: Path) -> None:
    turnlog = install(tmp_path, "[chat]")
    assert "allow" in call(turnlog, "chat", "--explain-permission", "ls")
    refused = failure("env", "-u", "ANTHROPIC_API_KEY", turnlog, "chat", "-p", "hi")
    assert "ANTHROPIC_API_KEY" in refused


def test_the_extra_for_lakes_brings_what_reports_need(tmp_path: Path) -> None:
    turnlog, lake = install(tmp_path, "[lake]"), tmp_path / "lake"
    call(turnlog, "--samples", "lake", "push", lake, "-q")
    rows = json.loads(call(turnlog, "stats", "project", "--lake", lake, "--json"))
    assert rows["total"]["sessions"] == 5


def test_the_extra_for_encryption_brings_what_sealing_needs(tmp_path: Path) -> None:
    turnlog = install(tmp_path, "[encryption]")
    (tmp_path / "password").write_text("secret")
    given = ("--password-file", tmp_path / "password", "-o")
    call(turnlog, "--samples", "export", "last", *given, tmp_path / "x.html")
    call(turnlog, "--samples", "bundle", "last", *given, tmp_path / "x.turnlog")
    assert (tmp_path / "x.turnlog").read_bytes().startswith(b"age-encryption.org")


def test_every_pinned_package_runs_on_the_oldest_python_that_turnlog_does() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    oldest = project["requires-python"].removeprefix(">=") + ".0"
    pins = [line.partition("==")[0] for line in (ROOT / "constraints.txt").read_text().split()]
    needed = {name: python for name in pins if (python := python_needed_by(name))}
    assert len(needed) > len(pins) / 2
    assert {name for name, python in needed.items() if oldest not in SpecifierSet(python)} == set()


def python_needed_by(package: str) -> str | None:
    try:
        return distribution(package).metadata["Requires-Python"]
    except PackageNotFoundError:  # of an extra, or of another system
        return None
