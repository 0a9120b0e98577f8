"""The server over HTTP: the official client, and everyone who must be refused."""

import asyncio
import json
import re
import subprocess
from collections.abc import Generator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from support.mcp_peer import HELLO, server_command
from turnlog.mcp_server.tool_table import TOOLS

PRINTED = re.compile(r"(http://127\.0\.0\.1:(\d+)/mcp) --header \"Authorization: Bearer (\S+)\"")
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


class HttpServer(NamedTuple):
    """The address of a running server."""

    url: str
    port: int
    token: str

    def post(self, body: bytes, without: str = "", **headers: str) -> tuple[int, bytes]:
        """Send a request with the headers of a client, some replaced and one left out."""
        usual = {
            "Host": f"127.0.0.1:{self.port}",
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
        }
        sent = usual | {name.replace("_", "-").title(): value for name, value in headers.items()}
        sent.pop(without, None)
        method = sent.pop("Method", "POST")
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.putrequest(method, sent.pop("Path", "/mcp"), skip_host=True)
            for name, value in (sent | {"Content-Length": str(len(body))}).items():
                connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            return response.status, response.read()


@contextmanager
def running(root: Path) -> Generator[HttpServer]:
    with subprocess.Popen(
        [*server_command(root), "--http"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout
            found = PRINTED.search(process.stdout.readline())
            assert found
            yield HttpServer(found[1], int(found[2]), found[3])
        finally:
            process.terminate()


def test_the_official_client_talks_to_it_and_no_stranger_does(root: Path) -> None:
    with running(root) as server:
        _talk(server)
        body = json.dumps(PING).encode()
        assert server.post(body)[0] == 200
        assert server.post(body, content_type="Application/JSON; charset=utf-8")[0] == 200
        refused = {
            "no token": (server.post(body, without="Authorization"), 401),
            "wrong token": (server.post(body, authorization="Bearer x"), 401),
            "rebound name": (server.post(body, host=f"evil.example:{server.port}"), 421),
            "other origin": (server.post(body, origin="http://localhost:3000"), 403),
            "other site": (server.post(body, sec_fetch_site="cross-site"), 403),
            "form": (server.post(body, content_type="text/plain"), 415),
            "get": (server.post(b"", method="GET"), 405),
            "delete": (server.post(b"", method="DELETE"), 405),
            "other path": (server.post(body, path="/"), 404),
        }
        assert {name: got[0] for name, (got, _) in refused.items()} == {
            name: status for name, (_, status) in refused.items()
        }
        rebound, _ = refused["rebound name"]
        assert b"turnlog mcp --http" in rebound[1]
        assert b"--origin" not in rebound[1]
        for wrong in (b"nonsense", b"[]", b"[" * 50_000, b"x" * (5 << 20)):
            status, answer = server.post(wrong)
            assert status == 200
            assert "error" in json.loads(answer)
        note = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
        assert server.post(note) == (202, b"")
        hello = PING | {"method": "initialize", "params": HELLO}
        assert b"instructions" in server.post(json.dumps(hello).encode())[1]


def _talk(server: HttpServer) -> None:
    async def talk() -> None:
        headers = {"Authorization": f"Bearer {server.token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(server.url, http_client=http)) as client,
        ):
            assert {tool.name for tool in (await client.list_tools()).tools} == set(TOOLS)
            answer = await client.call_tool("search", {"query": "which database for orders"})
            assert "We decided on Postgres" in answer.content[0].text  # pyright: ignore

    asyncio.run(talk())


@pytest.mark.parametrize("port", ["-1", "65536", "x"])
def test_a_wrong_port_is_refused(root: Path, port: str) -> None:
    done = subprocess.run(
        [*server_command(root), "--http", "--port", port], capture_output=True, check=False
    )
    assert done.returncode == 2
