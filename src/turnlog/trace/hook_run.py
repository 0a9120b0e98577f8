"""`turnlog hook run`: write a note of the hook call, and start a process that delivers it.

The client waits for the hook and may take its output for a decision, so the hook prints nothing, is
quick and always succeeds. Heavy modules are imported only after the client continues.
"""

import os
import sys

from turnlog.trace.note import leave_notes
from turnlog.trace.route_capture import capture
from turnlog.trace.switch import read_switches
from turnlog.trace.variable_origin import HookPlaces

KEPT = ("HOME", "LANG", "LC_ALL", "TZ")
"""Environment variables that a sender keeps; none of them affects where or how it sends."""

LIMIT = 16 << 20
"""Maximum bytes of a payload. Its longest part is the model's last message, at most a few hundred
kilobytes."""


def run(arguments: list[str], given: bytes | None = None) -> None:
    """Write a note of the hook call, start a sender, and exit.

    The payload is `given`, or else read from stdin.
    """
    try:
        payload = given if given is not None else sys.stdin.buffer.read(LIMIT + 1)
        places = HookPlaces(arguments, os.environ, payload)
        routes = capture(places)
        if len(payload) > LIMIT:
            payload = b""
            for fields in routes:
                fields["refused"] = f"the hook's payload is larger than {LIMIT >> 20} MiB"
        switches = read_switches(places.config)
        is_on = all(map(switches.is_on, places.directories)) and places.has_spool
        if is_on:
            leave_notes(places.spool, routes, payload)
        if is_on and os.fork() == 0:
            _detach()
            _send(places)
    except BaseException:  # on any error, the client continues; backfill finds missed sessions
        pass
    os._exit(0)


def _detach() -> None:
    """Leave the client's process group, which it kills, and its pipes, which it waits for."""
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    os.closerange(3, 256)
    os.nice(5)


def _send(places: HookPlaces) -> None:
    # This sender also delivers the notes of other projects. Libraries that look for proxies, keys
    # or headers in the environment must not find those of the project that started it.
    for name in list(os.environ):
        if name not in KEPT or places.variables.sets(name):
            del os.environ[name]
    from pathlib import Path

    from turnlog.trace.sender import Sender
    from turnlog.trace.spool import Spool

    spool = Spool(Path(places.spool))
    try:
        Sender(spool, spool.folder.parent).linger()
    except Exception as error:
        spool.fail(None, f"{type(error).__name__}: {error}")
