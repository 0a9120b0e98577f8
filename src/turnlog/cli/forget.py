"""turnlog forget: permanently delete backups of changes, or archived sessions."""

import shlex
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from turnlog.cli.arguments import AliasedOption, json_option, yes_option
from turnlog.cli.completions import complete_change
from turnlog.cli.output import echo_json, plain
from turnlog.cli.terminal import echo
from turnlog.edit.journal import Journal, Record, open_journal
from turnlog.format.timestamps import parse_timestamp
from turnlog.store.archive.archive import open_archive
from turnlog.store.archive.restore import find_archived
from turnlog.store.deletion_consent import Consent, Deletion, agreed, require_yes
from turnlog.text import file_size, plural


@click.command("forget")
@click.argument("changes", metavar="[CHANGE]...", nargs=-1, shell_complete=complete_change)
@click.option(
    "--all-changes",
    "every",
    is_flag=True,
    cls=AliasedOption,
    aliases=["--all"],
    help="Forget all changes.",
)
@click.option(
    "--older-than",
    type=click.IntRange(0),
    metavar="DAYS",
    help="Forget changes older than DAYS days.",
)
@click.option("--archived", metavar="SESSION", help="Delete SESSION from the archive instead.")
@yes_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    changes: tuple[str, ...],
    every: bool,
    older_than: int | None,
    **given: Any,
) -> None:
    """Permanently delete the backup of each CHANGE.

    A forgotten change cannot be undone. turnlog asks for confirmation on a terminal; elsewhere
    --yes is required. An interrupted change is refused: undo it first. With --archived, a session
    is deleted from the archive; its files in the store stay.

    \b
    Examples:
      turnlog forget 20261115-110508
      turnlog forget --older-than 30 --yes
      turnlog forget --archived 3f2a
    """
    archived = given["archived"]
    if [bool(changes), every, older_than is not None, archived is not None].count(True) != 1:
        message = "name changes, or use --all-changes, --older-than or --archived"
        raise click.UsageError(message, ctx)
    consent = consent_of(given["yes"])
    if archived is not None:
        _forget_archived(archived, consent, given["as_json"])
        return
    journal = open_journal()
    records = _chosen(journal, changes, older_than)
    freed = journal.forget(records, consent, _command(changes, older_than))
    if given["as_json"]:
        echo_json({"changes": [record.id for record in records], "freed_bytes": freed})
    elif records:
        echo(f"Forgot {plural(len(records), 'change')}, {file_size(freed)} freed")
    else:
        echo("nothing to forget")


def _forget_archived(session: str, consent: Consent, as_json: bool) -> None:
    archive = open_archive()
    manifest = find_archived(archive, session)
    freed = archive.remove(manifest.session, consent)
    if as_json:
        echo_json({"session": manifest.session, "freed_bytes": freed})
    else:
        echo(f"Forgot {manifest.session}, {file_size(freed)} freed")


def _command(changes: tuple[str, ...], older_than: int | None) -> str:
    """Return the command that forgets the same changes without asking."""
    which = ["--all-changes"] if older_than is None else ["--older-than", str(older_than)]
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
            echo(f"skipped: {record.id} was interrupted (try: turnlog undo {record.id})", err=True)
        else:
            chosen.append(record)
    return chosen


def consent_of(yes: bool) -> Consent:
    """Return a function that agrees (`--yes`), asks the user (on a terminal) or else refuses."""
    if yes:
        return agreed
    # A closed stdin is None.
    return _ask if sys.stdin and sys.stdin.isatty() else require_yes


def _ask(deletion: Deletion) -> None:
    for line in deletion.details:
        echo(plain(line), err=True)
    click.confirm(f"Permanently delete {deletion.what}?", default=False, abort=True, err=True)
