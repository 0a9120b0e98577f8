"""HTTP hooks: post the payload to a URL; the response body is the hook's output.

The address must be public or loopback. Private networks and cloud metadata services are refused,
even if a public name resolves to them.
"""

import re
import socket
from typing import TYPE_CHECKING

from msgspec import Struct

from turnlog.agent.hooks.runs import (
    MOST_OUTPUT,
    Failed,
    Firing,
    HookReply,
    decode_output,
    encode_payload,
)
from turnlog.agent.workspace.network_addresses import NotPublic, pinned_request, resolve
from turnlog.format.json_values import is_array, is_object

if TYPE_CHECKING:
    from httpx2 import URL, AsyncClient, Request, Response

VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))", re.ASCII)
BREAKS = str.maketrans("", "", "\r\n\0")
"""Characters that would end a header and start another one."""
PORTS = {"http": 80, "https": 443}


class Allowed(Struct, frozen=True):
    """Allowlists from the settings; None means no restriction."""

    urls: tuple[str, ...] | None = None
    """URL patterns."""
    variables: tuple[str, ...] | None = None
    """Variables whose values may go into headers."""


ANYTHING = Allowed()


async def post(firing: Firing, allowed: Allowed) -> HookReply:
    """Post the payload; raise `Failed` unless it succeeds with an empty body or a JSON object.

    Redirects are not followed, as they could lead to a URL that the settings do not allow.
    """
    from httpx2 import URL, AsyncClient, HTTPError, InvalidURL

    url = firing.text("url")
    try:
        if not reaches(url, allowed.urls):
            raise Failed(f"{url} is not in allowedHttpHookUrls")
        headers = {b"Content-Type": b"application/json"} | headers_of(firing, allowed)
        body = encode_payload(firing.payload)
        # No timeout of its own: `timed` ends the whole request after the timeout of the hook.
        async with AsyncClient(timeout=None) as client:
            request = await _checked_request(client, URL(url), headers, body)
            response = await client.send(request, stream=True)
            try:
                body = await _read(response)
            finally:
                await response.aclose()
    except NotPublic as error:
        raise Failed(f"{url}: {error} is in a private network") from error
    except (HTTPError, InvalidURL, socket.gaierror, UnicodeError) as error:
        raise Failed(f"{url}: {error or type(error).__name__}") from error
    return _reply(url, response, body)


async def _checked_request(
    client: "AsyncClient", place: "URL", headers: dict[bytes, bytes], body: bytes
) -> "Request":
    """Return a request to an address that was resolved once and checked."""
    if place.scheme not in PORTS or not place.host:
        raise Failed(f"{place} is not a web address")
    port = place.port or PORTS[place.scheme]
    address = await resolve(
        place.raw_host.decode(), port, allows_private=False, allows_loopback=True
    )
    return pinned_request(client, "POST", place, address, headers=headers, content=body)


def reaches(url: str, patterns: tuple[str, ...] | None) -> bool:
    """Return whether a pattern allows a URL; `*` matches anything.

    >>> reaches("http://LOCALHOST.:80/a", ("http://localhost:*",)), reaches("http://b/", ())
    (True, False)
    """
    from httpx2 import URL

    if patterns is None:
        return True
    forms = _forms(URL(url))
    return any(_pattern(each).fullmatch(form) for each in patterns for form in forms)


def headers_of(firing: Firing, allowed: Allowed) -> dict[bytes, bytes]:
    """Return the headers of a hook, substituting variables that both it and the settings allow."""
    # Without the allowlist, a hook in a project's file could send any variable to its own server:
    # `X: $GITHUB_TOKEN`.
    named = firing.handler.get("allowedEnvVars")
    names = {each for each in named if isinstance(each, str)} if is_array(named) else set[str]()
    if allowed.variables is not None:
        names &= set(allowed.variables)

    def value_of(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return firing.environment.get(name, "") if name in names else ""

    headers = firing.handler.get("headers")
    written = headers.items() if is_object(headers) else ()
    filled = {name: VARIABLE.sub(value_of, str(value)) for name, value in written}
    return {name.encode(): value.translate(BREAKS).encode() for name, value in filled.items()}


def _reply(url: str, response: "Response", body: bytes) -> HookReply:
    status, text = response.status_code, body[:MOST_OUTPUT].decode("utf-8-sig", "replace")
    if not response.is_success:
        raise Failed(f"HTTP {status} from {url}", HookReply("", status))
    if len(body) > MOST_OUTPUT:
        return HookReply(text, status, is_cut=True)
    if text.strip() and not _is_json_object(text):
        raise Failed(f"the answer of {url} is not JSON: {text[:200]}", HookReply(text, status))
    return HookReply(text, status)


async def _read(response: "Response") -> bytes:
    body = b""
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > MOST_OUTPUT:
            break
    return body


def _is_json_object(text: str) -> bool:
    try:
        return is_object(decode_output(text))
    except (ValueError, RecursionError):
        return False


def _forms(url: "URL") -> list[str]:
    """Return the normalized forms of a URL, with and without its port.

    They have no user name, so `good@evil` cannot match a pattern for the host `good`.
    """
    host = url.host.rstrip(".")
    port = url.port or PORTS.get(url.scheme)
    path = url.raw_path.decode("ascii")
    plain = [f"{url.scheme}://{host}{path}"] if url.port is None else []
    return [*plain, f"{url.scheme}://{host}:{port}{path}"]


def _pattern(written: str) -> re.Pattern[str]:
    """Compile a URL pattern; a star in the host matches within the host only."""
    scheme, mark, rest = written.partition("://")
    if not mark:
        return re.compile(_starred(written, "."))
    host, slash, path = rest.partition("/")
    host = re.sub(r"\.(?=:|$)", "", host.lower())
    start = f"{_starred(scheme.lower(), '[^:/]')}://{_starred(host, '[^/]')}"
    if slash:
        return re.compile(f"{start}/{_starred(path, '.')}", re.DOTALL)
    return re.compile(start + ("(?:/.*)?" if host.endswith("*") else "/?"), re.DOTALL)


def _starred(written: str, anything: str) -> str:
    return f"{anything}*".join(map(re.escape, written.split("*")))
