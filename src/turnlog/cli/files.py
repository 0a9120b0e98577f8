"""turnlog files: the files that a session touched."""

import click

from turnlog.cli.arguments import json_option, reveal_option, session_argument
from turnlog.cli.output import echo_json, plain, width
from turnlog.cli.sessions import open_named
from turnlog.cli.tables import Column, Table, with_rows
from turnlog.cli.terminal import Look, dim, echo, style
from turnlog.render.touched_files import FileView, touched_files
from turnlog.store.paths import Store

COLOURS: dict[str, Look] = {"+": "green", "-": "red"}
"""Of lines of a diff."""
COLUMNS = (
    Column("file", is_path=True),
    Column("+lines", is_number=True, look="green"),
    Column("-lines", is_number=True, look="red"),
    Column("reads", is_number=True, expendable=1, look="dim"),
)


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
