"""turnlog files: list the files that a session read or changed, and show them at any moment."""

from pathlib import Path
from shlex import quote

import click

from turnlog.cli.arguments import (
    dry_run_option,
    json_option,
    leaf_option,
    output_option,
    reveal_option,
    session_argument,
)
from turnlog.cli.file_moments import (
    FilesOptions,
    print_blame,
    print_content,
    print_difference,
    print_states,
    print_versions,
    restore,
)
from turnlog.cli.output import echo_json, plain, width
from turnlog.cli.output_file import outside_store
from turnlog.cli.sessions import leaf_of, open_named
from turnlog.cli.store_options import with_stores
from turnlog.cli.tables import Column, Table, with_rows
from turnlog.cli.terminal import Look, dim, echo, style
from turnlog.conversation.session import Session
from turnlog.errors import UsageError
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
@click.argument("path", required=False)
@click.option(
    "--at", metavar="MOMENT", help="Show files as of a turn (3), a line (line:120) or a time."
)
@click.option("--diff", is_flag=True, help="Show the diff of each change; with --at, since then.")
@click.option("--blame", is_flag=True, help="Show which turn wrote each line of PATH.")
@click.option(
    "--restore",
    "into",
    type=click.Path(path_type=Path, file_okay=False),
    callback=outside_store,
    metavar="DIR",
    help="Write the files as of MOMENT into DIR.",
)
@leaf_option
@dry_run_option
@output_option()
@reveal_option
@json_option
@with_stores
def command(stores: Stores, session: str, **given: object) -> None:
    """List the files that SESSION read or changed, or show one.

    Lines added and removed are those of the Edit, MultiEdit, Write and NotebookEdit tools. With
    PATH, list the states of one file. With --at, print its content as of a moment, or without
    PATH, list all changed files. PATH may be the last parts of a path.

    A state is exact if the session proves every byte, derived if that needs an assumption, and a
    gap if lines are unknown; bytes are never made up. --restore writes exact and derived states;
    it replaces no file that changed since, and can be undone.

    \b
    Examples:
      turnlog files last --diff
      turnlog files last src/app.py --at 3
      turnlog files last src/app.py --blame
      turnlog files last --at line:120 --restore /tmp/then
    """
    options = FilesOptions(**given)  # pyright: ignore[reportArgumentType]
    opened = open_named(stores, session)
    if options.into:
        restore(opened, options)
    elif options.blame:
        print_blame(opened, options)
    elif options.path and options.at and options.diff:
        print_difference(opened, options)
    elif options.path and options.at:
        print_content(opened, options)
    elif options.path:
        print_versions(opened, options)
    elif options.at:
        if options.diff:
            raise UsageError(
                "--at with --diff needs a PATH", f"turnlog files {quote(session)} PATH"
            )
        print_states(opened, options)
    else:
        _list_files(opened, options)


def _list_files(session: Session, options: FilesOptions) -> None:
    if options.leaf:
        leaf_of(session, options.leaf)
    files = touched_files(session, options.reveal or options.as_json)
    if options.as_json:
        echo_json(files)
        return
    if not files:
        return
    head, *lines = Table(with_rows(COLUMNS, map(_cells, files)), width()).lines()
    echo(head)
    for file, line in zip(files, lines, strict=True):
        echo(line)
        if options.diff:
            _print_diff(file)


def _cells(file: FileView) -> list[str]:
    changes = [f"+{file.added}", f"-{file.removed}"] if file.changes else ["", ""]
    return [plain(file.path), *changes, str(file.reads or "")]


def _print_diff(file: FileView) -> None:
    for change in file.changes:
        echo(dim(f"  {change.tool} in line {change.line}, {plain(change.time)}"))
        for line in change.diff:
            echo(f"    {style(plain(line, keep_indent=True), COLOURS.get(line[:1]))}")
