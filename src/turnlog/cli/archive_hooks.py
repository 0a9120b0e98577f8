"""Archiving that the client asks for by its hooks: when a session starts, and when one ends."""

import os
import sys
from pathlib import Path

import click

from turnlog.cli.client_hooks import ClientHook
from turnlog.cli.output import plain
from turnlog.cli.terminal import echo
from turnlog.errors import TurnlogError, Unavailable
from turnlog.format.atomic import write_atomic
from turnlog.format.private_files import create_private_folder
from turnlog.store.archive.archive import Archive
from turnlog.store.archive.update import archive_sessions
from turnlog.store.descriptors import read_below
from turnlog.store.paths import Store

LONGEST_NOTE = 1 << 16
HOOK = ClientHook(("archive", "--background"), ("SessionStart", "SessionEnd"))


def install(store: Store, to: Path | None) -> str:
    """Have the client archive; say what was done."""
    if not HOOK.install(store, ["--to", str(to.resolve())] if to else []):
        return f"Installed already in {store.settings}"
    return f"Installed in {store.settings}; turnlog archive copies what is there now"


def uninstall(store: Store) -> str:
    """Have the client archive no longer; say what was done."""
    is_new = HOOK.uninstall(store)
    return f"Removed from {store.settings}" if is_new else f"Not installed in {store.settings}"


def archive_in_background(ctx: click.Context, store: Store, archive: Archive) -> None:
    """Archive in a process of its own: the client would wait for a hook, or end it too early.

    What goes wrong there is told the next time.
    """
    create_private_folder(archive.folder)
    if not os.access(archive.folder, os.W_OK):
        raise Unavailable(f"{archive.folder} cannot be written to")
    note = archive.folder / "failed"
    failed = _noted(archive)
    sys.stdout.flush()
    # Windows has no fork: there the client waits.
    if hasattr(os, "fork") and os.fork():
        if failed:
            echo(f"turnlog: the last archiving failed: {plain(failed)}", err=True)
            ctx.exit(1)
        return
    try:
        _detach()
        done = archive_sessions(store, archive)
        note.unlink(missing_ok=True)
        for each in done.unread[:1]:
            raise Unavailable(f"{each.path}: {each.reason}")
    except (TurnlogError, OSError) as error:
        write_atomic(note, str(error).encode("utf-8", "replace"))
    finally:
        os._exit(0)


def _noted(archive: Archive) -> str:
    """What went wrong the last time, if anything did."""
    try:
        return read_below(archive.folder, (), "failed", LONGEST_NOTE).decode("utf-8", "replace")
    except (OSError, Unavailable):
        return ""


def _detach() -> None:
    if hasattr(os, "setsid"):
        os.setsid()
        os.nice(10)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
