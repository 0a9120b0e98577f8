"""S3-compatible storage on loopback that checks signatures with botocore, AWS's own code."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

# Untyped packages.
_auth: Any = import_module("botocore.auth")
_request: Any = import_module("botocore.awsrequest")
_credentials: Any = import_module("botocore.credentials")
ACCESS, SECRET = "AKIAEXAMPLE", "not-a-real-key"


@dataclass
class StorageServer:
    """The objects of a server, by path."""

    url: str = ""
    objects: dict[str, bytes] = field(default_factory=dict[str, bytes])
    kinds: dict[str, str] = field(default_factory=dict[str, str])
    refused: int = 0


def _is_signed(handler: BaseHTTPRequestHandler, body: bytes) -> bool:
    """Return whether AWS's own code would have signed a request like this."""
    url = f"http://{handler.headers['host']}{handler.path}"
    credentials = _keys()
    query = parse_qs(urlsplit(url).query)
    if "X-Amz-Signature" in query:
        return _is_signed_link(handler.command, url, query, credentials)
    given = handler.headers.get("authorization", "")
    names = given.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    headers = {name: handler.headers[name] for name in names if name in handler.headers}
    request = _request.AWSRequest(handler.command, url, headers, body)
    auth = _auth.S3SigV4Auth(credentials, "s3", "us-east-1")
    request.context["timestamp"] = handler.headers.get("x-amz-date", "")
    text = auth.string_to_sign(request, auth.canonical_request(request))
    return given.endswith(f"Signature={auth.signature(text, request)}")


def _is_signed_link(verb: str, url: str, query: dict[str, list[str]], keys: Any) -> bool:
    plain, _, signature = url.partition("&X-Amz-Signature=")
    request = _request.AWSRequest(verb, plain, {"host": urlsplit(url).netloc})
    request.context["timestamp"] = query["X-Amz-Date"][0]
    auth = _auth.S3SigV4QueryAuth(keys, "s3", "us-east-1", int(query["X-Amz-Expires"][0]))
    text = auth.string_to_sign(request, auth.canonical_request(request))
    return signature == auth.signature(text, request)


def upload_address(url: str) -> str:
    """Return an address that AWS's own code has signed for one upload."""
    request = _request.AWSRequest("PUT", url)
    _auth.S3SigV4QueryAuth(_keys(), "s3", "us-east-1", 60).add_auth(request)
    return str(request.url)


def _keys() -> Any:
    return _credentials.Credentials(ACCESS, SECRET)


@contextmanager
def storage_server() -> Generator[StorageServer]:
    """Run a server until the block ends."""
    storage = StorageServer()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            path = urlsplit(self.path).path
            if not _is_signed(self, body):
                storage.refused += 1
                self._send(403, b"<Error><Code>SignatureDoesNotMatch</Code></Error>")
            elif self.command == "PUT":
                storage.objects[path] = body
                storage.kinds[path] = self.headers["content-type"]
                self._send(200, b"")
            elif self.command == "DELETE":
                storage.objects.pop(path, None)
                self._send(204, b"")
            elif path in storage.objects:
                self._send(200, storage.objects[path])
            else:
                self._send(404, b"")

        do_GET = do_PUT = do_DELETE = _answer  # noqa: N815

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    storage.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield storage
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
