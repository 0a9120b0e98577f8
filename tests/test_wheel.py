"""The built wheel, installed into an empty environment, runs with the core dependencies alone."""

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
    assert json.loads(call(turnlog, "--samples", "stats", "--json"))["total"]["sessions"] == 5
    installed = json.loads(call(python, "-m", "pip", "list", "--format", "json"))
    assert "pytest" not in {each["name"] for each in installed}


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
