"""Serve clients over streamable HTTP on a loopback port, behind the guards of the web app.

Each POST is one message, and its response is the answer as JSON. There are no sessions and no
streams, so a client that goes away leaves nothing behind.
"""

import json
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from turnlog.format.json_values import parse_json
from turnlog.index.sync_policy import stop_syncs
from turnlog.mcp_server.protocol import (
    INVALID_REQUEST,
    PARSE_ERROR,
    Dispatcher,
    error_message,
)
from turnlog.mcp_server.tool_runs import ToolRuns
from turnlog.store.paths import Store
from turnlog.web.login import Access
from turnlog.web.request_guards import (
    Guard,
    GuardedApp,
    RefusedRequest,
    Visit,
    origins_of,
    require_known_host,
    require_own_origin,
    require_own_user,
)
from turnlog.web.server import HOST, bind, serve
from turnlog.web.worker_threads import run_in_thread

PATH = "/mcp"
LONGEST = 4 << 20
"""Maximum bytes of a message."""


def require_own_host(visit: Visit) -> RefusedRequest | None:
    """Refuse other hosts, as the web app does, but without its hint: there is no `--origin`."""
    if require_known_host(visit):
        return RefusedRequest(421, "connect to the address that turnlog mcp --http printed")
    return None


def require_token(token: str) -> Guard:
    """Return a guard that refuses everyone without the token.

    Any program of any user on this machine can connect to a loopback port, and a page in a browser
    can send a POST to it; neither knows the token, which is generated at each start.
    """
    expected = f"Bearer {token}".encode()

    def guard(visit: Visit) -> RefusedRequest | None:
        given = visit.headers.getlist("authorization")
        if len(given) == 1 and secrets.compare_digest(
            given[0].encode("utf-8", "replace"), expected
        ):
            return None
        return RefusedRequest(401, "send the token that turnlog mcp --http printed")

    return guard


def require_message(visit: Visit) -> RefusedRequest | None:
    """Refuse everything but a POST of JSON to the one path.

    A form on another site can send a POST without asking first, but not with this content type.
    """
    if visit.path != PATH:
        return RefusedRequest(404, f"nothing here: the server is at {PATH}")
    if visit.method != "POST":
        return RefusedRequest(405, "only POST is supported: there are no streams and no sessions")
    if _media_type(visit) != "application/json":
        return RefusedRequest(415, "send application/json")
    return None


def _media_type(visit: Visit) -> str:
    return visit.headers.get("content-type", "").partition(";")[0].strip().lower()


def create_mcp_app(dispatcher: Dispatcher, port: int, token: str) -> ASGIApp:
    """Return the app that answers messages, behind the guards."""
    guards = (
        # The host comes first: if it is wrong, no other header can be trusted.
        require_own_host,
        require_own_origin,
        require_token(token),
        require_message,
        require_own_user,
    )
    return GuardedApp(_MessageApp(dispatcher), origins_of(port), Access(port), guards)


def serve_http(
    stores: Sequence[Store], project: Path, port: int, on_start: Callable[[str, str], None]
) -> None:
    """Answer requests until Ctrl-C; call `on_start` with the URL and the token."""
    dispatcher = Dispatcher(ToolRuns(stores, project))
    token = secrets.token_urlsafe(32)
    with bind(port) as bound:
        used = bound.getsockname()[1]
        app = create_mcp_app(dispatcher, used, token)
        try:
            serve(app, bound, lambda: on_start(f"http://{HOST}:{used}{PATH}", token))
        finally:
            stop_syncs()


class _MessageApp:
    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await _read(receive)
        answer = await run_in_thread(lambda: self._answer(body))
        if answer is None:
            # Notifications and responses of the client get an empty response.
            await _respond(send, 202, b"")
        else:
            await _respond(send, 200, json.dumps(answer, separators=(",", ":")).encode())

    def _answer(self, body: bytes | None) -> dict[str, Any] | None:
        if body is None:
            return error_message(None, INVALID_REQUEST, "the message is too long")
        try:
            message = parse_json(body)
        except ValueError:
            return error_message(None, PARSE_ERROR, "not JSON")
        return self._dispatcher.answer(message)


async def _read(receive: Receive) -> bytes | None:
    """Return the body of a request; None if it is too long."""
    body, size = bytearray(), 0
    while True:
        event = await receive()
        part: bytes = event.get("body", b"")
        size += len(part)
        # Read the rest, but discard it: a client that is still writing would not see the response.
        if size <= LONGEST:
            body += part
        if event["type"] != "http.request" or not event.get("more_body"):
            return bytes(body) if size <= LONGEST else None


async def _respond(send: Send, status: int, body: bytes) -> None:
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
