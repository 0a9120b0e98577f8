"""What was sent, so that it is not sent again: one small file for each conversation and target.

A lost state does no harm: the same spans are made again, under the same ids.
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


class State:
    """The spans of a conversation that a target has; to be changed only under its lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        held = read_object(path)
        self.sent = set(_ids(held, "sent"))
        self.refused = set(_ids(held, "refused"))
        """Spans that the target would refuse again."""

    def add(self, ids: Iterable[str], refused: Iterable[str] = ()) -> None:
        """Remember spans that a target has taken, or refused for good."""
        self.sent.update(ids)
        self.refused = self.refused.union(refused) - self.sent
        self._save()

    def forgive(self) -> None:
        """Forget what was refused, so that it is tried again."""
        self.refused.clear()
        self._save()

    def _save(self) -> None:
        held = {"sent": sorted(self.sent)}
        if self.refused:
            held["refused"] = sorted(self.refused)
        write_json(self.path, held)


@contextmanager
def open_state(folder: Path, target: str, name: str, wait: bool = True) -> Generator[State]:
    """The state of a conversation, locked; without `wait`, one that is locked is a `Conflict`.

    It is named by the conversation's first trace, so that a fork or a resumed copy shares it.
    """
    path = folder / target / f"{name}.json"
    secure_folder(path.parent, must_own=True)
    descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(descriptor, path, wait)
        yield State(path)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path, wait: bool) -> None:
    try:
        lock(descriptor, wait=wait)
    except BlockingIOError as error:
        raise Conflict(f"{path} is in use by another turnlog", "try again in a while") from error


def now_text() -> str:
    """Return the current time as turnlog's own files contain it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def write_json(path: Path, value: Any) -> None:
    """Write a small file so that a crash leaves the old one or the new one."""
    write_atomic(path, json.dumps(value).encode())


def _ids(held: dict[str, Any], name: str) -> list[str]:
    ids = held.get(name)
    return [each for each in ids if isinstance(each, str)] if is_array(ids) else []
