"""turnlog ls: list recent sessions, grouped by project."""

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

import click

from turnlog.cli.arguments import (
    json_option,
    limit_option,
    output_option,
    project_option,
    reveal_switch,
    since_option,
    until_option,
)
from turnlog.cli.output import echo_json, fit_path, local_time, plain, width
from turnlog.cli.store_options import with_stores
from turnlog.cli.suggested_commands import to_type
from turnlog.cli.tables import GAP, Column, Table, with_rows
from turnlog.cli.terminal import dim, echo, style
from turnlog.errors import NotFound
from turnlog.format.timestamps import age
from turnlog.render.text_layout import cells_of, wrap_command
from turnlog.store.catalog import (
    Description,
    SessionFile,
    count_adjacent,
    count_subagents,
    describe,
    live_sessions,
    select_sessions,
)
from turnlog.store.paths import Store, folder_name
from turnlog.store.resume_command import file_command
from turnlog.store.stores import Stores, all_session_files, holder_of, no_sessions, places_of
from turnlog.text import file_size, short_id

INDENT = "  "
COLUMNS = (
    Column("session", is_whole=True, look="dim"),
    Column("age", is_number=True, look="dim"),
    Column("title", width=32),
    Column("", is_whole=True, expendable=2, look="green"),
    Column("tag", expendable=2, look="yellow"),
    Column("agents", is_number=True, expendable=3, look="green"),
    Column("branch", expendable=4, look="dim"),
    Column("model", expendable=5, look="dim"),
    Column("version", is_whole=True, expendable=6, look="dim"),
    Column("size", is_number=True, expendable=1, look="dim"),
)


class SessionSelection(NamedTuple):
    """Filters for a list of sessions; None does not filter."""

    project: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    tag: str | None = None


@dataclass(frozen=True)
class SessionRow:
    """A session as `ls` shows it."""

    store: Store
    session: SessionFile
    about: Description
    subagents: int
    live: bool


@click.command("ls")
@project_option
@since_option("sessions active")
@until_option("sessions last active")
@click.option("--tag", metavar="NAME", help="Only sessions with this tag (turnlog tag).")
@limit_option("sessions", 30)
@output_option()
@click.option(
    *("-l", "--long"), "is_long", is_flag=True, help="Print the resume command of each session."
)
@reveal_switch
@json_option
@with_stores
def command(stores: Stores, limit: int, as_json: bool, is_long: bool, **given: Any) -> None:
    """List recent sessions, grouped by project.

    The project that was active last comes first. A session that a client has open is marked live.

    \b
    Examples:
      turnlog ls --since yesterday
      turnlog ls --project shop -n 0
      turnlog ls --long
      turnlog ls --json | jq -r '.[].id'
    """
    selection = SessionSelection(**given)
    sessions = select_sessions(stores, *selection)
    if not sessions and not as_json:
        raise _none_found(stores, selection)
    shown = sessions[: limit or None]
    if as_json:
        echo_json([_as_json(row) for row in _rows(stores, shown)])
    else:
        print_sessions(stores, shown, len(sessions), is_long)
        if not is_long:
            last = next(_rows(stores, shown[:1]))
            if command := _resume(last):
                _print_resume(command)


def print_sessions(
    stores: Stores, sessions: list[SessionFile], total: int, is_long: bool = False
) -> None:
    """Print sessions grouped by project; note on stderr if there are more."""
    groups = _grouped(list(_rows(stores, sessions)))
    _print(groups, width(), is_long, names_stores=len(stores) > 1)
    if len(sessions) < total:
        hint = to_type("turnlog ls --limit 0")
        echo(dim(f"{len(sessions)} of {total} sessions (try: {hint})"), err=True)


def _print_resume(command: str) -> None:
    """Print the command that resumes a session to stderr, wrapped if the terminal is too narrow."""
    line = f"resume the last one: {command}"
    if not sys.stderr.isatty() or cells_of(line) <= width():
        echo(dim(line), err=True)
        return
    for part in ("resume the last one:", *wrap_command(command, width())):
        echo(dim(part), err=True)


def _resume(row: SessionRow) -> str | None:
    command = file_command(row.session.path, row.about.cwd, row.store)
    return plain(command) if command else None


def _next_command(row: SessionRow, *, names_stores: bool) -> str:
    """Return the command that resumes a session, or the one that says why none does."""
    store = f" --store {quote(str(row.store.root))}" if names_stores else ""
    return _resume(row) or plain(to_type(f"turnlog check {quote(row.session.id)}{store}"))


def _none_found(stores: Stores, selection: SessionSelection) -> NotFound:
    if not any(all_session_files(stores)):
        return no_sessions(stores)
    places = places_of(stores)
    project, since, until = selection.project, selection.since, selection.until
    matching = f" of a project that matches {project!r}" if project else ""
    active = f" active since {local_time(since)}" if since else ""
    active += f" last active before {local_time(until)}" if until else ""
    active += f" tagged {selection.tag!r}" if selection.tag else ""
    return NotFound(f"no sessions{matching}{active} in {places}", "turnlog ls")


def _rows(stores: Stores, sessions: list[SessionFile]) -> Iterator[SessionRow]:
    # Looked up by store: another store may have a copy of an open session.
    live = {store: live_sessions(store) for store in stores}
    adjacent = {folder: count_adjacent(folder) for folder in {s.path.parent for s in sessions}}
    for session in sessions:
        subagents = count_subagents(session, adjacent[session.path.parent])
        store = holder_of(stores, session.path)
        is_live = session.id in live[store]
        yield SessionRow(store, session, describe(session), subagents, is_live)


def _grouped(rows: list[SessionRow]) -> list[tuple[str, list[SessionRow]]]:
    """Group rows by project directory; the project active last comes first."""
    folders: dict[Path, list[SessionRow]] = {}
    for row in rows:
        folders.setdefault(row.session.path.parent, []).append(row)
    return [(_directory(folder, members), members) for folder, members in folders.items()]


def _directory(folder: Path, rows: list[SessionRow]) -> str:
    seen = [row.about.cwd for row in rows if row.about.cwd]
    matching = [cwd for cwd in seen if folder_name(cwd) == folder.name]
    return plain((matching or seen or [folder.name])[0])


def _print(
    groups: list[tuple[str, list[SessionRow]]], room: int, is_long: bool, *, names_stores: bool
) -> None:
    """Print the rows of all projects with the same columns, each project under its directory."""
    columns = with_rows(COLUMNS, (_cells(row) for _, rows in groups for row in rows))
    table = Table([each for each in columns if any(each.cells)], room - len(INDENT))
    head, *lines = table.lines()
    echo(f"{INDENT}{head}")
    drawn = iter(lines)
    for cwd, rows in groups:
        place = plain(str(rows[0].store.root)) if names_stores else ""
        shown = fit_path(cwd, room - min(cells_of(place) + len(GAP), room // 2) if place else room)
        left = room - cells_of(shown) - len(GAP)
        echo(style(shown, "bold") + (dim(f"{GAP}{fit_path(place, left)}") if place else ""))
        for row, line in zip(rows, islice(drawn, len(rows)), strict=True):
            echo(f"{INDENT}{line}")
            if is_long:
                echo(dim(f"{INDENT * 2}{_next_command(row, names_stores=names_stores)}"))


def _cells(row: SessionRow) -> list[str]:
    about, session = row.about, row.session
    return [
        short_id(session.id),
        age(session.last_active),
        plain(about.title) or "(empty)",
        "● live" if row.live else "",
        plain(about.tag),
        str(row.subagents or ""),
        plain(about.branch),
        plain(about.model).removeprefix("claude-"),
        plain(about.version),
        file_size(session.size),
    ]


def _as_json(row: SessionRow) -> dict[str, Any]:
    session = row.session
    return {
        "id": session.id,
        "path": str(session.path),
        "store": str(row.store.root),
        "project": session.path.parent.name,
        **asdict(row.about),
        "last_active": session.last_active,
        "size": session.size,
        "subagents": row.subagents,
        "live": row.live,
        "resume": file_command(
            session.path, row.about.cwd, Store(session.path.absolute().parents[2])
        ),
    }
