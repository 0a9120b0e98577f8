"""turnlog show: print a session as a readable transcript, Markdown or JSON."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from turnlog.cli.arguments import (
    json_option,
    leaf_option,
    output_option,
    reveal_option,
    session_argument,
)
from turnlog.cli.output import echo_lines, plain_masked, to_json
from turnlog.cli.sessions import leaf_of, open_lazily, place_of
from turnlog.cli.terminal import Look, is_coloured, style
from turnlog.conversation.session import Session
from turnlog.errors import NotFound, UsageError
from turnlog.render.json_views import turn_view
from turnlog.render.markdown import to_markdown
from turnlog.render.rows import ViewOptions, chosen_turns, rows_of
from turnlog.render.terminal_text import Terminal
from turnlog.store.paths import Store
from turnlog.text import harmless

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
@click.pass_obj
def command(store: Store, session: str, pager: bool | None, **view: Any) -> None:
    """Show SESSION as a readable transcript.

    Prints prompts, answers, thinking and tool calls of the active branch. On a terminal, the text
    goes through a pager.

    \b
    Examples:
      turnlog show last
      turnlog show 3f2a --turn 2 --full
      turnlog show last -o session.md
      turnlog show last --json | jq '.[0].prompt'
    """
    form = _format(view.pop("form"), view.pop("as_json"), view.pop("output"))
    opened = open_lazily(store, session)
    leaf = leaf_of(opened, view.pop("leaf"))
    if view["line"] is not None:
        if view["turn"] or leaf is not None:
            message = "--line cannot be combined with --turn or --leaf"
            raise UsageError(message, f"turnlog show {session} --line {view['line']}")
        opened, leaf, view["turn"], view["line"] = place_of(opened, view["line"])
    options = ViewOptions(leaf=leaf, **view)
    _require_turn(opened, options)
    lines = FORMS[form](opened, options)
    if form == "text" and (pager or (pager is None and _is_terminal())):
        # None lets click find out whether the pager shows colours, and tell `less` to.
        color = None if is_coloured(sys.stdout) else False
        click.echo_via_pager((f"{line}\n" for line in lines), color)
    else:
        echo_lines(lines)


def _format(form: str | None, as_json: bool, output: str | None) -> str:
    """Return the output format: the chosen one, else the one that a file's extension names."""
    if as_json and form not in (None, "json"):
        raise UsageError(f"--json cannot be combined with --format {form}", "turnlog show --help")
    extension = Path(output).suffix.lower() if output else ""
    return "json" if as_json else form or EXTENSIONS.get(extension, "text")


def _text(session: Session, options: ViewOptions) -> Iterator[str]:
    def paint(text: str, role: str) -> str:
        return style(plain_masked(text, keep_indent=True), *LOOKS.get(role, ()))

    return Terminal(paint, options.full).draw(rows_of(session, options))


def _markdown(session: Session, options: ViewOptions) -> Iterator[str]:
    return map(harmless, to_markdown(rows_of(session, options), options.full))


def _json(session: Session, options: ViewOptions) -> Iterator[str]:
    chosen = chosen_turns(session, options)
    # to_json masks, and knows the names of fields.
    yield to_json([turn_view(session, turn, reveal=True) for turn in chosen], indent=2)


def _require_turn(session: Session, options: ViewOptions) -> None:
    turns = session.turns if options.leaf is None else session.turns_to(options.leaf)
    if options.turn and options.turn > len(turns):
        message = f"{session.path.name} has {len(turns)} turns, no turn {options.turn}"
        raise NotFound(message, f"turnlog turns {session.id[:8]}")


def _is_terminal() -> bool:
    return sys.stdout.isatty()


FORMS = {"text": _text, "md": _markdown, "json": _json}
EXTENSIONS = {".md": "md", ".markdown": "md", ".json": "json"}
