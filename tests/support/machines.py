"""Machines that sync with each other: each has a home, a store and turnlog's data directory."""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.build import COMMON, SESSION
from turnlog.exchange import Exchanged, ExchangeOptions, sync_with
from turnlog.exchange.local_scan import is_entry
from turnlog.exchange.machine_state import state_folder
from turnlog.store.paths import Store, folder_name


class SyncedMachine:
    """One machine; its methods act as processes on it."""

    def __init__(self, home: Path, dest: str) -> None:
        self.home, self.dest = home, dest
        self.store = Store(home / ".claude")
        self.store.projects.mkdir(parents=True)

    def sync(self, **options: Any) -> Exchanged:
        """Run a sync; files may have been written a moment ago."""
        with self.environment():
            chosen: dict[str, Any] = {"settle": 0, "may_start": True, **options}
            return sync_with(self.store, self.dest, ExchangeOptions(**chosen))

    @contextmanager
    def environment(self) -> Generator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HOME", str(self.home))
            patch.setenv("XDG_DATA_HOME", str(self.home / "data"))
            patch.delenv("TURNLOG_HOME", raising=False)
            yield

    @property
    def state_folder(self) -> Path:
        with self.environment():
            return state_folder(self.dest, self.store.root)

    def path(self, session: str = SESSION, directory: str = COMMON["cwd"]) -> Path:
        """The file of a session."""
        return self.store.projects / folder_name(directory) / f"{session}.jsonl"

    def write(self, content: bytes, session: str = SESSION, **where: str) -> Path:
        path = self.path(session, **where)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def append(self, content: bytes, session: str = SESSION) -> None:
        with self.path(session).open("ab") as file:
            file.write(content)

    def logs(self) -> list[Path]:
        found = [path for path in self.store.root.rglob("*.jsonl") if path.is_file()]
        return sorted(path for path in found if not self._is_staged(path))

    def lines(self) -> set[bytes]:
        """Every whole line of every log; the last one may lack its newline."""
        found = {
            line for path in self.logs() for line in path.read_bytes().splitlines(keepends=True)
        }
        ended = {line + b"\n" for line in found if not line.endswith(b"\n") and is_entry(line)}
        return {line for line in found if line.endswith(b"\n")} | ended

    def snapshot(self) -> dict[str, bytes]:
        """The content of every file by path."""
        return {
            str(path.relative_to(self.store.root)): path.read_bytes()
            for path in sorted(self.store.root.rglob("*"))
            if path.is_file() and not self._is_staged(path)
        }

    def lose_state(self) -> None:
        shutil.rmtree(self.state_folder, ignore_errors=True)

    def _is_staged(self, path: Path) -> bool:
        return any(part.startswith(".turnlog-") for part in path.parts)


def machines(folder: Path, count: int = 3) -> list[SyncedMachine]:
    """Machines with one DEST, a directory."""
    dest = str(folder / "dest")
    return [SyncedMachine(folder / name, dest) for name in "abcdefgh"[:count]]


def all_sync(these: list[SyncedMachine], rounds: int = 1, **options: Any) -> list[Exchanged]:
    return [machine.sync(**options) for _ in range(rounds) for machine in these]


def memory_folder() -> str | None:
    """A folder in memory where there is one: histories write thousands of small files."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
