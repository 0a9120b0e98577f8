"""Stores for the picker, and a client that only prints its arguments."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.build import COMMON, assistant, session, text, user
from turnlog.store.paths import Store, folder_name

FIRST = "aaaaaaaa-0000-4000-8000-000000000001"
SECOND = "bbbbbbbb-0000-4000-8000-000000000002"
THIRD = "cccccccc-0000-4000-8000-000000000003"
CLIENT = """#!{python}
import os, sys
print("CLIENT", os.getcwd(), *sys.argv[1:], flush=True)
"""

Put = Callable[..., Path]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The directory that the sessions belong to, and that commands run in."""
    folder = tmp_path / "shop"
    # A repository of its own, or the one around the temporary directory would count.
    (folder / ".git").mkdir(parents=True)
    return folder


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program named claude, first in PATH; it prints its directory and its arguments."""
    folder = tmp_path / "programs"
    folder.mkdir()
    program = folder / "claude"
    program.write_text(CLIENT.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return program


@pytest.fixture
def put(store: Store, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Put:
    """Write a session of one turn to the store; everything else is private to the test."""
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)

    def write(id_: str, prompt: str, answer: str = "Done.", cwd: Path | None = None) -> Path:
        place = str(cwd or project)
        lines = session(
            user(prompt, cwd=place),
            assistant(text(answer), cwd=place, message_id=f"msg_{id_}"),
            session_id=id_,
        )
        path = store.projects / folder_name(place) / f"{id_}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lines.replace(COMMON["cwd"].encode(), place.encode()))
        # A file that was just written may be in use: edits refuse it for some seconds.
        os.utime(path, (time.time() - 3600, time.time() - 3600))
        return path

    return write


@pytest.fixture
def turnlog() -> list[str]:
    """The command line of turnlog, without arguments."""
    return [sys.executable, "-P", "-m", "turnlog"]
