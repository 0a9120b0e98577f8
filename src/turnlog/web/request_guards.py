"""Decide which requests are answered, before any route runs.

The server is for one user and one browser. Each guard stops one attack and returns a refusal or
None; a request reaches the app only if no guard refuses it. Responses get headers that keep
scripts, frames and other origins away from the data.
"""

from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnlog.errors import UsageError
from turnlog.text import harmless
from turnlog.web.login import Access, Peer

NAMES = ("127.0.0.1", "localhost")
OWN_SITE = ("none", "same-origin")
"""Values of `Sec-Fetch-Site` that no page of another site or port can send."""
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "font-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types turnlog",
    )
)
SECURITY_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
SHOWN_HOST = 100
"""Characters of a refused Host that the answer repeats."""


class RefusedRequest(NamedTuple):
    """An error response: one line of plain text."""

    status: int
    message: str


class Origins(NamedTuple):
    """The addresses that the server answers to."""

    hosts: frozenset[str]
    """Accepted values of `Host`."""
    origins: frozenset[str]
    """Accepted values of `Origin`."""


class Visit(NamedTuple):
    """A request as the guards see it."""

    method: str
    path: str
    headers: Headers
    origins: Origins
    access: Access
    peer: Peer


Guard = Callable[[Visit], RefusedRequest | None]


def origins_of(port: int, others: tuple[str, ...] = ()) -> Origins:
    """Return the addresses of a server on a loopback port, and of forwarded ports.

    >>> sorted(origins_of(8123, ("https://dev.example",)).hosts)
    ['127.0.0.1:8123', 'dev.example', 'localhost:8123']
    """
    # Browsers leave out port 80, and only that one.
    own = [f"http://{name}" if port == 80 else f"http://{name}:{port}" for name in NAMES]
    parsed = [_parse_origin(text) for text in others]
    found = [*own, *parsed]
    return Origins(frozenset(urlsplit(each).netloc for each in found), frozenset(found))


def _parse_origin(text: str) -> str:
    parts = urlsplit(text)
    is_plain = f"{parts.scheme}://{parts.netloc}" == text.rstrip("/") and "@" not in parts.netloc
    if parts.scheme not in ("http", "https") or not parts.netloc or not is_plain:
        message = f"{text!r} is not an origin such as http://devbox:8123"
        raise UsageError(message, "turnlog web --origin http://devbox:8123 --port 8123")
    return f"{parts.scheme}://{parts.netloc.lower()}"


def require_known_host(visit: Visit) -> RefusedRequest | None:
    """Refuse hosts that are not on the allowlist.

    DNS rebinding: evil.example resolves to 127.0.0.1 on the second lookup, so its page and this
    server are the same origin to the browser. Only `Host` reveals it: evil.example:8123.
    """
    hosts = visit.headers.getlist("host")
    if len(hosts) == 1 and hosts[0].lower() in visit.origins.hosts:
        return None
    named = harmless(hosts[0])[:SHOWN_HOST] if len(hosts) == 1 else "requests without one Host"
    hint = f"turnlog web --origin http://{named}" if len(hosts) == 1 else "turnlog web"
    return RefusedRequest(421, f"this server does not answer to {named} (try: {hint})")


def require_own_origin(visit: Visit) -> RefusedRequest | None:
    """Refuse requests that a page of another origin makes.

    `SameSite` does not distinguish ports: a page on localhost:3000 sends our cookie along. Browsers
    mark such requests with `Origin` or `Sec-Fetch-Site`; programs such as curl send neither.
    """
    if any(each not in visit.origins.origins for each in visit.headers.getlist("origin")):
        return RefusedRequest(403, "requests from other origins are not answered")
    sites = visit.headers.getlist("sec-fetch-site")
    if all(site in OWN_SITE for site in sites):
        return None
    # A terminal in a web page opens the printed URL from that page, so its site is another one. The
    # token proves that the visit is legitimate.
    is_visit = visit.headers.get("sec-fetch-mode") == "navigate"
    is_document = visit.headers.get("sec-fetch-dest") == "document"
    if visit.access.is_landing(visit.path) and is_visit and is_document:
        return None
    return RefusedRequest(
        403, "requests from other sites are not answered: type the address instead"
    )


def require_reading(visit: Visit) -> RefusedRequest | None:
    """Refuse all methods but GET and HEAD: the server only reads."""
    if visit.method in ("GET", "HEAD"):
        return None
    return RefusedRequest(405, f"{harmless(visit.method)[:20]} is not supported: pages only read")


def require_cookie(visit: Visit) -> RefusedRequest | None:
    """Refuse everyone but the browser that opened the one-time URL.

    Any program of any user on this machine can connect to a loopback port.
    """
    if visit.access.is_landing(visit.path):
        return None  # the route checks the token
    for header in visit.headers.getlist("cookie"):
        if visit.access.accepts(cookie_parser(header).get(visit.access.cookie)):
            return None
    return RefusedRequest(401, "open the URL that turnlog web printed (try: turnlog web)")


def require_own_user(visit: Visit) -> RefusedRequest | None:
    """Refuse other users, even with the cookie.

    Browsers send a cookie to all ports of a host: a page that another user serves on 127.0.0.1:4000
    receives ours as soon as it loads an image from its own server.
    """
    if visit.access.is_landing(visit.path) or visit.peer.is_own:
        return None
    return RefusedRequest(401, "this server belongs to another user (try: turnlog web)")


GUARDS: tuple[Guard, ...] = (
    # The host comes first: with a wrong host, no other header can be trusted.
    require_known_host,
    require_own_origin,
    require_reading,
    require_cookie,
    # The only slow one: it reads the table of sockets, once per connection.
    require_own_user,
)


def peer_of(scope: Scope) -> Peer:
    """Return the other end of a request's connection."""
    kept = scope.get("state", {}).get("peer")
    return kept or Peer(scope.get("client"), scope.get("server"))


class GuardedApp:
    """An ASGI app behind guards, whose responses carry the security headers."""

    def __init__(
        self,
        app: ASGIApp,
        origins: Origins,
        access: Access,
        guards: tuple[Guard, ...] = GUARDS,
        headers: dict[str, str] = SECURITY_HEADERS,
    ) -> None:
        self.app = app
        self.origins = origins
        self.access = access
        self.guards = guards
        self.headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # no WebSockets: their handshake is not bound to an origin
            return

        async def send_secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self.headers.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        headers = Headers(scope=scope)
        visit = Visit(scope["method"], scope["path"], headers, *self._served, peer_of(scope))
        refusals = (guard(visit) for guard in self.guards)
        refusal = next((each for each in refusals if each), None)
        if refusal:
            await _refuse(refusal, send_secured)
        else:
            await self.app(scope, receive, send_secured)

    @property
    def _served(self) -> tuple[Origins, Access]:
        return self.origins, self.access


async def _refuse(refusal: RefusedRequest, send: Send) -> None:
    body = f"turnlog: {refusal.message}\n".encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        *([(b"allow", b"GET, HEAD")] if refusal.status == 405 else []),
        # A refused request may have a body that nobody reads.
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
