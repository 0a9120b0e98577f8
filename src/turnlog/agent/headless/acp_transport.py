"""JSON-RPC messages over stdin and stdout, one per line; nothing else reaches the client's pipe."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterable, Callable
from typing import Any

from turnlog.format.json_values import Fields, is_object, parse_json
from turnlog.text import safe_json

PARSE_ERROR = {"code": -32700, "message": "Parse error"}
INVALID_REQUEST = {"code": -32600, "message": "Invalid request"}


class LineTransport:
    """Sends and receives messages; answers lines that are not messages with an error.

    The protocol library would end the connection at a line such as `[]`.
    """

    def __init__(self, lines: AsyncIterable[str], write: Callable[[str], None]) -> None:
        self._lines = lines
        self._write = write
        self._messages: asyncio.Queue[Fields | None] = asyncio.Queue()
        self._reading = asyncio.create_task(self._read())

    async def receive(self) -> Fields | None:
        """Return the next message; None once the client has disconnected."""
        return await self._messages.get()

    async def send(self, message: Fields) -> None:
        """Write a message; if the client no longer reads, end the connection."""
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"), default=str)
        try:
            self._write(safe_json(text))
        except OSError:  # ends `receive` and the connection, like end of input
            self._messages.put_nowait(None)

    async def close(self) -> None:
        """Stop reading."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self) -> None:
        try:
            async for line in self._lines:
                if line.strip():
                    await self._take(line)
        finally:
            self._messages.put_nowait(None)

    async def _take(self, line: str) -> None:
        try:
            value: Any = parse_json(line)
        except ValueError:
            await self._refuse(None, PARSE_ERROR)
            return
        if is_message(value):
            self._messages.put_nowait(value)
        else:
            await self._refuse(_id_of(value), INVALID_REQUEST)

    async def _refuse(self, request_id: str | int | None, error: Fields) -> None:
        await self.send({"jsonrpc": "2.0", "id": request_id, "error": error})


def is_message(value: Any) -> bool:
    """Return whether a value is a JSON-RPC request, notification or response.

    >>> [is_message(each) for each in ([], {"id": 1}, {"id": [], "method": "x"}, {"method": 1})]
    [False, False, False, False]
    >>> is_message({"id": 1, "method": "initialize"}), is_message({"id": 1, "result": None})
    (True, True)
    """
    if not is_object(value) or not isinstance(value.get("id"), str | int | None):
        return False
    if "method" in value:
        return isinstance(value["method"], str)
    return "id" in value and ("result" in value or is_object(value.get("error")))


def _id_of(value: Any) -> str | int | None:
    given = value.get("id") if is_object(value) else None
    return given if isinstance(given, str | int) else None


def claim_stdout() -> Callable[[str], None]:
    """Reserve stdout for messages; return the function that writes a line to it.

    Other output to stdout, by a library or a child process, is redirected to stderr.
    """
    sys.stdout.flush()
    pipe = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace")
    os.dup2(2, 1)

    def write(text: str) -> None:
        pipe.write(f"{text}\n")
        pipe.flush()

    return write
