"""turnlog mcp: serve session history to MCP clients."""

from pathlib import Path

import click

from turnlog.cli.store_options import with_stores
from turnlog.store.stores import Stores, each_store


@click.command("mcp")
@click.option(
    "--project",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Show sessions of this directory; by default the current one.",
)
@with_stores
def command(stores: Stores, project: Path | None) -> None:
    """Serve earlier sessions to an MCP client, over stdin and stdout.

    The tools are search, sessions, read, files, usage, context and errors. They show sessions of
    the current project, its worktrees and directories below, without the calling session. Clients
    may ask for all projects if config.toml says `scope = "all"` in its table [mcp]. The server
    only reads, masks secrets, and exits when its input ends.

    \b
    Examples:
      claude mcp add turnlog -- turnlog mcp
      turnlog mcp --project ~/shop
      turnlog mcp --store /mnt/laptop/.claude
    """
    from turnlog.mcp_server.stdio_server import serve_stdio

    serve_stdio(each_store(stores), project or Path.cwd())
