"""The queue of one target: retry times and timeouts after failures.

Each target has its own queue, so a slow or dead target never delays another. Only the sender that
holds a queue's lock changes its state.
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
"""Default seconds before the second attempt."""
LONGEST_DELAY = 600.0
LONGEST_TIMEOUT = 600.0


class QueueState(Struct):
    """Recent failures of a target."""

    target: str = ""
    """The address."""
    failures: int = 0
    """Failed attempts in a row."""
    retry_at: float = 0.0
    """Time of the next attempt, in seconds since 1970."""
    timeouts: int = 0
    """Requests that the target did not answer in time; a success does not reset the count."""
    reason: str | None = None

    def fail(self, reason: str, first_delay: float, is_timeout: bool) -> None:
        """Schedule the next attempt: exponential backoff with jitter.

        Without jitter, the senders of several machines would hit a recovering target at once.
        """
        self.failures += 1
        self.timeouts += is_timeout
        self.reason = reason
        # The exponent is limited, as a float overflows after about 1,000 failures.
        delay = min(first_delay * 2 ** min(self.failures - 1, 20), LONGEST_DELAY)
        self.retry_at = time.time() + delay * random.uniform(0.5, 1)

    def succeed(self) -> None:
        """Reset the failures, but keep the longer timeout of a slow target."""
        self.failures, self.retry_at, self.reason = 0, 0.0, None

    def timeout(self, usual: float) -> float:
        """Return the seconds to wait for a response: doubled after each timeout.

        A target that answers too late may have stored the spans nevertheless; with a fixed timeout
        it would receive them again and again.
        """
        return max(usual, min(usual * 2 ** min(self.timeouts, 20), LONGEST_TIMEOUT))


def load_queue(spool: Path, name: str) -> QueueState:
    """Return the state of a queue; a new queue has no failures, so its target is tried at once."""
    return _state(read_object(_path(spool, name)))


def save_queue(spool: Path, name: str, state: QueueState) -> None:
    """Write the state of a queue atomically."""
    path = _path(spool, name)
    secure_folder(path.parent, must_own=True)
    write_json(path, msgspec.to_builtins(state))


def all_queues(spool: Path) -> dict[str, QueueState]:
    """Return the state of every queue, by name."""
    return {path.stem: load_queue(spool, path.stem) for path in spool.glob("queues/*.json")}


def _state(stored: object) -> QueueState:
    try:
        return msgspec.convert(stored, QueueState)
    except msgspec.ValidationError:
        return QueueState()


def _path(spool: Path, name: str) -> Path:
    return spool / "queues" / f"{name}.json"
