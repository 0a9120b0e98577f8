"""turnlog forget: deletes for good what turnlog keeps, to undo changes or in the archive."""

import shlex
import sys
from datetime import UTC, datetime, timedelta

import click

from turnlog.cli.output import plain
from turnlog.cli.terminal import echo
from turnlog.edit.journal import Journal, Record, open_journal
from turnlog.format.timestamps import parse_timestamp
from turnlog.store.archive.archive import open_archive
from turnlog.store.archive.restore import find_archived
from turnlog.store.deletion_consent import Consent, Deletion, agreed, require_yes
from turnlog.text import file_size, plural


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
@click.option("--yes", is_flag=True, help="Do not ask; required where nobody can be asked.")
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

    Asks on a terminal; elsewhere --yes is required. A change that was interrupted is refused: undo
    it first. With --archived, delete a session from the archive; its files in the store stay.
    """
    if [bool(changes), every, older_than is not None, archived is not None].count(True) != 1:
        raise click.UsageError("name changes, or use --all, --older-than or --archived", ctx)
    consent = consent_of(yes)
    if archived is not None:
        archive = open_archive()
        manifest = find_archived(archive, archived)
        freed = archive.remove(manifest.session, consent)
        echo(f"Forgot {manifest.session}, {file_size(freed)} freed")
        return
    journal = open_journal()
    records = _chosen(journal, changes, older_than)
    if not records:
        echo("nothing to forget")
        return
    freed = journal.forget(records, consent, _command(changes, older_than))
    echo(f"Forgot {plural(len(records), 'change')}, {file_size(freed)} freed")


def _command(changes: tuple[str, ...], older_than: int | None) -> str:
    """What to type to forget the same changes without being asked."""
    which = ["--all"] if older_than is None else ["--older-than", str(older_than)]
    return shlex.join(["turnlog", "forget", *(changes or which), "--yes"])


def _chosen(journal: Journal, names: tuple[str, ...], older_than: int | None) -> list[Record]:
    if names:
        found = [journal.find(name) for name in names]
        return list({record.id: record for record in found}.values())
    oldest = datetime.now(UTC) - timedelta(days=older_than or 0)
    chosen: list[Record] = []
    for record in journal.records():
        moment = parse_timestamp(record.time)
        if older_than is not None and moment and moment > oldest:
            continue
        if record.is_interrupted:
            echo(f"left: {record.id} was interrupted; turnlog undo {record.id}", err=True)
        else:
            chosen.append(record)
    return chosen


def consent_of(yes: bool) -> Consent:
    """How the user consents: by `--yes`, by an answer on a terminal, else not at all."""
    if yes:
        return agreed
    # A closed stdin is None.
    return _ask if sys.stdin and sys.stdin.isatty() else require_yes


def _ask(deletion: Deletion) -> None:
    for line in deletion.details:
        echo(plain(line), err=True)
    click.confirm(f"Delete {deletion.what} for good?", default=False, abort=True, err=True)
