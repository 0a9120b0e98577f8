"""turnlog rm: remove sessions with all their files."""

from typing import Any

import click

from turnlog.cli.arguments import dry_run_option, json_option
from turnlog.cli.editing import print_undo
from turnlog.cli.output import echo_json, fit, plain, width
from turnlog.cli.picking import PickedArgument
from turnlog.cli.sessions import own_files
from turnlog.cli.store_options import with_stores
from turnlog.cli.terminal import echo
from turnlog.edit.journal import Record
from turnlog.edit.removal import Removal, plan_removal
from turnlog.edit.service import remove_sessions
from turnlog.render.text_layout import cells_of
from turnlog.store.catalog import describe, locate_session
from turnlog.store.stores import Stores
from turnlog.text import file_size, plural


@click.command("rm")
@click.argument("sessions", metavar="[SESSION]...", nargs=-1, cls=PickedArgument)
@click.option("--history", is_flag=True, help="Also remove their prompts from the prompt history.")
@dry_run_option
@json_option
@with_stores
def command(
    stores: Stores, sessions: tuple[str, ...], history: bool, dry_run: bool, as_json: bool
) -> None:
    """Remove sessions with all their files; `turnlog undo` reverts it.

    Sub-agents, large outputs, file backups and to-do lists are removed too. turnlog keeps a copy
    until `turnlog forget` deletes it.

    \b
    Examples:
      turnlog rm 3f2a --dry-run
      turnlog rm 3f2a 77b0 --history
    """
    store, paths = own_files(stores, sessions, "rm")
    titles = [plain(describe(locate_session(path)).title) for path in paths]
    removal = plan_removal(store, paths, history)
    record = None if dry_run else remove_sessions(store, removal)
    if as_json:
        echo_json(_as_json(removal, record))
        return
    for path, title in zip(paths, titles, strict=True):
        done = f"{'Would remove' if dry_run else 'Removed'} {path.stem}  "
        echo(f"{done}{fit(title, width() - cells_of(done))}".rstrip())
    files = f"{plural(len(removal.sizes), 'file')}, {file_size(sum(removal.sizes))}"
    echo(f"  {files}, {plural(removal.prompts, 'prompt')} of the history")
    print_undo(record)


def _as_json(removal: Removal, record: Record | None) -> dict[str, Any]:
    return {
        "sessions": [path.stem for path in removal.sessions],
        "files": [change.path for change in removal.leaving],
        "bytes": sum(removal.sizes),
        "prompts": removal.prompts,
        "change": record.id if record else None,
    }
