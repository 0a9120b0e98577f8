"""Stream answers of the Messages API, directly or with the official client.

Transient failures raise `Faltered` and can be retried; all others raise `ModelError`. The official
client's own retries are off, because each failure is recorded in the session.
"""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from importlib import import_module
from threading import Thread
from time import time
from typing import TYPE_CHECKING, Any

from turnlog.agent.model.direct_api import ApiRefusal, DirectClient, Unreachable, is_direct
from turnlog.agent.model.messages_api import KEYS, refused, shown_address
from turnlog.agent.model.providers import ANTHROPIC, provider_of
from turnlog.errors import ModelError
from turnlog.format.json_values import Fields

if TYPE_CHECKING:
    from anthropic import APIError, AsyncStream
    from anthropic.types import RawMessageStreamEvent

    from turnlog.agent.model.providers import Client

OTHER_MODEL = "--model opus, or /model opus in a chat"
HINTS = {
    400: OTHER_MODEL,
    401: KEYS,
    403: KEYS,
    404: OTHER_MODEL,
    413: "/compact",
}
STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""HTTP status equivalent to each type of error in the middle of a stream."""
LINGER = 0.1
"""Seconds to wait for the end of a stream after its last event."""
PASSING = (408, 409, 429)
TOO_LONG = ("prompt is too long", "context window", "context length", "context size")


class Faltered(ModelError):
    """A transient failure; `wait` is the delay in seconds that the API asks for."""

    def __init__(self, error: ModelError, wait: float | None = None) -> None:
        super().__init__(error.message, error.hint, error.status, error.request_id)
        self.wait = wait


@dataclass
class AnswerStream:
    """An answer being received."""

    request_id: str | None
    events: AsyncGenerator[Fields]


class Model:
    """The Messages API, one request at a time."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment
        self._provider = provider_of(environment)
        self._client: Client | None = None
        self._direct: DirectClient | None = None

    @property
    def _is_direct(self) -> bool:
        # Keep using an open client, even if the variables that selected it have changed since.
        is_usable = self._provider is ANTHROPIC and is_direct(self._environment)
        return self._direct is not None or (is_usable and self._client is None)

    def prepare(self) -> None:
        """Import the library for requests in the background; the official client takes seconds."""
        # A daemon thread, so that quitting does not wait for the import.
        library = "httpx2" if self._is_direct else "anthropic"
        Thread(target=import_module, args=[library], daemon=True).start()

    def require_credentials(self) -> None:
        """Raise `ModelError` if credentials are missing, before anything is recorded."""
        if self._is_direct:
            self._direct = self._direct or DirectClient(self._environment)
            return
        try:
            import_module("anthropic")  # waits for `prepare`: only one thread may import it
            self._client = self._client or self._provider.open(self._environment)
        except ModelError:
            raise
        except Exception as error:
            raise self._provider.unusable(error) from error

    @asynccontextmanager
    async def ask(self, request: Fields) -> AsyncGenerator[AnswerStream]:
        """Send a request; yield its answer as a stream of API events."""
        if self._is_direct:
            async with self._ask_directly(request) as answer:
                yield answer
            return
        from anthropic import APIError

        try:
            async with await self._begin(request) as stream:
                events = _whole(_plain(stream))
                yield AnswerStream(stream.response.headers.get("request-id"), events)
        except APIError as error:
            raise _failed(error, request["model"]) from error
        except (json.JSONDecodeError, _Lost, *_transport_errors()) as error:
            raise _cut_off(error) from error

    @asynccontextmanager
    async def _ask_directly(self, request: Fields) -> AsyncGenerator[AnswerStream]:
        self._direct = direct = self._direct or DirectClient(self._environment)
        try:
            async with direct.ask(request) as answer:
                yield AnswerStream(answer.request_id, _whole(answer.events))
        except Unreachable as error:
            where = shown_address(direct.address)
            raise Faltered(ModelError(f"no answer from {where}: {error}")) from error
        except ApiRefusal as error:
            raise _refused_directly(error, request["model"]) from error
        except (json.JSONDecodeError, _Lost, *_transport_errors()) as error:
            raise _cut_off(error) from error

    async def _begin(self, request: Fields) -> "AsyncStream[RawMessageStreamEvent]":
        from anthropic import AnthropicError, APIError

        try:
            self._client = self._client or self._provider.open(self._environment)
            try:
                return await self._client.messages.create(**request, stream=True)
            except UnicodeEncodeError:
                return await self._client.messages.create(**_encodable(request), stream=True)
        except (APIError, ModelError, json.JSONDecodeError, *_transport_errors()):
            raise
        except Exception as error:
            # Cloud providers' libraries raise all kinds of errors, the API's only AnthropicError.
            if self._provider is ANTHROPIC and not isinstance(error, AnthropicError):
                raise
            raise self._provider.unusable(error) from error

    async def close(self) -> None:
        """Close all connections."""
        if self._client:
            await self._client.close()
            self._client = None
        if self._direct:
            await self._direct.close()
            self._direct = None


def is_too_long(error: ModelError) -> bool:
    """Return whether an error means that the conversation exceeds the context window."""
    message = error.message.lower()
    return error.status == 413 or (
        error.status == 400 and any(each in message for each in TOO_LONG)
    )


def _encodable(request: Fields) -> Fields:
    """Return a request without lone surrogates, which truncated text may end with."""
    return json.loads(json.dumps(request, ensure_ascii=False).encode("utf-8", "replace"))


class _Lost(Exception):
    """The connection was lost before the answer was complete."""


async def _plain(stream: Any) -> AsyncGenerator[Fields]:
    """Yield the events of the official client as plain objects."""
    async for event in stream:
        yield event.to_dict(mode="json")


async def _whole(events: AsyncGenerator[Fields]) -> AsyncGenerator[Fields]:
    """Yield the events; raise if the last one is missing."""
    is_whole = False
    async for fields in events:
        is_whole = fields.get("type") == "message_stop"
        yield fields
        if is_whole:
            await _read_end(events)
            break
    if not is_whole:
        raise _Lost("the connection was closed")


async def _read_end(events: AsyncGenerator[Fields]) -> None:
    """Read the end of a stream, so that the next request can reuse the connection.

    If the server keeps the stream open after the last event, give up after `LINGER` seconds.
    """
    with suppress(TimeoutError, ApiRefusal, json.JSONDecodeError, *_transport_errors()):
        async with asyncio.timeout(LINGER):
            async for _ in events:
                pass


def _transport_errors() -> tuple[type[Exception], ...]:
    import httpx2

    return (httpx2.HTTPError, httpx2.StreamError)


def _failed(error: "APIError", model: str) -> ModelError:
    from anthropic import APIStatusError

    failure = refused(error, model, HINTS)
    if not isinstance(error, APIStatusError):
        return Faltered(failure)
    return _judged(failure, error.status_code, str(error.type), error.response.headers)


def _refused_directly(error: ApiRefusal, model: str) -> ModelError:
    request_id = error.headers.get("request-id")
    where = f", request {request_id}" if request_id else ""
    message = f"the Messages API refused {model}: {error} (status {error.status}{where})"
    failure = ModelError(message, HINTS.get(error.status), error.status, request_id)
    return _judged(failure, error.status, error.type, error.headers)


def _judged(failure: ModelError, status: int, kind: str, headers: Mapping[str, str]) -> ModelError:
    """Set the status of a failure; return it as `Faltered` if it may be temporary."""
    # An error in the middle of a stream arrives with status 200, so its type determines the status.
    failure.status = status = status if status >= 300 else STATUS.get(kind, 500)
    advised = headers.get("x-should-retry")
    # `x-should-retry` is the API's own advice, which overrides the status.
    passes = status in PASSING or status >= 500
    if advised == "false" or (not passes and advised != "true"):
        return failure
    return Faltered(failure, _asked_wait(headers))


def _cut_off(error: Exception) -> Faltered:
    return Faltered(ModelError(f"the answer was cut off: {error or type(error).__name__}"))


def _asked_wait(headers: Mapping[str, str]) -> float | None:
    """Return the seconds in `retry-after`, which is a number or a date."""
    try:
        if "retry-after-ms" in headers:
            return float(headers["retry-after-ms"]) / 1000
        if "retry-after" not in headers:
            return None
        # HTTP allows seconds or a date; some proxies send the latter.
        named = headers["retry-after"]
        if named.replace(".", "", 1).isdigit():
            return float(named)
        return max(0.0, parsedate_to_datetime(named).timestamp() - time())
    except ValueError:
        return None
