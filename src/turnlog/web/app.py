"""The routes of the web app.

Handlers parse the request, call one function in a thread and encode its result. Functions for pages
return the values of a template, functions for the API return JSON.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from math import isfinite
from typing import Any, NamedTuple

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from turnlog.errors import Ambiguous, NotFound, TurnlogError, Unavailable, UsageError
from turnlog.format.json_values import Fields, is_array, is_object
from turnlog.secrets import mask
from turnlog.text import harmless
from turnlog.web.comparison_page import comparison
from turnlog.web.growth import growth_events
from turnlog.web.lake_pages import LakeLibrary, lake_csv, lake_page
from turnlog.web.library import Library
from turnlog.web.live_page import LiveFeed
from turnlog.web.login import Access
from turnlog.web.pages import render, static_files
from turnlog.web.parameters import PageRequest
from turnlog.web.report_pages import REPORT_PAGES
from turnlog.web.request_guards import GUARDS, SECURITY_HEADERS, Guard, GuardedApp, Origins, peer_of
from turnlog.web.session_api import ABOUT_ALL_SESSIONS, SESSION_API, session_values
from turnlog.web.session_list_page import filter_values, list_rows, search_rows
from turnlog.web.worker_threads import run_in_thread

STATUSES: dict[type[TurnlogError], int] = {
    NotFound: 404,
    UsageError: 400,
    Ambiguous: 400,
    Unavailable: 503,
}
"""HTTP statuses of errors; all others are 500."""

JsonFunction = Callable[[PageRequest], Any]
PageFunction = Callable[[PageRequest], Fields]
ErrorHandler = Callable[[Request, Exception], Awaitable[Response]]


class AppPage(NamedTuple):
    """A page: its template, its name in the navigation, and the function for its values."""

    template: str
    name: str
    values: PageFunction = lambda request: {}
    csv: Callable[[PageRequest], str] | None = None
    """Returns the table of the page for `?format=csv`."""
    needs_index: bool = True
    """True if the page waits for the first refresh of the index."""


PAGES: dict[str, AppPage] = {
    **{path: AppPage(*page) for path, page in REPORT_PAGES.items()},
    "/sessions": AppPage("sessions.html", "sessions"),
    "/sessions/{key}": AppPage("session.html", "sessions", session_values, needs_index=False),
    "/compare": AppPage("compare.html", "sessions", comparison),
    "/live": AppPage("live.html", "live"),
}
API: dict[str, JsonFunction] = {
    "/api/sessions": list_rows,
    "/api/search": search_rows,
    "/api/filters": filter_values,
}
LAKE_ERROR = "lake_error.html"
KEPT = "private, max-age=31536000, immutable"
"""Cache-Control for files whose URL contains the hash of their content."""
MOST_STREAMS = 24
"""Maximum number of pages that follow sessions at the same time."""


class Protection(NamedTuple):
    """The access rules and the security headers of the app."""

    origins: Origins
    access: Access
    guards: Sequence[Guard] = GUARDS
    headers: dict[str, str] = SECURITY_HEADERS


def create_app(library: Library, protection: Protection) -> GuardedApp:
    """Return the guarded app."""
    routes: list[BaseRoute] = [
        Route("/open/{token}", _landing_route(protection.access), methods=["GET"]),
        *(Route(path, _page_route(library, page)) for path, page in PAGES.items()),
        Route("/api/sessions/{key}/events", _event_route(library)),
        Route("/api/live/events", _live_route(library)),
        *(Route(path, _json_route(library, function)) for path, function in API.items()),
        *(
            Route(
                f"/api/sessions/{{key}}/{path}",
                _json_route(library, function, needs_index=path in ABOUT_ALL_SESSIONS),
            )
            for path, function in SESSION_API.items()
        ),
        *_static_routes(),
    ]
    return _guarded(routes, protection)


def create_lake_app(library: LakeLibrary, protection: Protection) -> GuardedApp:
    """Return the guarded app of a lake, which has one page."""

    async def show(request: Request) -> Response:
        def work() -> Response:
            if request.query_params.get("format") == "csv":
                return _csv_response(lake_csv(library, request.query_params), "lake")
            return _html(render("lake.html", "lake", **lake_page(library, request.query_params)))

        try:
            return await run_in_thread(work)
        except TurnlogError as error:
            return _error_page(error, LAKE_ERROR)

    async def on_http_error(request: Request, error: Exception) -> Response:
        return _error_page(NotFound("There is no such page."), LAKE_ERROR)

    routes: list[BaseRoute] = [
        Route("/open/{token}", _landing_route(protection.access), methods=["GET"]),
        Route("/", show),
        *_static_routes(),
    ]
    return _guarded(routes, protection, on_http_error)


def _static_routes() -> list[BaseRoute]:
    return [Route(f"/{folder}/{{name:path}}", _serve_static) for folder in ("static", "viewer")]


def _guarded(
    routes: list[BaseRoute], protection: Protection, on_http_error: ErrorHandler | None = None
) -> GuardedApp:
    handlers: Any = {HTTPException: on_http_error or _on_http_error, Exception: _on_bug}
    app = Starlette(routes=routes, exception_handlers=handlers)
    access, guards = protection.access, tuple(protection.guards)
    return GuardedApp(app, protection.origins, access, guards, protection.headers)


def _landing_route(access: Access) -> Callable[[Request], Any]:
    async def land(request: Request) -> Response:
        """Exchange a one-time token for the cookie."""
        # Programs that preview links send HEAD requests, which must not use up the token.
        is_visit = request.method == "GET"
        token, peer = request.path_params["token"], peer_of(request.scope)
        secret = access.redeem(token, peer) if is_visit else None
        if secret is None:
            message = "this URL was already used, or is another user's: start turnlog web again"
            return Response(
                f"turnlog: {message} (try: turnlog web)\n", 401, media_type="text/plain"
            )
        response: Response
        if request.headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
            response = RedirectResponse(access.target, 303)
        else:
            # After a redirect, the browser would still count the other site as the origin of the
            # visit and withhold a Strict cookie. A page of our own starts a new visit.
            response = _html(render("landing.html", "", target=access.target))
        response.set_cookie(access.cookie, secret, httponly=True, samesite="strict", path="/")
        return response

    return land


def _page_route(library: Library, page: AppPage) -> Callable[[Request], Any]:
    async def show(request: Request) -> Response:
        def work() -> Response:
            library.refresher.request(page.needs_index)
            asked = _asked(library, request)
            if page.csv and request.query_params.get("format") == "csv":
                return _csv_response(page.csv(asked), page.name)
            values = page.values(asked) | {"notice": library.refresher.notice}
            return _html(render(page.template, page.name, **values))

        try:
            return await run_in_thread(lambda: library.with_sound_index(work))
        except TurnlogError as error:
            return _error_page(error)

    return show


def _csv_response(text: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="turnlog-{name}.csv"'}
    # A lone surrogate in a name cannot be encoded as UTF-8.
    return Response(text.encode("utf-8", "replace"), headers=headers, media_type="text/csv")


def _json_route(
    library: Library, function: JsonFunction, needs_index: bool = True
) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        def work() -> bytes:
            library.refresher.request(needs_index)
            return encode_json(function(_asked(library, request)))

        try:
            return json_response(await run_in_thread(lambda: library.with_sound_index(work)))
        except TurnlogError as error:
            return error_response(error)

    return answer


def _event_route(library: Library) -> Callable[[Request], Any]:
    streams: set[object] = set()

    async def follow(request: Request) -> Response:
        """Stream an event for each time the session grows."""
        if len(streams) >= MOST_STREAMS:
            return error_response(Unavailable("too many pages follow a session: close some"))
        try:
            found = await run_in_thread(lambda: library.find(request.path_params["key"]))
        except TurnlogError as error:
            return error_response(error)
        seen = request.headers.get("last-event-id", "")
        # Truncated, as int() raises for thousands of digits; a file offset has at most 18.
        start = int(seen[:18]) if seen.isascii() and seen.isdecimal() else None
        return _stream(request, _counted(streams, growth_events(found.path, start)))

    return follow


def _live_route(library: Library) -> Callable[[Request], Any]:
    feed, streams = LiveFeed(library), set[object]()

    async def follow(request: Request) -> Response:
        """Stream the running sessions each time they change."""
        if len(streams) >= MOST_STREAMS:
            return error_response(Unavailable("too many pages follow sessions: close some"))
        return _stream(request, _counted(streams, feed.events()))

    return follow


def _stream(request: Request, events: AsyncIterator[bytes]) -> Response:
    # Only turnlog's own server has such connections: a test may call the app without one.
    if mark_stream := getattr(request.state, "mark_stream", None):
        mark_stream()
    return StreamingResponse(events, media_type="text/event-stream")


async def _counted(streams: set[object], events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    token = object()
    streams.add(token)
    try:
        async for event in events:
            yield event
    finally:
        streams.discard(token)


def _asked(library: Library, request: Request) -> PageRequest:
    return PageRequest(library, request.query_params, request.path_params)


def encode_json(value: Any) -> bytes:
    """Encode a value as JSON; escape lone surrogates, which cannot be encoded as UTF-8."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(_finite(value), allow_nan=False).encode()


def _finite(value: Any) -> Any:
    """Replace NaN and infinity by null, as msgspec does: browsers reject them."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if is_object(value):
        return {name: _finite(each) for name, each in value.items()}
    return [_finite(each) for each in value] if is_array(value) else value


def _html(text: str, status: int = 200) -> Response:
    return HTMLResponse(text.encode("utf-8", "replace"), status)


def json_response(body: bytes, status: int = 200) -> Response:
    """Return a response with encoded JSON."""
    return Response(body, status, media_type="application/json")


def error_response(error: TurnlogError) -> Response:
    """Return an error as JSON."""
    message, hint = _masked_error(error)
    body = {"error": harmless(message), "hint": hint}
    return json_response(encode_json(body), status_of(error))


def _masked_error(error: TurnlogError) -> tuple[str, str | None]:
    """Return the message and hint of an error, masked: a path in them may contain a secret."""
    return mask(error.message), error.hint and mask(error.hint)


def status_of(error: TurnlogError) -> int:
    """Return the HTTP status of an error."""
    return next((code for kind, code in STATUSES.items() if isinstance(error, kind)), 500)


def _error_page(error: TurnlogError, template: str = "error.html") -> Response:
    status = status_of(error)
    title = "Not found" if status == 404 else "This did not work"
    message, hint = _masked_error(error)
    values = {"status": status, "title": title, "message": message, "hint": hint}
    return _html(render(template, "", **values), status)


async def _on_http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    if request.url.path.startswith("/api/"):
        return json_response(msgspec.json.encode({"error": "no such page", "hint": None}), status)
    return _error_page(NotFound("There is no such page."))


async def _on_bug(request: Request, error: Exception) -> Response:
    # A traceback would show paths and values of sessions to whoever reads the page.
    return Response("turnlog: internal error\n", 500, media_type="text/plain")


async def _serve_static(request: Request) -> Response:
    file = static_files().get(request.url.path)
    if file is None:
        raise HTTPException(404)
    is_versioned = request.query_params.get("v") == file.version
    headers = {"ETag": file.tag, "Cache-Control": KEPT if is_versioned else "no-cache"}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers, media_type=file.type)
