"""The command line run in this process, on a store of its own."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from turnlog.cli.main import run


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


class Run(Protocol):
    def __call__(self, *arguments: str) -> Outcome: ...


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of one project in an empty store, which the command line uses."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TZ", "UTC")
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "projects" / "-home-ada-shop"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def turnlog(project: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> Outcome:
        capfd.readouterr()
        code = run(list(arguments))
        printed = capfd.readouterr()
        return Outcome(code, printed.out, printed.err)

    return call
