"""turnlog show: print a session as a readable transcript, Markdown or JSON."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Any

import click

from turnlog.cli.arguments import (
    json_option,
    leaf_option,
    output_option,
    reveal_option,
    session_argument,
)
from turnlog.cli.output import echo_lines, plain_masked, width
from turnlog.cli.sessions import leaf_of, open_lazily, place_of
from turnlog.cli.store_options import with_stores
from turnlog.cli.terminal import Look, is_coloured, style
from turnlog.errors import UsageError
from turnlog.render.depth import Depth
from turnlog.render.export import EXTENSIONS, LINES, require_turn, text_lines
from turnlog.render.rows import ViewOptions
from turnlog.render.terminal_text import Terminal
from turnlog.store.stores import Stores, find_holder

LOOKS: dict[str, tuple[Look, ...]] = {
    "prompt": ("green", "bold"),
    "thought": ("dim", "italic"),
    "note": ("yellow",),
    "error": ("red",),
    "ok": ("cyan",),
    "tool": ("bold",),
    "added": ("green",),
    "removed": ("red",),
    "output": ("dim",),
    "dim": ("dim",),
    "code": ("cyan",),
    "heading": ("bold", "underline"),
    "bold": ("bold",),
}

_REFERENCE = re.compile(r"(last|agent-[^\s:/]+|[0-9a-f]{4,}[0-9a-f-]*):(\d{1,9})")
"""SESSION:LINE as the MCP server cites it; the session is never a path or a title."""


@click.command("show")
@session_argument
@click.option("--turn", type=click.IntRange(1), metavar="N", help="Show only turn N.")
@click.option(
    "--line", type=click.IntRange(1), metavar="N", help="Show only the turn that contains line N."
)
@leaf_option
@click.option("--full", is_flag=True, help="Show outputs, injected texts and long prompts in full.")
@click.option("--thinking/--no-thinking", default=True, help="Include the model's thinking.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "md", "json"]),
    help="Output format; by default that of the output file's extension, else text.",
)
@output_option(is_exposed=True)
@click.option("--pager/--no-pager", default=None, help="Use a pager; by default on a terminal.")
@reveal_option
@json_option
@with_stores
def command(stores: Stores, session: str, pager: bool | None, **view: Any) -> None:
    """Show SESSION as a readable transcript.

    Prints prompts, answers, thinking and tool calls of the active branch. On a terminal, the text
    goes through a pager. SESSION:N, as models cite a line, is short for SESSION --line N.

    \b
    Examples:
      turnlog show last
      turnlog show 3f2a --turn 2 --full
      turnlog show 5e551011:120
      turnlog show last --json | jq '.[0].prompt'
    """
    form = _format(view.pop("form"), view.pop("as_json"), view.pop("output"))
    if view["line"] is None and (cited := _REFERENCE.fullmatch(session)):
        session, view["line"] = cited[1], max(1, int(cited[2]))
    opened = open_lazily(stores, session)
    leaf = leaf_of(opened, view.pop("leaf"))
    if view["line"] is not None:
        if view["turn"] or leaf is not None:
            message = "--line cannot be combined with --turn or --leaf"
            raise UsageError(message, f"turnlog show {quote(session)} --line {view['line']}")
        opened, leaf, view["turn"], view["line"] = place_of(opened, view["line"])
    options = ViewOptions(leaf=leaf, store=find_holder(stores, opened.path), **view)
    require_turn(opened, options.turn, options.leaf)
    depth = Depth.FULL if options.full or form == "json" else Depth.CALLS
    if form != "text":
        echo_lines(LINES[form](opened, options, depth))
        return
    is_paged = pager or (pager is None and sys.stdout.isatty())
    terminal = Terminal(_paint, options.full, width() if is_paged else 0)
    lines = text_lines(opened, options, depth, terminal)
    if is_paged:
        _page(lines, terminal, options.line is not None)
    else:
        echo_lines(lines)


def _format(form: str | None, as_json: bool, output: str | None) -> str:
    """Return the output format: the chosen one, else the one that a file's extension names."""
    if as_json and form not in (None, "json"):
        raise UsageError(f"--json cannot be combined with --format {form}", "turnlog show --help")
    named = EXTENSIONS.get(Path(output).suffix.lower()) if output else None
    if named == "html" and not (form or as_json):
        raise UsageError("show prints no HTML", f"turnlog export SESSION -o {output}")
    return "json" if as_json else form or (named if named in LINES and named != "txt" else "text")


def _paint(text: str, role: str) -> str:
    return style(plain_masked(text, keep_indent=True), *LOOKS.get(role, ()))


def _page(lines: Iterator[str], terminal: Terminal, is_placed: bool) -> None:
    """Show lines in a pager, which opens at the line that was asked for."""
    # With None, click detects whether the pager supports colours, and enables them in `less`.
    color = None if is_coloured(sys.stdout) else False
    shown = list(lines) if is_placed else lines
    before = os.environ.get("LESS")
    if is_placed and terminal.opened_at:
        # Other pagers ignore the variable and start at the top.
        os.environ["LESS"] = f"{before or '-R'} +{terminal.opened_at + 1}g"
    try:
        click.echo_via_pager((f"{line}\n" for line in shown), color)
    finally:
        if before is None:
            os.environ.pop("LESS", None)
        else:
            os.environ["LESS"] = before
