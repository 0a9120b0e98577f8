"""Machines that push to a lake: each has a home, a store and turnlog's data directory."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.build import COMMON, SESSION, assistant, call, result, session, text, user
from turnlog.lake.lake_push import Pushed, PushOptions, push
from turnlog.lake.lake_schema import pyarrow
from turnlog.lake.lake_settings import LakeSettings
from turnlog.lake.lake_storage import open_storage
from turnlog.lake.live_units import all_winners, live_parts
from turnlog.store.paths import Store, folder_name

KEY = b"0123456789abcdef-the-key-of-a-team"

Totals = dict[str, int | float]


class PushingMachine:
    """One machine; its methods act as processes on it."""

    def __init__(self, home: Path, dest: str, **settings: Any) -> None:
        self.home, self.dest = home, dest
        self.store = Store(home / ".claude")
        self.store.projects.mkdir(parents=True)
        key = home / "team.key"
        key.write_bytes(KEY)
        self.settings = replace(
            LakeSettings(key=key, user=home.name, host=f"host-of-{home.name}"), **settings
        )

    def push(self, settings: LakeSettings | None = None, **options: Any) -> Pushed:
        """Push in this process."""
        with self.environment():
            chosen = settings or self.settings
            return push(self.store, self.dest, chosen, PushOptions(**options))

    @property
    def variables(self) -> dict[str, str]:
        """The environment of this machine."""
        return {
            "HOME": str(self.home),
            "XDG_DATA_HOME": str(self.home / "data"),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
        }

    @contextmanager
    def environment(self) -> Generator[None]:
        """Act as a process on this machine."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.variables.items():
                patch.setenv(name, value)
            patch.delenv("TURNLOG_HOME", raising=False)
            patch.delenv("CLAUDE_CONFIG_DIR", raising=False)
            yield

    def path(self, session: str = SESSION) -> Path:
        """The file of a session."""
        return self.store.projects / folder_name(COMMON["cwd"]) / f"{session}.jsonl"

    def write(self, content: bytes, session: str = SESSION) -> Path:
        """Create or replace the file of a session."""
        path = self.path(session)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def append(self, content: bytes, session: str = SESSION) -> None:
        """Let a session grow."""
        with self.path(session).open("ab") as file:
            file.write(content)


def numbered_turn(number: int) -> bytes:
    """A turn with one call; another number is another turn."""
    return session(
        user(f"Prompt {number}", uuid=f"prompt-{number}"),
        assistant(call("Bash", {"command": "ls"}, f"toolu_{number}"), message_id=f"msg_{number}"),
        result(f"toolu_{number}"),
        assistant(text("Done"), message_id=f"msg_{number}b"),
    )


def live_rows(dest: str, table: str) -> list[dict[str, Any]]:
    """Return the live rows of a table, by the rule that the documentation states."""
    storage = open_storage(dest)
    winners = all_winners(storage)
    found: list[dict[str, Any]] = []
    for path, units in live_parts(winners.values()).get(table, {}).items():
        content = storage.read(path)
        rows = pyarrow("parquet").read_table(pyarrow().BufferReader(content)).to_pylist()
        writes = {(unit.file, unit.day): unit.write_id for unit in units}
        found += (row for row in rows if writes.get((row["file"], row["day"])) == row["write_id"])
    return found


def lake_totals(dest: str) -> Totals:
    """Return tokens, cost, messages, turns and calls of a lake, each thing counted once."""
    messages: dict[tuple[str, str | None], dict[str, Any]] = {}
    for row in live_rows(dest, "messages"):
        key = row["key"], row["request"]
        best = messages.setdefault(key, row)
        if row["output"] > best["output"]:
            messages[key] = row
    costs = [row["cost"] for row in messages.values() if row["cost"] is not None]
    return {
        "messages": len(messages),
        "input": sum(row["input"] for row in messages.values()),
        "output": sum(row["output"] for row in messages.values()),
        "cost": float(sum(costs)) / 1e6,
        "turns": len({row["key"] for row in live_rows(dest, "turns")}),
        "calls": len({row["key"] for row in live_rows(dest, "calls")}),
        "sessions": len({row["session"] for row in live_rows(dest, "sessions")}),
    }
