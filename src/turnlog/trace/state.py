"""What was sent, so that it is not sent again: one small file for each conversation and target.

A lost state does no harm: the same spans are made again, under the same ids.
"""

import fcntl
import json
import os
import tempfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from turnlog.errors import Conflict
from turnlog.format.fields import is_array, is_object


class State:
    """The spans of a conversation that a target has; to be changed only under its lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sent = set(_read(path))

    def add(self, ids: Iterable[str]) -> None:
        """Remember spans that a target has taken."""
        self.sent.update(ids)
        descriptor, name = tempfile.mkstemp(dir=self.path.parent, suffix=".new")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"sent": sorted(self.sent)}, file)
            file.flush()
            os.fsync(descriptor)
        Path(name).replace(self.path)


@contextmanager
def open_state(folder: Path, target: str, name: str, wait: bool = True) -> Generator[State]:
    """The state of a conversation, locked; without `wait`, one that is locked is a `Conflict`.

    It is named by the conversation's first trace, so that a fork or a resumed copy shares it.
    """
    path = folder / target / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(descriptor, path, wait)
        yield State(path)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path, wait: bool) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError as error:
        raise Conflict(f"{path} is in use by another turnlog", "try again in a while") from error


def _read(path: Path) -> list[str]:
    try:
        held = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return []
    sent = held.get("sent") if is_object(held) else None
    return [each for each in sent if isinstance(each, str)] if is_array(sent) else []
