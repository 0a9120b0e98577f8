"""An MCP server to call: `python mcp_server.py`, or with `http`, `sse` on a port that it prints."""

import base64
import io
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import PIL.Image
from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    BlobResourceContents,
    EmbeddedResource,
    ResourceLink,
    TextResourceContents,
    ToolAnnotations,
)

server = MCPServer("shop")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool()
def picture() -> Image:
    """A picture."""
    picture = io.BytesIO()
    PIL.Image.new("RGB", (2_400, 12)).save(picture, "PNG")
    return Image(data=picture.getvalue(), format="png")


@server.tool()
def fail() -> str:
    """Never succeeds."""
    raise ToolError("out of stock")


@server.tool()
def long() -> str:
    """Says very much."""
    return "word " * 50_000


@server.tool(structured_output=False)
def resources() -> list[Any]:
    """Things of several kinds."""
    blob = base64.b64encode(b"PK").decode()
    zipped = BlobResourceContents(uri="shop://a.zip", mime_type="application/zip", blob=blob)
    return [
        EmbeddedResource(resource=TextResourceContents(uri="shop://list", text="apples")),
        EmbeddedResource(resource=zipped),
        ResourceLink(name="more", uri="shop://more"),
    ]


@server.tool()
def variable(name: str) -> str:
    """A variable of the environment."""
    return os.environ.get(name, "") + " in " + str(Path.cwd())


@server.tool()
async def hang() -> str:
    """Never ends."""
    print("hanging", file=sys.stderr, flush=True)
    await anyio.sleep_forever()
    return ""


@server.tool()
def crash() -> str:
    """Ends the server."""
    os._exit(3)


def serve_http(kind: str, token: str) -> None:
    """Serve on a free port, and only those who know the token."""
    import uvicorn

    app = server.sse_app() if kind == "sse" else server.streamable_http_app()

    async def guarded(scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        headers = dict(scope.get("headers", []))
        if scope["type"] == "http" and headers.get(b"authorization") != f"Bearer {token}".encode():
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await app(scope, receive, send)

    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(guarded, log_level="error")).run(sockets=[listening])


if __name__ == "__main__":
    if sys.argv[1:]:
        serve_http(sys.argv[1], sys.argv[2])
    else:
        server.run()
