"""Queue prompts and background notifications for a headless chat.

After the last prompt, turnlog waits for background commands, as the client does (2.1.325,
observed), but not forever.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from typing import Any, TypeVar

from turnlog.agent.loop.conversation import Parts
from turnlog.agent.loop.notifications import NOTICE, listen, next_notice

Given = TypeVar("Given")
PROGRAM = "sdk"
"""Source of prompts written by a program."""
CEILING = "CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS"
"""The client's variable for the maximum wait; 0 means no limit."""
USUAL = 600_000


async def incoming(
    prompts: AsyncIterable[Given], parts: Parts, environment: Mapping[str, str] = os.environ
) -> AsyncGenerator[tuple[Given | str, str]]:
    """Yield prompts and notifications, each after the previous one was handled."""
    news = asyncio.Event()
    listen(parts, news.set)
    coming = aiter(prompts)
    # A notification must not cancel the pending read, or a line that was just read would be lost.
    asked = asyncio.ensure_future(anext(coming, None))
    try:
        while True:
            # Notices first: the model should know of ended commands before it gets the next prompt.
            while notice := next_notice(parts):
                yield notice, NOTICE
            if not asked.done():
                await _either(asked, news)
            elif (prompt := asked.result()) is not None:
                yield prompt, PROGRAM
                asked = asyncio.ensure_future(anext(coming, None))
            elif not await _is_notified(parts, news, _patience(environment)):
                return
    finally:
        asked.cancel()


async def _either(asked: asyncio.Future[Any], news: asyncio.Event) -> None:
    """Wait for the next prompt, or for something in the background to end."""
    notified = asyncio.ensure_future(news.wait())
    await asyncio.wait({asked, notified}, return_when=asyncio.FIRST_COMPLETED)
    notified.cancel()
    news.clear()


async def _is_notified(parts: Parts, news: asyncio.Event, patience: float | None) -> bool:
    """Wait for the next background notification; return whether there was one."""
    # Nothing is running any more, but a command may have ended since the last check.
    if not parts.workspace.shells.running:
        return bool(parts.workspace.shells.ended)
    try:
        async with asyncio.timeout(patience):
            await news.wait()
    except TimeoutError:
        return False
    news.clear()
    return True


def _patience(environment: Mapping[str, str]) -> float | None:
    named = environment.get(CEILING, "")
    return (int(named) if named.isdecimal() else USUAL) / 1000 or None
