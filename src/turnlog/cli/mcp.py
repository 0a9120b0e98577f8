"""turnlog mcp: serve session history to MCP clients."""

import sys
from contextlib import suppress
from pathlib import Path

import click

from turnlog.cli.store_options import with_stores
from turnlog.store.stores import Stores, each_store

WAITING = """\
Waiting for an MCP client on stdin; press Ctrl-D to stop.
(try: claude mcp add turnlog -- turnlog mcp)"""


@click.command("mcp")
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Show sessions of this directory; by default the current one.",
)
@click.option("--http", "over_http", is_flag=True, help="Serve on a port of 127.0.0.1 instead.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port; by default a free one."
)
@with_stores
def command(stores: Stores, directory: Path | None, over_http: bool, port: int) -> None:
    """Serve earlier sessions to an MCP client, over stdin and stdout.

    The tools are search, sessions, read, files, usage, context and errors. They show sessions of
    the current project, its worktrees and its subdirectories, except for the calling session.
    Clients may ask for all projects if config.toml says `scope = "all"` in its table [mcp]. The
    server only reads, masks secrets, and exits when its input ends.

    \b
    Examples:
      claude mcp add history -- turnlog mcp
      turnlog mcp --directory ~/shop
      turnlog mcp --http --port 8123
    """
    project = (directory or Path.cwd()).absolute()
    if over_http:
        _serve_http(stores, project, port)
        return
    from turnlog.cli.terminal import echo
    from turnlog.mcp_server.stdio_server import serve_stdio

    if sys.stdin.isatty():
        echo(WAITING, err=True)
    serve_stdio(each_store(stores), project)


def _serve_http(stores: Stores, project: Path, port: int) -> None:
    from turnlog.cli.terminal import echo, echo_masked
    from turnlog.mcp_server.http_server import serve_http

    def start(url: str, token: str) -> None:
        header = f'--header "Authorization: Bearer {token}"'
        # The one secret that is meant to be seen.
        echo_masked(f"claude mcp add --transport http turnlog {url} {header}")
        echo("Press Ctrl-C to stop.", err=True)

    with suppress(KeyboardInterrupt):
        serve_http(each_store(stores), project, port, start)
