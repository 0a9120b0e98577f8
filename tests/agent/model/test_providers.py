"""Providers of models, through their own libraries and over real HTTP."""

import base64
import json
import os
import struct
import subprocess
import sys
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from zlib import crc32

import pytest

from support.scripted_api import said, stream_events
from turnlog.agent.workspace.repository import CEILINGS

BEDROCK = {"CLAUDE_CODE_USE_BEDROCK": "1"}
IN_REGION = {**BEDROCK, "AWS_REGION": "eu-central-1", "AWS_EC2_METADATA_DISABLED": "true"}
VERTEX = {"CLAUDE_CODE_USE_VERTEX": "1"}
OF_PROJECT = {
    **VERTEX,
    "CLOUD_ML_REGION": "europe-west1",
    "ANTHROPIC_VERTEX_PROJECT_ID": "shop",
    "NO_GCE_CHECK": "true",
}


class Service(ThreadingHTTPServer):
    """Bedrock, Vertex, and where Vertex's library asks for credentials."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, str]] = []
        """Path and authorization of each request for an answer."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if "/token" in self.path:
            self._send("application/json", b'{"access_token": "google", "expires_in": 3600}')
        else:
            self._send("application/json", b'{"email": "default", "scopes": []}')

    def do_POST(self) -> None:
        assert isinstance(self.server, Service)
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, self.headers["Authorization"]))
        events = list(stream_events(said("Hello!").body))
        if self.path.endswith("/invoke-with-response-stream"):
            self._send("application/vnd.amazon.eventstream", b"".join(map(_framed, events)))
        else:
            lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
            self._send("text/event-stream", "".join(lines).encode())

    def _send(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Metadata-Flavor", "Google")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


def _framed(event: dict[str, Any]) -> bytes:
    """An event as AWS sends it: lengths, headers, payload, each part with its checksum."""
    payload = json.dumps({"bytes": base64.b64encode(json.dumps(event).encode()).decode()}).encode()
    names = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
    headers = b"".join(
        struct.pack(">B", len(name)) + name.encode() + struct.pack(">BH", 7, len(value)) + value
        for name, value in ((name, text.encode()) for name, text in names.items())
    )
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack(">I", crc32(prelude)) + headers + payload
    return message + struct.pack(">I", crc32(message))


@pytest.fixture
def service() -> Generator[Service]:
    server = Service()
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def ask(home: Path, variables: dict[str, str], without: str = "") -> str:
    """Run a chat in a process of its own, because the services' libraries keep state."""
    known = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", CEILINGS: str(home)}
    hidden = f"sys.modules[{without!r}] = None; " if without else ""
    program = f"import sys; {hidden}from turnlog.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "chat", "-p", "hi", "--model", "a-model"],
        env=known | variables,
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return (done.stdout + done.stderr).rstrip()


def test_bedrock_is_asked_with_a_signed_request(service: Service, tmp_path: Path) -> None:
    address = {"ANTHROPIC_BEDROCK_BASE_URL": f"http://{service.address}"}
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    assert ask(tmp_path, IN_REGION | address | keys) == "Hello!"
    [(path, authorization)] = service.asked
    assert path == "/model/a-model/invoke-with-response-stream"
    assert authorization.startswith("AWS4-HMAC-SHA256 Credential=key/")
    assert "/eu-central-1/bedrock/" in authorization


def test_vertex_is_asked_with_the_credentials_of_the_machine(
    service: Service, tmp_path: Path
) -> None:
    address = {"ANTHROPIC_VERTEX_BASE_URL": f"http://{service.address}/v1"}
    names = ("GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP")
    machine = {"NO_GCE_CHECK": "", **dict.fromkeys(names, service.address)}
    assert ask(tmp_path, OF_PROJECT | address | machine) == "Hello!"
    place = "projects/shop/locations/europe-west1/publishers/anthropic/models"
    assert service.asked == [(f"/v1/{place}/a-model:streamRawPredict", "Bearer google")]


@pytest.mark.parametrize(
    ("variables", "message", "hint"),
    [
        (BEDROCK, "Bedrock: No AWS region", "export AWS_REGION"),
        (IN_REGION, "Bedrock: Could not resolve AWS credentials", "AWS_PROFILE"),
        (VERTEX, "Vertex: Expected a non-empty value for `region`", "CLOUD_ML_REGION"),
        (OF_PROJECT, "Vertex: Your default credentials were not found", "gcloud"),
    ],
)
def test_what_a_service_lacks_is_told_on_one_line_with_a_hint(
    variables: dict[str, str], message: str, hint: str, tmp_path: Path
) -> None:
    [line] = ask(tmp_path, variables).splitlines()
    assert message in line
    assert hint in line


@pytest.mark.parametrize(
    ("variables", "module", "package"),
    [
        (IN_REGION, "botocore", "turnlog[bedrock]"),
        (OF_PROJECT, "google.auth", "turnlog[vertex]"),
    ],
)
def test_a_package_that_is_missing_is_named(
    variables: dict[str, str], module: str, package: str, tmp_path: Path
) -> None:
    [line] = ask(tmp_path, variables, without=module).splitlines()
    assert f"support is not installed (try: pip install '{package}')" in line
