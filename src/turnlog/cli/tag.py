"""turnlog tag: label a session."""

import click

from turnlog.cli.arguments import dry_run_option, json_option, session_argument
from turnlog.cli.editing import print_undo
from turnlog.cli.output import echo_json, plain
from turnlog.cli.picking import can_pick
from turnlog.cli.store_options import with_stores
from turnlog.cli.terminal import echo
from turnlog.edit.service import Tagging, tag_session
from turnlog.errors import UsageError
from turnlog.store.session_lookup import find_in_store
from turnlog.store.stores import Stores


@click.command("tag")
@session_argument
@click.argument("name", required=False)
@click.option("--remove", is_flag=True, help="Remove the tag.")
@dry_run_option
@json_option
@with_stores
def command(
    stores: Stores, session: str, name: str | None, remove: bool, dry_run: bool, as_json: bool
) -> None:
    """Label SESSION with the tag NAME.

    A session has one tag; a new one replaces it. It is the tag that the Agent SDK sets with
    tag_session() and lists with list_sessions().

    \b
    Examples:
      turnlog tag last release
      turnlog tag 3f2a --remove
      turnlog ls --tag release
    """
    if remove and name is not None:
        raise UsageError("--remove cannot be combined with a name", "turnlog tag SESSION --remove")
    if not remove and name is None:
        # Like a missing SESSION, a missing NAME is asked for on a terminal.
        if not can_pick():
            raise UsageError("no tag given", "turnlog tag SESSION NAME")
        name = str(click.prompt("Tag", err=True))
    store, path = find_in_store(stores, session)
    done = tag_session(store, path, name, dry_run=dry_run)
    if as_json:
        change = done.record.id if done.record else None
        echo_json({"id": path.stem, "tag": done.tag, "before": done.before, "change": change})
        return
    echo(_described(path.stem, done, dry_run))
    print_undo(done.record)


def _described(session: str, done: Tagging, dry_run: bool) -> str:
    tag, before = plain(done.tag), plain(done.before)
    if done.tag == done.before:
        return f"{session} is tagged {tag} already" if tag else f"{session} has no tag"
    if done.tag is None:
        return f"{'Would remove' if dry_run else 'Removed'} the tag {before} of {session}"
    return f"{'Would tag' if dry_run else 'Tagged'} {session} {tag}"
