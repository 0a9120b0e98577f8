"""Put files into S3-compatible storage: requests signed with AWS Signature Version 4.

Signed by hand: three kinds of requests take 60 lines of hashlib and hmac, while botocore is 14 MB
of code and takes a second to import.
"""

import hashlib
import hmac
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import quote, urlsplit

from turnlog.errors import Unavailable, UsageError

ALGORITHM = "AWS4-HMAC-SHA256"
UNSIGNED = "UNSIGNED-PAYLOAD"
LONGEST_LINK = 7
"""Maximum days that a presigned URL may be valid, by AWS's rules."""
SECONDS = 60.0
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Storage:
    """A bucket and the keys for it."""

    endpoint: str
    """`https://host`, without a path."""
    bucket: str
    region: str
    access_key: str
    secret_key: str
    token: str | None
    is_virtual_host: bool
    """True if the bucket is part of the host name, as on AWS."""

    def address(self, key: str) -> str:
        """Return the address of an object."""
        path = quote(key, safe="/-_.~")
        if self.is_virtual_host:
            scheme, _, host = self.endpoint.partition("://")
            return f"{scheme}://{self.bucket}.{host}/{path}"
        return f"{self.endpoint}/{self.bucket}/{path}"


def find_storage(
    bucket: str, endpoint: str | None, environment: Mapping[str, str] = os.environ
) -> Storage:
    """Return a bucket with the keys from the variables that AWS's own tools read."""
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    access, secret = (environment.get(name) for name in names)
    if not (access and secret):
        raise Unavailable(f"{' and '.join(names)} are not set", f"export {names[0]}=KEY")
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1"
    variables = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    named = endpoint or next(filter(None, map(environment.get, variables)), None)
    default = f"https://s3.{region}.amazonaws.com"
    where = named or default
    require_safe_address(where)
    # The wildcard of the certificate covers one label, so not `my.bucket.s3.…`.
    is_virtual_host = where == default and "." not in bucket
    token = environment.get("AWS_SESSION_TOKEN")
    return Storage(where.rstrip("/"), bucket, region, access, secret, token, is_virtual_host)


def require_safe_address(address: str) -> None:
    """Raise UsageError unless an address uses https or is on this machine."""
    parts = urlsplit(address)
    is_local = parts.scheme == "http" and parts.hostname in LOOPBACK
    if not parts.hostname or not (parts.scheme == "https" or is_local):
        message = f"{parts.scheme}://{parts.netloc} is not an https address"
        raise UsageError(message, "turnlog share --help")


def put_object(storage: Storage, key: str, content: bytes, kind: str) -> None:
    """Write an object."""
    _send(storage, "PUT", key, content, {"content-type": kind})


def delete_object(storage: Storage, key: str) -> None:
    """Delete an object, if it still exists."""
    _send(storage, "DELETE", key, b"", {})


def put_presigned(address: str, content: bytes, kind: str) -> None:
    """Upload to a presigned URL."""
    require_safe_address(address)
    _request("PUT", address, content, {"content-type": kind})


def signed_link(storage: Storage, key: str, days: int, now: datetime | None = None) -> str:
    """Return a presigned URL from which anyone can read an object for some days."""
    moment = now or datetime.now(UTC)
    address = urlsplit(storage.address(key))
    query = {
        "X-Amz-Algorithm": ALGORITHM,
        "X-Amz-Credential": f"{storage.access_key}/{_scope(storage, moment)}",
        "X-Amz-Date": f"{moment:%Y%m%dT%H%M%SZ}",
        "X-Amz-Expires": str(min(days, LONGEST_LINK) * 86400),
        # Only the host is signed: a browser that opens the link sends headers of its own.
        "X-Amz-SignedHeaders": "host",
    }
    if storage.token:
        query["X-Amz-Security-Token"] = storage.token
    text = "&".join(f"{name}={quote(value, safe='')}" for name, value in sorted(query.items()))
    request = "\n".join(["GET", address.path, text, f"host:{address.netloc}\n", "host", UNSIGNED])
    signature = _signature(storage, moment, request)
    return f"{storage.address(key)}?{text}&X-Amz-Signature={signature}"


def _send(storage: Storage, verb: str, key: str, content: bytes, extra: dict[str, str]) -> None:
    address = storage.address(key)
    parts = urlsplit(address)
    moment = datetime.now(UTC)
    digest = hashlib.sha256(content).hexdigest()
    headers = {
        **extra,
        "host": parts.netloc,
        "x-amz-content-sha256": digest,
        "x-amz-date": f"{moment:%Y%m%dT%H%M%SZ}",
    }
    if storage.token:
        headers["x-amz-security-token"] = storage.token
    # Sorted, because the server sorts them before it computes the same signature.
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    signature = _signature(storage, moment, "\n".join([verb, parts.path, "", lines, names, digest]))
    credential = f"{storage.access_key}/{_scope(storage, moment)}"
    headers["authorization"] = (
        f"{ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}"
    )
    _request(verb, address, content, headers)


def _scope(storage: Storage, moment: datetime) -> str:
    return f"{moment:%Y%m%d}/{storage.region}/s3/aws4_request"


def _signature(storage: Storage, moment: datetime, request: str) -> str:
    key = f"AWS4{storage.secret_key}".encode()
    for part in (f"{moment:%Y%m%d}", storage.region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    digest = hashlib.sha256(request.encode()).hexdigest()
    text = f"{ALGORITHM}\n{moment:%Y%m%dT%H%M%SZ}\n{_scope(storage, moment)}\n{digest}"
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _request(verb: str, address: str, content: bytes, headers: dict[str, str]) -> None:
    parts = urlsplit(address)
    path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
    connection = _connect(parts.scheme, parts.hostname or "", parts.port)
    try:
        connection.request(verb, path, content or None, headers)
        response = connection.getresponse()
        # An error document is short; a hostile server could send data forever.
        answer = response.read(1 << 16)
    except (OSError, HTTPException) as error:
        message = f"cannot reach {parts.scheme}://{parts.netloc}: {error}"
        raise Unavailable(message) from error
    finally:
        connection.close()
    # Redirects are not followed: they would send the file somewhere else.
    if not 200 <= response.status < 300:
        raise Unavailable(_refusal(parts.netloc, response, answer))


def _connect(scheme: str, host: str, port: int | None) -> HTTPConnection:
    if scheme == "http":
        return HTTPConnection(host, port, timeout=SECONDS)
    return HTTPSConnection(host, port, timeout=SECONDS, context=ssl.create_default_context())


def _refusal(host: str, response: HTTPResponse, answer: bytes) -> str:
    code = answer.partition(b"<Code>")[2].partition(b"</Code>")[0].decode("ascii", "replace")
    reason = f"{response.status} {response.reason}{f' ({code})' if code else ''}"
    return f"{host} refused the request: {reason}"
