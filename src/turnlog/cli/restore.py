"""turnlog restore: restore a session from the archive."""

import re
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from turnlog.cli.arguments import into_option, json_option
from turnlog.cli.output import echo_json, plain
from turnlog.cli.store_options import with_stores
from turnlog.cli.terminal import echo
from turnlog.store.archive.archive import ArchiveManifest, open_archive
from turnlog.store.archive.restore import find_archived, restore_session
from turnlog.store.catalog import describe, locate_session
from turnlog.store.paths import Store
from turnlog.store.resume_command import file_command
from turnlog.store.stores import Stores
from turnlog.text import plural


def complete_archived(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the id of an archived session in the shell."""
    found = [name for name in open_archive().names() if name.startswith(incomplete)]
    return [CompletionItem(name) for name in found[:50]]


def parse_size(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Parse a number of bytes with an optional suffix K, M or G."""
    if value is None:
        return None
    found = re.fullmatch(r"([0-9]{1,15})([KMG]?)", value.upper(), re.ASCII)
    if not found:
        raise click.BadParameter(f"{value!r} is not a size such as 500M or 2G", ctx, param)
    return int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[2]]


def _store_of(stores: Stores, manifest: ArchiveManifest) -> Store:
    """Return the store that a session was archived from; the first if it is not among `stores`."""
    # A manifest from elsewhere may name any directory: write only to the user's own stores.
    known = {str(store.root.resolve()): store for store in stores}
    return known.get(manifest.store, stores[0])


@click.command("restore")
@click.argument("session", shell_complete=complete_archived)
@into_option("Restore into DIR instead of the store.")
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Restore from the archive in DIR.",
)
@click.option(
    "--max-size",
    callback=parse_size,
    metavar="SIZE",
    help="Allow a session of up to SIZE (500M, 2G) instead of the default limit.",
)
@json_option
@with_stores
def command(
    stores: Stores,
    session: str,
    into: Path | None,
    source: Path | None,
    max_size: int | None,
    as_json: bool,
) -> None:
    """Restore SESSION from the archive.

    Restores all its files to their original place, readable only by you. Existing files are never
    overwritten, and prompts are appended to the history; use --into to restore elsewhere. An
    archive that contains links, files outside the session or a decompression bomb is refused as a
    whole.

    \b
    Examples:
      turnlog archive --list
      turnlog restore 3f2a
      turnlog restore 3f2a --into /tmp/restored
      turnlog restore 3f2a --from /mnt/backup
    """
    archive = open_archive(source)
    manifest = find_archived(archive, session)
    store = _store_of(stores, manifest)
    root = (into or store.root).absolute()
    restored = restore_session(archive, manifest, root, into is None, max_size)
    if as_json:
        echo_json({"id": manifest.session, **restored._asdict()})
        return
    files = plural(len(restored.written), "file")
    kept = f", {plural(len(restored.kept), 'other')} there already" if restored.kept else ""
    echo(f"Restored {manifest.session}: {files}{kept}")
    for path in restored.written:
        echo(f"  {plain(str(path))}")
    for path in restored.left_out:
        echo(f"turnlog: not restored: {plain(path)}: the client would execute it", err=True)
    if restored.written and into is None and (command := _resume(store, manifest.session)):
        echo(f"  {command}")


def _resume(store: Store, session: str) -> str | None:
    found = (path for path in store.session_files() if path.stem == session)
    path = next(found, None)
    return path and file_command(path, describe(locate_session(path)).cwd, store)
