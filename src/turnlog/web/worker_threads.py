"""Call functions in threads that do not keep the process alive.

Ctrl-C stops the server at once, even while a session of a gigabyte is being read. Python would wait
for the threads of asyncio and anyio.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from threading import Thread
from typing import TypeVar

T = TypeVar("T")

MOST = 16
"""Maximum number of functions that run at the same time."""

_running = asyncio.Semaphore(MOST)


async def run_in_thread(function: Callable[[], T], slots: asyncio.Semaphore = _running) -> T:
    """Call a function in a thread, with the caller's context, and return its result.

    `slots` limits how many of its kind run at the same time.
    """
    async with slots:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        context = copy_context()

        def work() -> None:
            try:
                result = context.run(function)
            except BaseException as error:
                _settle(loop, future, error=error)
            else:
                _settle(loop, future, result)

        Thread(target=work, daemon=True).start()
        return await future


def _settle(
    loop: asyncio.AbstractEventLoop,
    future: asyncio.Future[T],
    result: T | None = None,
    error: BaseException | None = None,
) -> None:
    def settle() -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # pyright: ignore[reportArgumentType]

    with suppress(RuntimeError):  # the server has stopped
        loop.call_soon_threadsafe(settle)
