"""turnlog archive: keep a copy of every session, as the client deletes them after 30 days."""

from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from turnlog.cli.arguments import dry_run_option, into_option, json_option
from turnlog.cli.output import StepBar, echo_json, plain, progress_bar
from turnlog.cli.store_options import store_option, stores_in
from turnlog.cli.tables import Column, echo_table, with_rows
from turnlog.cli.terminal import dim, echo, style
from turnlog.errors import NotFound
from turnlog.format.timestamps import age
from turnlog.plugin.background_runs import archive_in_background
from turnlog.plugin.client_hooks import ARCHIVE_HOOK
from turnlog.store.archive.archive import Archive, ArchiveManifest, open_archive
from turnlog.store.archive.update import Archived, archive_sessions, preview
from turnlog.store.archive.verification import check_archive
from turnlog.store.paths import Store
from turnlog.store.stores import Stores
from turnlog.text import file_size, plural, short_id

MODES = {
    "--check": "Verify the archive and report damage.",
    "--list": "List archived sessions.",
    "--install": "Install a client hook that archives when sessions start or end.",
    "--uninstall": "Remove that hook.",
    "--background": "Archive in a background process.",
}
COLUMNS = (
    Column("session", is_whole=True, look="dim"),
    Column("age", is_number=True, look="dim"),
    Column("title"),
    Column("store", is_whole=True, look="yellow"),
    Column("size", is_number=True, expendable=1, look="dim"),
)


def mode_options(command: Any) -> Any:
    """Add the options that select an action other than archiving."""
    for name, text in reversed(MODES.items()):
        command = click.option(name, "mode", flag_value=name.strip("-"), help=text)(command)
    return command


@click.command("archive")
@mode_options
@into_option("Use the archive in DIR.")
@click.option(
    "--from",
    "url",
    metavar="URL",
    help="Copy sessions that programs mirrored to URL (s3://…, file://…) instead.",
)
@dry_run_option
@click.option("-q", "--quiet", is_flag=True, help="Print only errors.")
@json_option
@store_option
@click.pass_context
def command(
    ctx: click.Context,
    mode: str | None,
    into: Path | None,
    url: str | None,
    as_json: bool,
    **switches: bool,
) -> None:
    """Copy new and changed sessions to the archive.

    The client deletes sessions after 30 days without use. The archive keeps them, compressed, with
    all their files; `turnlog restore` restores one. It is in turnlog's data directory, or in
    $TURNLOG_ARCHIVE.

    \b
    Examples:
      turnlog archive
      turnlog archive --install
      turnlog archive --check --into /mnt/backup
      turnlog archive --from s3://team/sessions
    """
    dry_run, quiet = switches["dry_run"], switches["quiet"]
    chosen = [each for each in (mode, "from" if url else None) if each]
    for one, other in pairwise([*chosen, *(["dry-run"] if dry_run else [])]):
        raise click.UsageError(f"--{other} cannot be combined with --{one}", ctx)
    store: Store = ctx.obj  # a hook belongs to one client, which has one store
    archive = open_archive(into)
    match mode:
        case "check":
            _check(ctx, archive, as_json)
        case "list":
            _list(archive, as_json)
        case "install":
            _print_hook(_install(store, into), store, as_json)
        case "uninstall":
            _print_hook(_uninstall(store), store, as_json)
        case "background":
            _report_failure(ctx, archive_in_background(store, archive))
        case _ if url:
            _pull(url, archive, quiet, as_json)
        case _ if dry_run:
            _report(preview(stores_in(ctx), archive), archive, as_json, "Would archive")
        case _:
            done = _archive(stores_in(ctx), archive, quiet)
            if not quiet:
                _report(done, archive, as_json, "Archived")
            _report_unread(ctx, done)


def _pull(url: str, archive: Archive, quiet: bool, as_json: bool) -> None:
    from turnlog.sdk.pull import pull_sessions

    pulled = pull_sessions(url, archive)
    if as_json:
        sessions, changed = sorted(pulled.sessions), sorted(pulled.changed)
        echo_json({"path": str(archive.folder), "sessions": sessions, "changed": changed})
    elif not quiet:
        found = plural(len(pulled.sessions), "session")
        echo(f"Copied {len(pulled.changed)} of {found} from {plain(url)}")


def _archive(stores: Stores, archive: Archive, quiet: bool) -> Archived:
    with closing(StepBar("archiving", is_hidden=quiet)) as bar:
        return archive_sessions(stores, archive, bar)


def _report(done: Archived, archive: Archive, as_json: bool, verb: str) -> None:
    if as_json:
        echo_json({"path": str(archive.folder), **asdict(done)})
        return
    what = f"{plural(done.sessions, 'session')}, {file_size(done.bytes)}"
    packed = f" as {file_size(done.written)} in {plural(done.objects, 'object')}"
    if done.sessions:
        echo(f"{verb} {what}{dim(packed if done.objects else '')}")
    else:
        echo(f"{verb} nothing: everything is archived")
    if done.copies:
        what = f"{plural(done.copies, 'session')} in several stores"
        echo(dim(f"{what}: the version that changed last is archived"))
    if done.all_written:
        ratio = done.all_bytes / done.all_written
        whole = f"{plural(done.all_sessions, 'session')}, {file_size(done.all_bytes)}"
        echo(dim(f"{archive.folder}: {whole} in {file_size(done.all_written)} ({ratio:.1f} ×)"))


def _report_unread(ctx: click.Context, done: Archived) -> None:
    for each in done.unread:
        echo(f"turnlog: not archived: {plain(each.path)}: {each.reason}", err=True)
    if done.unread:
        ctx.exit(1)


def _install(store: Store, into: Path | None) -> str:
    """Install the hook; return a message."""
    if not ARCHIVE_HOOK.install(store, ["--into", str(into.resolve())] if into else []):
        return f"Already installed in {store.settings}"
    return f"Installed in {store.settings} (archive existing sessions now: turnlog archive)"


def _uninstall(store: Store) -> str:
    """Remove the hook; return a message."""
    is_new = ARCHIVE_HOOK.uninstall(store)
    return f"Removed from {store.settings}" if is_new else f"Not installed in {store.settings}"


def _report_failure(ctx: click.Context, failed: str) -> None:
    if failed:
        echo(f"turnlog: the last archive run failed: {plain(failed)}", err=True)
        ctx.exit(1)


def _print_hook(message: str, store: Store, as_json: bool) -> None:
    """Print whether the hook is installed now."""
    if as_json:
        echo_json({"settings": store.settings, "installed": bool(ARCHIVE_HOOK.installed(store))})
    else:
        echo(message)


def _check(ctx: click.Context, archive: Archive, as_json: bool) -> None:
    with progress_bar(len(archive.names()), "checking") as bar:
        checked = check_archive(archive, lambda: bar.update(1))
    if as_json:
        echo_json(checked)
    else:
        for damage in checked.damages:
            where = f"{plain(damage.session)}  {plain(damage.path)}".rstrip()
            echo(f"{style('damaged', 'red')}  {where}: {plain(damage.message)}")
        verdict = plural(len(checked.damages), "damage") if checked.damages else "sound"
        unused = f", and {checked.unused:,} unused" if checked.unused else ""
        objects = f"{plural(checked.objects, 'object')}{unused}"
        echo(f"{plural(checked.sessions, 'session')}, {objects}: {verdict}")
    if checked.damages:
        ctx.exit(1)


def _list(archive: Archive, as_json: bool) -> None:
    long_ago = datetime.fromtimestamp(0, UTC)
    manifests = sorted(archive.manifests(), key=lambda each: each.last_active or long_ago)
    if as_json:
        echo_json([_as_json(manifest) for manifest in reversed(manifests)])
        return
    if not manifests:
        raise NotFound(f"nothing is archived in {archive.folder}", "turnlog archive")
    echo_table(with_rows(COLUMNS, map(_cells, reversed(manifests))))


def _cells(manifest: ArchiveManifest) -> list[str]:
    when = age(manifest.last_active) if manifest.last_active else ""
    state = "" if manifest.is_in_store else "mirrored" if manifest.is_mirrored else "gone"
    title = plain(manifest.title) or "(empty)"
    return [short_id(manifest.session), when, title, state, file_size(manifest.size)]


def _as_json(manifest: ArchiveManifest) -> dict[str, Any]:
    return {
        "id": manifest.session,
        "title": manifest.title,
        "cwd": manifest.cwd,
        "last_active": manifest.last_active,
        "files": [file.path for file in manifest.files],
        "bytes": manifest.size,
        "is_gone": not manifest.is_in_store,
    }
