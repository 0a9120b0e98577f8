"""The Messages API over plain HTTP.

Importing the official client takes more CPU time than everything else before the first request. It
is therefore used only where a key is not enough: for Bedrock and Vertex, credentials in files, and
the variables in `OFFICIAL`.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from turnlog.agent.model.messages_api import KEYS
from turnlog.errors import ModelError
from turnlog.format.json_values import Fields, as_object, is_object, parse_json

if TYPE_CHECKING:
    import httpx2

KEY, TOKEN = "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"
ADDRESS = "ANTHROPIC_BASE_URL"
OFFICIAL = ("ANTHROPIC_CUSTOM_HEADERS", "ANTHROPIC_OPEN_TELEMETRY")
"""Variables that only the official client understands."""
USUAL = "https://api.anthropic.com"
VERSION = "2026-10-21"
"""The API version that the official client requests (2.8.0, observed)."""
LATEST = 6
"""Number of messages at the end that may change in the next request, as cache breakpoints move."""
PIECE = 1 << 18
"""Bytes per chunk of a request."""
PATIENCE, CONNECTING = 600.0, 5.0
"""Seconds to wait for the next bytes, and for a connection."""
HIGHEST_PORT = 65_535
REDIRECTED = "it sent a redirect, which turnlog does not follow"


class ApiRefusal(Exception):
    """An error response of the API, or an error in the middle of an answer."""

    def __init__(self, status: int, body: Any, headers: Mapping[str, str]) -> None:
        error = body.get("error") if is_object(body) else None
        fields: Fields = as_object(error)
        super().__init__(str(fields.get("message") or f"Error code: {status}"))
        self.status = status
        self.type = str(fields.get("type") or "")
        self.headers = headers


class Unreachable(Exception):
    """The server sent no response."""


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


class RequestBody:
    """The JSON of a request, which is sent in chunks.

    As a single `bytes`, it would be copied three times. Each copy makes the allocator request fresh
    pages, which took most of the time when sending a million tokens.
    """

    def __init__(self, start: bytes, kept: bytearray, end: bytes) -> None:
        self._start, self._kept, self._end = start, kept, end
        # `kept` may grow while this request is being sent.
        self._size = len(kept)

    def __len__(self) -> int:
        return len(self._start) + self._size + len(self._end)

    def __bytes__(self) -> bytes:
        return self._start + self._kept[: self._size] + self._end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._start
        for place in range(0, self._size, PIECE):
            # Slicing the bytearray itself would copy twice. The view is released before the chunk
            # is sent, as the bytearray cannot grow while a view exists.
            with memoryview(self._kept) as view:
                piece = bytes(view[place : min(place + PIECE, self._size)])
            yield piece
        yield self._end


class RequestBodies:
    """Encodes requests, reusing the JSON of messages that were in the last request.

    In a long conversation, that is nearly the entire request.
    """

    def __init__(self) -> None:
        self._forget()

    def encode(self, body: Fields) -> RequestBody:
        """Return the JSON of a request; lone surrogates become question marks."""
        messages: list[Fields] = body["messages"]
        try:
            self._keep(messages[:-LATEST])
            rest = [msgspec.json.encode(each) for each in messages[len(self._messages) :]]
            others = {name: value for name, value in body.items() if name != "messages"}
            head = msgspec.json.encode(others | {"messages": []})
        except UnicodeEncodeError:
            self._forget()
            text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
            return RequestBody(text.encode("utf-8", "replace"), bytearray(), b"")
        between = b"," if self._messages and rest else b""
        return RequestBody(head[:-2], self._encoded, between + b",".join(rest) + b"]}")

    def _keep(self, messages: list[Fields]) -> None:
        """Encode and store the messages that were not in the last request."""
        count = len(self._messages)
        # Compared by identity: comparing texts would take as long as encoding them.
        if count > len(messages) or not all(map(is_, self._messages, messages)):
            self._forget()
            count = 0
        for message in messages[count:]:
            self._encoded += (b"," if self._encoded else b"") + msgspec.json.encode(message)
        self._messages = messages

    def _forget(self) -> None:
        self._messages: list[Fields] = []
        self._encoded = bytearray()
        """The JSON of `_messages`, separated by commas."""


class DirectClient:
    """A connection to the Messages API."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        import httpx2

        self.address = _address_in(environment)
        headers = {
            **_credential_in(environment),
            "anthropic-version": VERSION,
            "content-type": "application/json",
            "accept": "application/json",
        }
        limits = httpx2.Timeout(PATIENCE, connect=CONNECTING)
        self._bodies = RequestBodies()
        # A redirect would send the conversation to an address that the user has not named.
        self._http = httpx2.AsyncClient(headers=headers, timeout=limits, follow_redirects=False)

    @asynccontextmanager
    async def ask(self, request: Fields) -> AsyncGenerator[DirectAnswer]:
        """Send a request; raise `Unreachable` or `ApiRefusal` if there is no answer."""
        import httpx2

        body = {name: value for name, value in request.items() if name != "extra_headers"}
        content = self._bodies.encode(body | {"stream": True})
        wanted = self._http.build_request(
            "POST",
            self.address,
            content=content,
            headers={"content-length": str(len(content)), **(request.get("extra_headers") or {})},
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


def _address_in(environment: Mapping[str, str]) -> str:
    """Return the URL of the API; raise `ModelError` if it is invalid."""
    import httpx2

    base = environment.get(ADDRESS) or USUAL
    try:
        url = httpx2.URL(base)
        is_usable = url.scheme in ("http", "https") and bool(url.host)
        # Otherwise an invalid port would cause a traceback when connecting.
        is_usable = is_usable and (url.port is None or 0 < url.port <= HIGHEST_PORT)
    except (httpx2.InvalidURL, ValueError):
        is_usable = False
    if not is_usable:
        # The message omits the value, which may contain a password.
        raise ModelError(f"{ADDRESS} is not the address of a server", f"export {ADDRESS}={USUAL}")
    return f"{base.rstrip('/')}/v1/messages"


def _credential_in(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the header with the key; raise `ModelError`, without quoting it, if none can hold it.

    Gateways may look for a key only where the client sends it (2.1.325, observed).
    """
    name = KEY if environment.get(KEY) else TOKEN
    key = environment.get(name) or ""
    if not key.isascii() or not key.isprintable():
        raise ModelError(f"{name} contains characters that no key has", KEYS)
    return {"x-api-key": key} if name == KEY else {"authorization": f"Bearer {key}"}


async def _require_success(response: "httpx2.Response") -> None:
    if response.status_code == 200:
        return
    content = await response.aread()
    body: Any = None
    if response.has_redirect_location:
        body = {"error": {"message": REDIRECTED}}
    else:
        with suppress(ValueError):
            body = parse_json(content)
    raise ApiRefusal(response.status_code, body, response.headers)


async def _events(response: "httpx2.Response") -> AsyncGenerator[Fields]:
    """Yield the events of a stream except pings; raise `ApiRefusal` for an error."""
    async for data in _data(response.aiter_bytes()):
        event: Any = parse_json(data)
        if is_object(event) and event.get("type") == "error":
            raise ApiRefusal(response.status_code, event, response.headers)
        if is_object(event) and event.get("type") != "ping":
            yield event


async def _data(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the data of each server-sent event.

    Only line feeds end a line: JSON strings may contain other line separators.
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
