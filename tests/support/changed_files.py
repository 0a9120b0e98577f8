"""A session that changes files as it goes, recorded line by line."""

import json
from pathlib import Path
from typing import Any

from support.build import SESSION, assistant, call, result, session, text, user
from turnlog.agent.session.file_history import FileHistory
from turnlog.format.jsonl import append_lines
from turnlog.store.paths import Store

Fields = dict[str, Any]


class Work:
    """Plays the client: prompts, and tools that write files."""

    def __init__(self, store: Store, root: Path) -> None:
        self.store = store
        self.root = root
        self.lines: list[bytes] = []
        self.path = store.project_of(str(root)) / f"{SESSION}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        root.mkdir(parents=True, exist_ok=True)
        self.history = FileHistory(store, self, root)

    @property
    def leaf(self) -> str | None:
        chained = [each for each in map(json.loads, self._whole()) if "uuid" in each]
        return chained[-1]["uuid"] if chained else None

    def aside(self, entry: Fields) -> None:
        self._add(json.dumps(entry).encode() + b"\n")

    def prompt(self, words: str) -> str:
        """Add a prompt of the user; return its uuid."""
        uuid = f"aaaaaaaa-0000-4000-8000-{len(self.lines):012d}"
        self.aside(self.history.snapshot_line(uuid))
        self._add(user(words, uuid=uuid, cwd=str(self.root)))
        return uuid

    def write(self, name: str, content: str) -> Path:
        """A call that writes a file, and its result."""
        path = self.root / name
        call_id = f"toolu_{len(self.lines)}"
        taken = {"file_path": str(path), "content": content}
        self._add(assistant(call("Write", taken, call_id)))
        self.history.before_change(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        self._add(result(call_id))
        return path

    def say(self, words: str) -> None:
        """The model's last words in a turn."""
        self._add(assistant(text(words)))

    def _add(self, line: bytes) -> None:
        self.lines.append(line)
        written = len(self.path.read_bytes().splitlines()) if self.path.exists() else 0
        append_lines(self.path, self._whole()[written:])

    def _whole(self) -> list[bytes]:
        return session(*self.lines).splitlines()
