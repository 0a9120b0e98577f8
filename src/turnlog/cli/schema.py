"""turnlog schema: JSON Schema of the entry kinds."""

from typing import Any

import click
import msgspec

from turnlog.cli.output import echo_json
from turnlog.cli.terminal import echo
from turnlog.errors import NotFound
from turnlog.format.kinds import KINDS
from turnlog.format.schema import schema_of_kinds
from turnlog.render.costs import CostView
from turnlog.render.json_views import CallView, TurnView
from turnlog.render.touched_files import FileView

OUTPUTS: dict[str, Any] = {
    "turns": list[TurnView],
    "calls": list[CallView],
    "files": list[FileView],
    "cost": CostView,
}


def _complete_kind(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in [*KINDS, *OUTPUTS] if name.startswith(incomplete)]


@click.command("schema")
@click.argument("kind", required=False, shell_complete=_complete_kind)
@click.option("--list", "as_list", is_flag=True, help="Print the names of the kinds.")
def command(kind: str | None, as_list: bool) -> None:
    """Print the JSON Schema of KIND, or of any entry.

    A system entry's kind is `system/` and its subtype, such as `system/compact_boundary`. KIND
    may also name what a command prints with --json: turns, calls, files, cost.
    """
    if as_list:
        echo("\n".join([*KINDS, *OUTPUTS]))
    elif kind in OUTPUTS:
        echo_json(msgspec.json.schema(OUTPUTS[kind]))
    elif kind is None or kind in KINDS:
        echo_json(schema_of_kinds([kind] if kind else None))
    else:
        raise NotFound(f"turnlog knows no entry kind {kind!r}", "turnlog schema --list")
