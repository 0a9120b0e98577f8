"""turnlog restore: brings a session back from the archive."""

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from turnlog.cli.arguments import json_option
from turnlog.cli.output import counted, echo_json, plain
from turnlog.cli.terminal import echo
from turnlog.store.archive import open_archive
from turnlog.store.paths import Store
from turnlog.store.restore import find_archived, restore_session


def complete_archived(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the id of an archived session in the shell."""
    found = [name for name in open_archive().names() if name.startswith(incomplete)]
    return [CompletionItem(name) for name in found[:50]]


@click.command("restore")
@click.argument("session", shell_complete=complete_archived)
@click.option(
    "--to", type=click.Path(path_type=Path), metavar="DIR", help="Another place than the store."
)
@click.option(
    "--from", "source", type=click.Path(path_type=Path), metavar="DIR", help="Another archive."
)
@json_option
@click.pass_obj
def command(
    store: Store, session: str, to: Path | None, source: Path | None, as_json: bool
) -> None:
    """Bring SESSION back from the archive.

    All its files are written to where they were, as they were when they were archived. None is
    written over: --to writes them elsewhere.
    """
    archive = open_archive(source)
    manifest = find_archived(archive, session)
    restored = restore_session(archive, manifest, to or store.root, is_kept_fresh=to is None)
    if as_json:
        echo_json({"id": manifest.session, **restored._asdict()})
        return
    files = counted(len(restored.written), "file")
    kept = f", {counted(len(restored.kept), 'other')} there already" if restored.kept else ""
    echo(f"Restored {manifest.session}: {files}{kept}")
    for path in restored.written:
        echo(f"  {plain(str(path))}")
    if restored.written and to is None:
        echo(f"  claude --resume {manifest.session}")
