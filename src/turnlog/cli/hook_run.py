"""turnlog hook run: notes what the client tells its hook, and lets another process do the rest.

The client waits for this, and may take what a hook prints for an order: it is silent, quick, and
always a success. Nothing is loaded before the client goes on.
"""

import os
import sys

from turnlog.trace.note import leave_note, spool_folder


def run(arguments: list[str]) -> None:
    """Note what is on stdin, and start a sender; ends the process."""
    try:
        leave_note(spool_folder(), arguments, sys.stdin.buffer.read())
        if os.fork() == 0:
            _detach()
            _send()
    except BaseException:  # whatever it is, the client goes on; what was missed is caught up
        pass
    os._exit(0)


def _detach() -> None:
    """Leave the client's group and its pipes: it ends what is in them, or waits for it."""
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    os.closerange(3, 256)
    os.nice(5)


def _send() -> None:
    from turnlog.trace.hook import Sender
    from turnlog.trace.spool import Spool

    spool = Spool()
    try:
        Sender(spool).run()
    except Exception as error:
        spool.worry(f"{type(error).__name__}: {error}")
