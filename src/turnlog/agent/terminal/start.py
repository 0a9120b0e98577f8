"""Start the interactive chat."""

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from turnlog import __version__
from turnlog.errors import UsageError
from turnlog.store.paths import Store, short_path
from turnlog.text import visible

if TYPE_CHECKING:
    from turnlog.agent.chat.assembly import ChatOptions
    from turnlog.agent.terminal.screen_protocol import PickSession


def run(
    store: Store,
    make_options: "Callable[[], ChatOptions]",
    prompt: str | None,
    pick: "PickSession",
) -> None:
    """Run the interactive chat until the user exits; `/resume` lets them `pick` a session."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("a chat needs a terminal", "turnlog chat -p PROMPT")
    cwd = Path.cwd().resolve()
    sys.stdout.write(_head(cwd, os.get_terminal_size().columns))
    sys.stdout.flush()
    session = asyncio.run(_run(store, cwd, pick, make_options, prompt))
    if session:
        with suppress(OSError):  # the terminal was closed
            sys.stdout.write(f"\nturnlog chat --resume {visible(session)}\n")
            sys.stdout.flush()


def _head(cwd: Path, columns: int) -> str:
    """Return the banner line; of a long path, it shows only the end."""
    start, place = f"turnlog {__version__} · ", visible(short_path(cwd), keep="")
    room = max(10, columns - len(start))
    return f"{start}{place if len(place) <= room else '…' + place[1 - room :]}\n"


async def _run(
    store: Store,
    cwd: Path,
    pick: "PickSession",
    make_options: "Callable[[], ChatOptions]",
    prompt: str | None,
) -> str | None:
    from turnlog.agent.terminal.screen import Screen

    return await Screen(store, cwd, pick).run(make_options, prompt)
