"""Fetch web pages and cache them for a while.

A host name is looked up once, and the connection goes to the address that was checked, so DNS
rebinding cannot bypass the check.
"""

import asyncio
import socket
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import Struct

from turnlog.agent.workspace.network_addresses import NotPublic, pinned_request, resolve

if TYPE_CHECKING:
    from httpx2 import URL, AsyncClient, Response

KEPT_FOR = 15 * 60
KEPT = 50
"""Maximum number of cached pages."""
SECONDS = 60
LARGEST = 10 << 20
"""Maximum bytes read of a page."""
HOPS = 10
AGENT = "turnlog (+https://pypi.org/project/turnlog)"
ACCEPT = "text/markdown, text/html, */*"
REDIRECTS = (301, 302, 303, 307, 308)


class Unfetched(Exception):
    """A page could not be fetched; the message gives the reason."""


class Page(Struct, frozen=True):
    """A fetched page."""

    url: str
    code: int
    reason: str
    kind: str
    """Its media type, without parameters."""
    body: bytes
    encoding: str | None
    """The encoding that its header names."""
    moved_to: str | None = None
    """The target of a redirect."""


@dataclass
class Pages:
    """Fetches pages, and caches each for 15 minutes."""

    allows_private: bool = False
    """True if addresses of private networks, and of this machine, may be fetched."""
    _cache: dict[str, tuple[float, Page]] = field(default_factory=dict[str, tuple[float, Page]])

    async def fetch(self, url: str) -> Page:
        """Return a page from the cache or the web."""
        when, page = self._cache.get(url, (0.0, None))
        if page is not None and time.monotonic() - when < KEPT_FOR:
            return page
        page = await _fetch(url, self.allows_private)
        if page.code == 200:
            # Move it to the end: the oldest entries, at the start of the dict, are evicted.
            self._cache.pop(url, None)
            self._cache[url] = (time.monotonic(), page)
            while len(self._cache) > KEPT:
                del self._cache[next(iter(self._cache))]
        return page


async def _fetch(url: str, allows_private: bool) -> Page:
    from httpx2 import AsyncClient, HTTPError, InvalidURL

    try:
        async with asyncio.timeout(SECONDS), AsyncClient(timeout=SECONDS) as client:
            return await _follow(client, url, allows_private)
    except TimeoutError as error:
        raise Unfetched(f"{url} did not answer within {SECONDS} s") from error
    except NotPublic as error:
        raise Unfetched(f"{error} is in a private network, which may not be fetched") from error
    except (socket.gaierror, UnicodeError) as error:
        raise Unfetched(f"The host of {url} is unknown: {error}") from error
    except InvalidURL as error:
        raise Unfetched(f"{url} is not a valid address: {error}") from error
    except HTTPError as error:
        raise Unfetched(f"{url} cannot be fetched: {error or type(error).__name__}") from error


async def _follow(client: "AsyncClient", url: str, allows_private: bool) -> Page:
    """Fetch a page, following redirects to the same host."""
    from httpx2 import URL

    place = URL(url)
    for _ in range(HOPS):
        page = await _get(client, place, allows_private)
        if page.moved_to is None:
            return page
        target = URL(page.moved_to)
        # Permission was given for one host. The model learns the address at another host, and has
        # to ask for permission to fetch it.
        if target.host.removeprefix("www.") != place.host.removeprefix("www."):
            return page
        place = target
    raise Unfetched(f"{url} redirects too many times")


async def _get(client: "AsyncClient", place: "URL", allows_private: bool) -> Page:
    """Fetch a page from the checked address of its host; follow no redirect."""
    # In `http://good.example@evil.example/` the host is the second name.
    if place.scheme not in ("http", "https") or not place.host or place.userinfo:
        raise Unfetched(f"{place} is not a web address: use http or https, without a password")
    host = place.raw_host.decode()
    port = place.port or {"http": 80, "https": 443}[place.scheme]
    address = await resolve(host, port, allows_private)
    headers = {b"User-Agent": AGENT.encode(), b"Accept": ACCEPT.encode()}
    request = pinned_request(client, "GET", place, address, headers=headers)
    answer = await client.send(request, stream=True)
    try:
        return _page(place, answer, await _body(answer))
    finally:
        await answer.aclose()


async def _body(answer: "Response") -> bytes:
    """Return the body of a response, up to the limit."""
    body = bytearray()
    async for chunk in answer.aiter_bytes():
        body += chunk
        if len(body) >= LARGEST:
            break
    return bytes(body[:LARGEST])


def _page(place: "URL", answer: "Response", body: bytes) -> Page:
    target = answer.headers.get("location") if answer.status_code in REDIRECTS else None
    return Page(
        str(place),
        answer.status_code,
        answer.reason_phrase,
        answer.headers.get("content-type", "").partition(";")[0].strip().lower(),
        body,
        answer.charset_encoding,
        str(place.join(target)) if target else None,
    )
