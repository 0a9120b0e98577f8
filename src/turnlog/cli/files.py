"""turnlog files: list the files that a session read or changed."""

import click

from turnlog.cli.arguments import json_option, output_option, reveal_option, session_argument
from turnlog.cli.output import echo_json, plain, width
from turnlog.cli.sessions import open_named
from turnlog.cli.store_options import with_stores
from turnlog.cli.tables import Column, Table, with_rows
from turnlog.cli.terminal import Look, dim, echo, style
from turnlog.render.touched_files import FileView, touched_files
from turnlog.store.stores import Stores

COLOURS: dict[str, Look] = {"+": "green", "-": "red"}
"""Colours of diff lines, by their first character."""
COLUMNS = (
    Column("file", is_path=True),
    Column("+lines", is_number=True, look="green"),
    Column("-lines", is_number=True, look="red"),
    Column("reads", is_number=True, expendable=1, look="dim"),
)


@click.command("files")
@session_argument
@click.option("--diff", is_flag=True, help="Show the diff of each call.")
@output_option()
@reveal_option
@json_option
@with_stores
def command(stores: Stores, session: str, diff: bool, reveal: bool, as_json: bool) -> None:
    """List the files that SESSION read or changed.

    Lines added and removed are those of the Edit, MultiEdit, Write and NotebookEdit tools; changes
    made by shell commands are not recorded.

    \b
    Examples:
      turnlog files last
      turnlog files last --diff
      turnlog files 3f2a --json | jq -r '.[].path'
    """
    files = touched_files(open_named(stores, session), reveal or as_json)
    if as_json:
        echo_json(files)
        return
    if not files:
        return
    head, *lines = Table(with_rows(COLUMNS, map(_cells, files)), width()).lines()
    echo(head)
    for file, line in zip(files, lines, strict=True):
        echo(line)
        if diff:
            _print_diff(file)


def _cells(file: FileView) -> list[str]:
    changes = [f"+{file.added}", f"-{file.removed}"] if file.changes else ["", ""]
    return [plain(file.path), *changes, str(file.reads or "")]


def _print_diff(file: FileView) -> None:
    for change in file.changes:
        echo(dim(f"  {change.tool} in line {change.line}, {plain(change.time)}"))
        for line in change.diff:
            echo(f"    {style(plain(line, keep_indent=True), COLOURS.get(line[:1]))}")
