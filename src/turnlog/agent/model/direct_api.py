"""The Messages API over plain HTTP.

Importing the official client takes more CPU time than everything else before the first request. It
is used where more than a key is needed: for Bedrock and Vertex, credentials in files, and the
variables in `OFFICIAL`.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from turnlog.agent.model.messages_api import KEYS
from turnlog.errors import ModelError
from turnlog.format.json_values import Fields, is_object

if TYPE_CHECKING:
    import httpx2

KEY, TOKEN = "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"
ADDRESS = "ANTHROPIC_BASE_URL"
OFFICIAL = ("ANTHROPIC_CUSTOM_HEADERS", "ANTHROPIC_OPEN_TELEMETRY")
"""Variables that only the official client understands."""
USUAL = "https://api.anthropic.com"
VERSION = "2026-10-21"
"""The version of the API that the official client asks for (2.8.0, observed)."""
PATIENCE, CONNECTING = 600.0, 5.0
"""Seconds to wait for the next bytes, and for a connection."""


class ApiRefusal(Exception):
    """An error that the API answers with, or sends in the middle of an answer."""

    def __init__(self, status: int, body: Any, headers: Mapping[str, str]) -> None:
        error = body.get("error") if is_object(body) else None
        fields: Fields = error if is_object(error) else {}
        super().__init__(str(fields.get("message") or f"Error code: {status}"))
        self.status = status
        self.type = str(fields.get("type") or "")
        self.headers = headers


class Unreachable(Exception):
    """No answer has begun."""


class DirectAnswer(NamedTuple):
    """An answer being received."""

    request_id: str | None
    events: AsyncGenerator[Fields]


def is_direct(environment: Mapping[str, str]) -> bool:
    """Return whether a key in the environment is all that a request needs.

    >>> is_direct({"ANTHROPIC_API_KEY": "k"}), is_direct({})
    (True, False)
    """
    has_key = bool(environment.get(KEY) or environment.get(TOKEN))
    return has_key and not any(environment.get(name) for name in OFFICIAL)


class DirectClient:
    """A connection to the Messages API."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        import httpx2

        base = environment.get(ADDRESS) or USUAL
        self.address = f"{base.rstrip('/')}/v1/messages"
        headers = {
            "authorization": f"Bearer {_key_in(environment)}",
            "anthropic-version": VERSION,
            "content-type": "application/json",
            "accept": "application/json",
        }
        limits = httpx2.Timeout(PATIENCE, connect=CONNECTING)
        self._http = httpx2.AsyncClient(headers=headers, timeout=limits, follow_redirects=True)

    @asynccontextmanager
    async def ask(self, request: Fields) -> AsyncGenerator[DirectAnswer]:
        """Send a request; raise `Unreachable` or `ApiRefusal` if there is no answer."""
        import httpx2

        body = {name: value for name, value in request.items() if name != "extra_headers"}
        text = json.dumps(body | {"stream": True}, ensure_ascii=False, separators=(",", ":"))
        wanted = self._http.build_request(
            "POST",
            self.address,
            content=text.encode("utf-8", "replace"),
            headers=request.get("extra_headers"),
        )
        try:
            response = await self._http.send(wanted, stream=True)
        except httpx2.TimeoutException as error:
            raise Unreachable("Request timed out.") from error
        except httpx2.HTTPError as error:
            raise Unreachable("Connection error.") from error
        try:
            await _require_success(response)
            request_id = response.headers.get("request-id")
            yield DirectAnswer(request_id, _events(response))
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()


def _key_in(environment: Mapping[str, str]) -> str:
    """Return the key; raise `ModelError` for one that no header can hold, without showing it."""
    name = KEY if environment.get(KEY) else TOKEN
    key = environment.get(name) or ""
    if not key.isascii() or not key.isprintable():
        raise ModelError(f"{name} contains characters that no key has", KEYS)
    return key


async def _require_success(response: "httpx2.Response") -> None:
    if response.status_code == 200:
        return
    content = await response.aread()
    try:
        body: Any = json.loads(content)
    except ValueError:
        body = None
    raise ApiRefusal(response.status_code, body, response.headers)


async def _events(response: "httpx2.Response") -> AsyncGenerator[Fields]:
    """Yield the events of a stream but pings; raise `ApiRefusal` for one that is an error."""
    async for data in _data(response.aiter_bytes()):
        event: Any = json.loads(data)
        if is_object(event) and event.get("type") == "error":
            raise ApiRefusal(response.status_code, event, response.headers)
        if is_object(event) and event.get("type") != "ping":
            yield event


async def _data(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the data of each server-sent event.

    Only line feeds end a line: JSON may have other line separators in its texts.
    """
    rest, data = b"", list[bytes]()
    async for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for raw in lines:
            line = raw.rstrip(b"\r")
            if line.startswith(b"data:"):
                data.append(line[5:].strip())
            elif not line and data:
                yield b"\n".join(data)
                data = []
