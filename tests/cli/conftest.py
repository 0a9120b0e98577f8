"""The command line run in this process, on a store of its own."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from support.build import SESSION, assistant, session, text, user
from turnlog.cli.main import run

LONG_AGO = (0, 1_700_000_000)
"""Times of a file that no client is writing to."""


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
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty directory outside of the store."""
    return tmp_path_factory.mktemp("outside")


@pytest.fixture
def conversation(project: Path) -> Path:
    """A session of two prompts, the last of which has no answer."""
    path = project / f"{SESSION}.jsonl"
    path.write_bytes(session(user("hello"), assistant(text("hi")), user("bye")))
    os.utime(path, LONG_AGO)
    return path


@pytest.fixture
def turnlog(project: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> Outcome:
        capfd.readouterr()
        code = run(list(arguments))
        printed = capfd.readouterr()
        return Outcome(code, printed.out, printed.err)

    return call
