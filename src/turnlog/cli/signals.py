"""Let SIGTERM and SIGHUP end a command as Ctrl-C does: temporary files are removed.

Commands that handle these signals themselves, such as `chat` and `web`, replace the handlers.
"""

import os
import signal
from types import FrameType

ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
_received: list[int] = []
"""The first of these signals that arrived."""


def unwind_on_signals() -> None:
    """Raise KeyboardInterrupt on signals that would end the process without cleaning up."""
    process = os.getpid()

    def unwind(number: int, frame: FrameType | None) -> None:
        if os.getpid() != process:  # a forked helper has nothing to clean up
            os._exit(128 + number)
        # A closed terminal may send SIGHUP twice; the second one must not stop the cleanup.
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN)
        _received.append(number)
        raise KeyboardInterrupt

    for number in ENDING:
        # `nohup` ignores SIGHUP.
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, unwind)


def interrupted() -> int:
    """Return the exit code after an interrupt, as in a shell: 128 plus the signal's number."""
    return 128 + (_received[0] if _received else signal.SIGINT)
