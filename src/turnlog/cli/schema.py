"""turnlog schema: print the JSON Schema of entries and of command output."""

from typing import Any

import click
import msgspec

from turnlog.cli.arguments import json_option, output_option
from turnlog.cli.output import echo_json
from turnlog.cli.terminal import echo
from turnlog.errors import NotFound
from turnlog.format.kinds import KINDS
from turnlog.format.schema import schema_of_kinds
from turnlog.render.carrying_view import CarryingView
from turnlog.render.costs import CostView
from turnlog.render.json_views import CallView, TurnView
from turnlog.render.touched_files import FileView

OUTPUTS: dict[str, Any] = {
    "turns": list[TurnView],
    "calls": list[CallView],
    "files": list[FileView],
    "cost": CostView,
    "carrying": CarryingView,
}


def _complete_kind(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in [*KINDS, *OUTPUTS] if name.startswith(incomplete)]


@click.command("schema")
@click.argument("kind", required=False, shell_complete=_complete_kind)
@click.option("--list", "as_list", is_flag=True, help="List the names of all kinds.")
@output_option()
@json_option
def command(kind: str | None, as_list: bool, as_json: bool) -> None:
    """Print the JSON Schema of KIND, or of all entries.

    KIND is an entry's type; for system entries `system/` and the subtype. It may also name the
    --json output of a command: turns, calls, files, cost, or carrying for cost --carrying.

    \b
    Examples:
      turnlog schema --list
      turnlog schema system/compact_boundary
      turnlog schema turns -o turns.schema.json
    """
    if as_list and as_json:
        echo_json([*KINDS, *OUTPUTS])
    elif as_list:
        echo("\n".join([*KINDS, *OUTPUTS]))
    elif kind in OUTPUTS:
        echo_json(msgspec.json.schema(OUTPUTS[kind]))
    elif kind is None or kind in KINDS:
        echo_json(schema_of_kinds([kind] if kind else None))
    else:
        raise NotFound(f"unknown entry kind {kind!r}", "turnlog schema --list")
