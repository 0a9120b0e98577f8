"""turnlog without a command: recent sessions, their cost, and what needs attention."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from shlex import quote

import click

from turnlog.cli.indexing import ON_STDERR
from turnlog.cli.ls import print_sessions
from turnlog.cli.output import fit, plain, width, wrap_hint
from turnlog.cli.store_options import stores_in
from turnlog.cli.suggested_commands import store_of, to_type
from turnlog.cli.terminal import dim, echo, style
from turnlog.format.regular_files import skipping
from turnlog.index.database import Index, index_path
from turnlog.index.ingest.file_states import FileStates, scan_store
from turnlog.index.known_files import recent_sessions
from turnlog.index.reports.report_cache import cached_report
from turnlog.index.reports.reports import Filters
from turnlog.index.sync_policy import synced_index
from turnlog.session_health import deleted_before, unresumable
from turnlog.store.archive.archive import open_archive
from turnlog.store.catalog import SessionFile, describe, list_sessions, locate_session
from turnlog.store.paths import is_session_name
from turnlog.store.stores import Stores, no_sessions
from turnlog.text import money, plural, short_count, short_id

RECENT = 12
LOOKED_AFTER = 30
"""Recent sessions to check."""


@click.command("overview")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Show recent sessions, usage of today and this week, and what needs attention."""
    stores = stores_in(ctx)
    states = scan_store(stores)
    # With an index, no file has to be opened; without one, list the files, then build the index.
    listed = None if index_path(stores).exists() else list_sessions(stores)
    if listed is not None:
        _print_list(stores, listed, len(listed))
    is_listed = listed is not None
    with synced_index(stores, states=states, feedback=ON_STDERR, work_only=is_listed) as index:
        if listed is None:
            listed, total = _recent(index)
            _print_list(stores, listed, total)
        echo()
        for line in _took(index):
            echo(line)
        for line in _broken(stores, index, listed[:LOOKED_AFTER]):
            echo(line)
    for line in _going(stores, states):
        echo(line)


def _print_list(stores: Stores, sessions: list[SessionFile], total: int) -> None:
    if not sessions:
        raise no_sessions(stores)
    print_sessions(stores, sessions[:RECENT], total)


def _recent(index: Index) -> tuple[list[SessionFile], int]:
    """Return the most recently active sessions of the index, and the number of all sessions."""
    paths, total = recent_sessions(index.db, LOOKED_AFTER)
    found: list[SessionFile] = []
    for path in paths:
        with skipping(path):
            found.append(locate_session(Path(path)))
    return sorted(found, key=lambda session: session.last_active, reverse=True), total


def _took(index: Index) -> Iterator[str]:
    midnight = datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    monday = midnight - timedelta(days=midnight.weekday())
    for name, since in (("today", midnight), ("this week", monday)):
        total = cached_report(index.db, "daily", Filters(since=since.timestamp())).total
        cost = total.get("cost_usd")
        parts = [
            plural(_whole(total["sessions"]), "session"),
            plural(_whole(total["turns"]), "turn"),
            f"{short_count(_whole(total['tokens']))} tokens",
            money(cost if isinstance(cost, int | float) else None),
        ]
        yield f"{name:10}  {'  '.join(parts)}"


def _whole(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0


def _broken(stores: Stores, index: Index, sessions: list[SessionFile]) -> Iterator[str]:
    """Yield lines about recent sessions that would not resume in full."""
    room = width()
    for session, message in unresumable(index, sessions):
        verdict = f"{short_id(session.id)} would not resume in full"
        title = fit(plain(describe(session).title), room - len(verdict) - 2).rstrip()
        yield style(verdict, "red") + dim(f"  {title}")
        command = to_type(f"turnlog check {quote(session.id[:8])}{store_of(stores, session.path)}")
        for line in wrap_hint(message, f"({command})", room - 2):
            yield dim(f"  {line}")


def _going(stores: Stores, states: FileStates) -> Iterator[str]:
    """Yield lines about unarchived sessions that the client will delete within a week."""
    old = [
        name
        for store in stores
        for name in states.names_before(str(store.projects), deleted_before(store) * 1e9)
    ]
    names = [name.removesuffix(".jsonl") for name in old if is_session_name(name)]
    archived = set(open_archive().names()) if names else set[str]()
    lost = len(names) - len(archived.intersection(names))
    if lost:
        what = f"{plural(lost, 'session')} will be deleted by the client within a week"
        hint = f"({to_type('turnlog archive')} keeps them)"
        for line in wrap_hint(what, hint, width()):
            text = line.removesuffix(hint)
            yield style(text, "yellow" if text else None) + (dim(hint) if text != line else "")
