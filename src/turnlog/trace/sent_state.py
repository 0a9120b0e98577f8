"""Record which spans were sent, so that none is sent twice: one file per conversation and target.

Losing a file is harmless: the spans are sent again under the same ids.
"""

import json
import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from turnlog.errors import Conflict
from turnlog.format.atomic import write_atomic
from turnlog.format.json_values import is_array
from turnlog.format.locks import lock
from turnlog.format.private_files import secure_folder
from turnlog.format.regular_files import read_object


class SentState:
    """The spans of a conversation that a target accepted or refused; locked while it is open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        stored = read_object(path)
        self.sent = set(_ids(stored, "sent"))
        self.refused = set(_ids(stored, "refused"))
        """Ids of spans that the target would refuse again."""

    def add(self, ids: Iterable[str], refused: Iterable[str] = ()) -> None:
        """Record spans that a target accepted or permanently refused."""
        self.sent.update(ids)
        # A span refused before may have been accepted after a retry.
        self.refused = self.refused.union(refused) - self.sent
        self._save()

    def forget_refusals(self) -> None:
        """Forget refused spans, so that they are sent again."""
        self.refused.clear()
        self._save()

    def _save(self) -> None:
        document = {"sent": sorted(self.sent)}
        if self.refused:
            document["refused"] = sorted(self.refused)
        write_json(self.path, document)


@contextmanager
def open_state(folder: Path, target: str, name: str, wait: bool = True) -> Generator[SentState]:
    """Open and lock the state of a conversation; without `wait`, raise `Conflict` if it is locked.

    `name` is the id of the conversation's first trace, so that forks and resumed copies share the
    state.
    """
    path = folder / target / f"{name}.json"
    secure_folder(path.parent, must_own=True)
    # A separate lock file: the state itself is replaced by each atomic write, and a lock on the old
    # inode would protect nothing.
    descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(descriptor, path, wait)
        yield SentState(path)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path, wait: bool) -> None:
    try:
        lock(descriptor, wait=wait)
    except BlockingIOError as error:
        raise Conflict(f"{path} is in use by another turnlog", "turnlog hook status") from error


def now_text() -> str:
    """Return the current time as ISO 8601 text in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically."""
    write_atomic(path, json.dumps(value).encode())


def _ids(stored: dict[str, Any], name: str) -> list[str]:
    ids = stored.get(name)
    return [name for name in ids if isinstance(name, str)] if is_array(ids) else []
