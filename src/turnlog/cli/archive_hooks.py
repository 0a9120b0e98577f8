"""Client hooks that archive when a session starts or ends."""

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
    """Install the hook; return a message."""
    if not HOOK.install(store, ["--into", str(to.resolve())] if to else []):
        return f"Already installed in {store.settings}"
    return f"Installed in {store.settings} (archive existing sessions now: turnlog archive)"


def uninstall(store: Store) -> str:
    """Remove the hook; return a message."""
    is_new = HOOK.uninstall(store)
    return f"Removed from {store.settings}" if is_new else f"Not installed in {store.settings}"


def archive_in_background(ctx: click.Context, store: Store, archive: Archive) -> None:
    """Archive in a detached process: the client would wait for a hook, or kill it too early.

    An error there is reported by the next run.
    """
    create_private_folder(archive.folder)
    if not os.access(archive.folder, os.W_OK):
        raise Unavailable(f"{archive.folder} is not writable")
    failed = _noted(archive)
    sys.stdout.flush()
    # Windows has no fork: there the client waits.
    if hasattr(os, "fork") and os.fork():
        if failed:
            echo(f"turnlog: the last archive run failed: {plain(failed)}", err=True)
            ctx.exit(1)
        return
    try:
        detach()
        archive_silently(store, archive)
    finally:
        os._exit(0)


def archive_silently(store: Store, archive: Archive) -> None:
    """Archive, and leave a note of an error in the archive."""
    note = archive.folder / "failed"
    try:
        done = archive_sessions(store, archive)
        note.unlink(missing_ok=True)
        for each in done.unread[:1]:
            raise Unavailable(f"{each.path}: {each.reason}")
    except (TurnlogError, OSError) as error:
        write_atomic(note, str(error).encode("utf-8", "replace"))


def _noted(archive: Archive) -> str:
    """Return the error of the last run, or an empty text."""
    try:
        return read_below(archive.folder, (), "failed", LONGEST_NOTE).decode("utf-8", "replace")
    except (OSError, Unavailable):
        return ""


def detach() -> None:
    """Leave the terminal and the client: both may end before this process."""
    if hasattr(os, "setsid"):
        os.setsid()
        os.nice(10)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
