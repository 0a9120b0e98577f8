"""The queue of one target: its lock, and when it may be tried again after a failure.

Each target has a queue of its own, so a slow or dead one never delays another. Only the sender that
holds a queue's lock changes its state, which outlives the sender.
"""

import random
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from turnlog.format.private_files import secure_folder
from turnlog.format.regular_files import read_object
from turnlog.trace.sent_state import write_json

FIRST_DELAY = 2.0
"""Seconds before the second attempt, unless the sender's patience says otherwise."""
LONGEST_DELAY = 600.0
LONGEST_TIMEOUT = 600.0


class QueueState(Struct):
    """How a target fared lately."""

    target: str = ""
    """The address."""
    failures: int = 0
    """Failed attempts in a row."""
    retry_at: float = 0.0
    """When the next attempt is due, in seconds since 1970."""
    timeouts: int = 0
    """Requests in a row that the target did not answer in time."""
    reason: str | None = None

    def fail(self, reason: str, first_delay: float, is_timeout: bool) -> None:
        """Schedule the next attempt: twice as late each time, at random within a factor of two.

        Without jitter, the senders of several machines would meet at a recovering target.
        """
        self.failures += 1
        self.timeouts += is_timeout
        self.reason = reason
        delay = min(first_delay * 2 ** min(self.failures - 1, 20), LONGEST_DELAY)
        self.retry_at = time.time() + delay * random.uniform(0.5, 1)

    def succeed(self) -> None:
        """Forget failures; a target that needed more time keeps it."""
        self.failures, self.retry_at, self.reason = 0, 0.0, None

    def timeout(self, usual: float) -> float:
        """Return how many seconds to wait for an answer.

        A target that answers too late has perhaps stored the spans all the same, and would get
        them again and again: each time it is given twice as long.
        """
        return max(usual, min(usual * 2 ** min(self.timeouts, 20), LONGEST_TIMEOUT))


def load_queue(spool: Path, name: str) -> QueueState:
    """Return the state of a queue; a lost one only means that its target is tried at once."""
    return _state(read_object(_path(spool, name)))


def save_queue(spool: Path, name: str, state: QueueState) -> None:
    """Write the state of a queue atomically."""
    path = _path(spool, name)
    secure_folder(path.parent, must_own=True)
    write_json(path, msgspec.to_builtins(state))


def all_queues(spool: Path) -> dict[str, QueueState]:
    """Return the state of every queue, by its name."""
    return {path.stem: load_queue(spool, path.stem) for path in spool.glob("queues/*.json")}


def _state(held: object) -> QueueState:
    try:
        return msgspec.convert(held, QueueState)
    except msgspec.ValidationError:
        return QueueState()


def _path(spool: Path, name: str) -> Path:
    return spool / "queues" / f"{name}.json"
