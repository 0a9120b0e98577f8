"""turnlog ls: recent sessions, grouped by project."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import click

from turnlog.cli.arguments import Since, json_option, reveal_switch
from turnlog.cli.output import echo_json, fit_path, local_time, plain, width
from turnlog.cli.tables import Column, Table, with_rows
from turnlog.cli.terminal import dim, echo, style
from turnlog.errors import NotFound
from turnlog.format.timestamps import age
from turnlog.store.catalog import (
    Description,
    SessionFile,
    count_adjacent,
    count_subagents,
    describe,
    list_sessions,
    live_sessions,
)
from turnlog.store.paths import Store, folder_name
from turnlog.text import file_size

INDENT = "  "
COLUMNS = (
    Column("session", is_whole=True, look="dim"),
    Column("age", is_number=True, look="dim"),
    Column("title", width=32),
    Column("", is_whole=True, expendable=2, look="green"),
    Column("agents", is_number=True, expendable=3, look="green"),
    Column("branch", expendable=4, look="dim"),
    Column("model", expendable=5, look="dim"),
    Column("version", is_whole=True, expendable=6, look="dim"),
    Column("size", is_number=True, expendable=1, look="dim"),
)


@dataclass(frozen=True)
class SessionRow:
    """A session as `ls` shows it."""

    session: SessionFile
    about: Description
    subagents: int
    live: bool


@click.command("ls")
@click.option("--project", metavar="TEXT", help="Only projects whose directory contains TEXT.")
@click.option(
    "--since", type=Since(), help="Only sessions active since a date or an age (3d, 12h)."
)
@click.option("--limit", type=click.IntRange(0), default=30, show_default=True, help="0 for all.")
@reveal_switch
@json_option
@click.pass_obj
def command(
    store: Store, project: str | None, since: datetime | None, limit: int, as_json: bool
) -> None:
    """List recent sessions, grouped by project."""
    sessions = chosen_sessions(store, project, since)
    if not sessions and not as_json:
        raise _none_found(store, project, since)
    shown = sessions[: limit or None]
    if as_json:
        echo_json([_as_json(row) for row in _rows(store, shown)])
    else:
        print_sessions(store, shown, len(sessions))


def print_sessions(store: Store, sessions: list[SessionFile], total: int) -> None:
    """Print sessions, grouped by project, and of how many they are."""
    _print(_grouped(list(_rows(store, sessions))), width())
    if len(sessions) < total:
        echo(dim(f"{len(sessions)} of {total} sessions (try: turnlog ls --limit 0)"), err=True)


def _none_found(store: Store, project: str | None, since: datetime | None) -> NotFound:
    if not any(store.session_files()):
        return NotFound(f"no sessions in {store.projects}", "turnlog --samples ls")
    asked = f" of a project that matches {project!r}" if project else ""
    active = f" active since {local_time(since)}" if since else ""
    return NotFound(f"no sessions{asked}{active} in {store.projects}", "turnlog ls")


def chosen_sessions(store: Store, project: str | None, since: datetime | None) -> list[SessionFile]:
    """Return the sessions of matching projects that were active since a moment."""
    sessions = list_sessions(store)
    if since:
        sessions = [session for session in sessions if session.last_active >= since]
    if project:
        wanted = _matching_folders(sessions, project)
        sessions = [session for session in sessions if session.path.parent in wanted]
    return sessions


def _matching_folders(sessions: list[SessionFile], text: str) -> set[Path]:
    """The folders of projects whose directory is `text` or contains it."""
    newest = {session.path.parent: session for session in reversed(sessions)}
    directory = folder_name(str(Path(text).resolve())) if Path(text).is_dir() else None
    return {
        folder
        for folder, session in newest.items()
        if folder.name == directory
        or (directory is None and text.lower() in (describe(session).cwd or folder.name).lower())
    }


def _rows(store: Store, sessions: list[SessionFile]) -> Iterator[SessionRow]:
    live = live_sessions(store)
    adjacent = {folder: count_adjacent(folder) for folder in {s.path.parent for s in sessions}}
    for session in sessions:
        subagents = count_subagents(session, adjacent[session.path.parent])
        yield SessionRow(session, describe(session), subagents, session.id in live)


def _grouped(rows: list[SessionRow]) -> list[tuple[str, list[SessionRow]]]:
    """Rows by the directory of their project; the project active last comes first."""
    folders: dict[Path, list[SessionRow]] = {}
    for row in rows:
        folders.setdefault(row.session.path.parent, []).append(row)
    return [(_directory(folder, members), members) for folder, members in folders.items()]


def _directory(folder: Path, rows: list[SessionRow]) -> str:
    seen = [row.about.cwd for row in rows if row.about.cwd]
    matching = [cwd for cwd in seen if folder_name(cwd) == folder.name]
    return plain((matching or seen or [folder.name])[0])


def _print(groups: list[tuple[str, list[SessionRow]]], room: int) -> None:
    """Print the rows of all projects with the same columns, each project under its directory."""
    columns = with_rows(COLUMNS, (_cells(row) for _, rows in groups for row in rows))
    table = Table([each for each in columns if any(each.cells)], room - len(INDENT))
    head, *lines = table.lines()
    echo(f"{INDENT}{head}")
    drawn = iter(lines)
    for cwd, rows in groups:
        echo(style(fit_path(cwd, room), "bold"))
        for line in islice(drawn, len(rows)):
            echo(f"{INDENT}{line}")


def _cells(row: SessionRow) -> list[str]:
    about, session = row.about, row.session
    return [
        session.id[:8],
        age(session.last_active),
        plain(about.title) or "(empty)",
        "● live" if row.live else "",
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
        "project": session.path.parent.name,
        **asdict(row.about),
        "last_active": session.last_active,
        "size": session.size,
        "subagents": row.subagents,
        "live": row.live,
    }
