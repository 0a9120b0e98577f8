"""turnlog files: the files that a session touched."""

import click

from turnlog.cli.arguments import json_option, reveal_option, session_argument
from turnlog.cli.output import echo_json, plain
from turnlog.cli.sessions import open_named
from turnlog.cli.terminal import Look, dim, echo, style
from turnlog.render.files import FileView, touched_files
from turnlog.store.paths import Store

COLOURS: dict[str, Look] = {"+": "green", "-": "red"}
"""Of lines of a diff."""


@click.command("files")
@session_argument
@click.option("--diff", is_flag=True, help="Show what each call changed.")
@reveal_option
@json_option
@click.pass_obj
def command(store: Store, session: str, diff: bool, reveal: bool, as_json: bool) -> None:
    """List the files that SESSION read or changed, and by which calls."""
    files = touched_files(open_named(store, session), reveal or as_json)
    if as_json:
        echo_json(files)
        return
    for file in files:
        _print(file, diff)


def _print(file: FileView, diff: bool) -> None:
    changes = style(f"+{file.added} -{file.removed}", "green") if file.changes else ""
    reads = dim(f"read {file.reads}×") if file.reads else ""
    facts = "  ".join(filter(None, (changes, reads)))
    echo(f"{plain(file.path)}  {facts}")
    for change in file.changes:
        if diff:
            echo(dim(f"  {change.tool} in line {change.line}, {plain(change.time)}"))
            for line in change.diff:
                colour = COLOURS.get(line[:1])
                echo(f"    {style(plain(line, keep_indent=True), colour)}")
