"""turnlog forget: deletes for good what turnlog keeps, to undo changes or in the archive."""

import sys
from datetime import UTC, datetime, timedelta

import click

from turnlog.cli.editing import open_journal
from turnlog.cli.output import counted, plain, size
from turnlog.cli.terminal import echo
from turnlog.edit.journal import Journal, Record
from turnlog.errors import Conflict
from turnlog.format.timestamps import parse_timestamp
from turnlog.store.archive import open_archive
from turnlog.store.restore import find_archived


@click.command("forget")
@click.argument("changes", metavar="[CHANGE]...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Forget all changes.")
@click.option(
    "--older-than",
    type=click.IntRange(0),
    metavar="DAYS",
    help="Forget changes made more than DAYS days ago.",
)
@click.option("--archived", metavar="SESSION", help="Forget what the archive has of a session.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def command(
    ctx: click.Context,
    changes: tuple[str, ...],
    every: bool,
    older_than: int | None,
    archived: str | None,
    yes: bool,
) -> None:
    """Delete for good what was before each CHANGE, so that it cannot be undone.

    A change that was interrupted is refused: undo it first. With --archived, delete a session from
    the archive; its files in the store stay as they are.
    """
    if [bool(changes), every, older_than is not None, archived is not None].count(True) != 1:
        raise click.UsageError("name changes, or use --all, --older-than or --archived", ctx)
    if archived is not None:
        _forget_archived(archived, yes)
        return
    journal = open_journal()
    records = _chosen(journal, changes, older_than)
    if not records:
        echo("nothing to forget")
        return
    if not yes and sys.stdin.isatty():
        for record in records:
            echo(f"{record.id}  {record.title}")
        click.confirm(f"Forget {counted(len(records), 'change')} for good?", abort=True)
    freed = sum(journal.forget(record) for record in records)
    echo(f"Forgot {counted(len(records), 'change')}, {size(freed)} freed")


def _forget_archived(text: str, yes: bool) -> None:
    archive = open_archive()
    manifest = find_archived(archive, text)
    if not yes and sys.stdin.isatty():
        where = "" if manifest.is_in_store else "; it is nowhere else"
        title = plain(manifest.title) or "(empty)"
        echo(f"{manifest.session}  {title}  {size(manifest.size)}{where}")
        click.confirm("Delete it from the archive for good?", abort=True)
    freed = archive.remove(manifest.session)
    echo(f"Forgot {manifest.session}, {size(freed)} freed")


def _chosen(journal: Journal, names: tuple[str, ...], older_than: int | None) -> list[Record]:
    if names:
        return [_require_finished(journal.find(name)) for name in dict.fromkeys(names)]
    oldest = datetime.now(UTC) - timedelta(days=older_than or 0)
    chosen: list[Record] = []
    for record in journal.records():
        moment = parse_timestamp(record.time)
        if older_than is not None and moment and moment > oldest:
            continue
        if is_unfinished(record):
            echo(f"left: {record.id} was interrupted; turnlog undo {record.id}", err=True)
        else:
            chosen.append(record)
    return chosen


def is_unfinished(record: Record) -> bool:
    """Whether files may still be as they were halfway through a change."""
    return not (record.is_done or record.is_undone)


def _require_finished(record: Record) -> Record:
    if is_unfinished(record):
        raise Conflict(f"{record.id} was interrupted halfway", f"turnlog undo {record.id}")
    return record
