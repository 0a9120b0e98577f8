"""turnlog lake: share figures of all machines as Parquet files."""

from contextlib import closing, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Any

import click

from turnlog.cli.arguments import dry_run_option, json_option, since_option, yes_option
from turnlog.cli.extras import require_extra
from turnlog.cli.forget import consent_of
from turnlog.cli.indexing import ON_STDERR
from turnlog.cli.lake_ingest import ddl_command, ingest_command, scout_command
from turnlog.cli.lake_install import install_command, push_in_background, uninstall_command
from turnlog.cli.output import StepBar, echo_json, plain
from turnlog.cli.store_options import store_option, stores_in
from turnlog.cli.suggested_commands import to_type
from turnlog.cli.tables import Column, echo_table, with_rows
from turnlog.cli.terminal import dim, echo, style
from turnlog.errors import Conflict, UsageError
from turnlog.format.timestamps import age
from turnlog.lake.lake_compaction import GRACE, CompactOptions, compact
from turnlog.lake.lake_forgetting import ForgetRequest, forget
from turnlog.lake.lake_push import Pushed, PushOptions, last_settings, push
from turnlog.lake.lake_settings import LakeSettings, parse_consents, read_settings
from turnlog.lake.lake_status import LakeStatus, MachineStatus, lake_status, pull
from turnlog.lake.lake_verification import VerifiedLake, verify
from turnlog.store.paths import expand_user
from turnlog.text import file_size, plural

MOST_NAMED = 10
MACHINES = (
    Column("machine", is_whole=True, look="dim"),
    Column("host"),
    Column("user"),
    Column("files", is_number=True),
    Column("rows", is_number=True),
    Column("days", is_whole=True, expendable=1, look="dim"),
    Column("pushed", is_number=True, look="dim"),
)
TABLES = (
    Column("table"),
    Column("rows", is_number=True),
    Column("parts", is_number=True),
    Column("size", is_number=True),
)

with_option = click.option(
    "--with",
    "consents",
    multiple=True,
    metavar="WHAT",
    help="Include paths, commands or texts; secrets in them are masked.",
)
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print only errors.")


def name_options(command: Any) -> Any:
    """Add the options for the names that are stored with rows."""
    options = [
        click.option(
            "--names",
            type=click.Choice(["plain", "hash"]),
            help="Store names as they are, or hashed.",
        ),
        click.option(
            "--key",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="File with the key that names are hashed with.",
        ),
        click.option("--user", metavar="NAME", help="Name of the user; by default the login name."),
        click.option("--host", metavar="NAME", help="Name of this machine; by default its own."),
    ]
    # Decorators apply bottom-up: reversed, help lists the options in the order above.
    for option in reversed(options):
        command = option(command)
    return command


def settings_of(given: dict[str, Any]) -> LakeSettings:
    """Return the configured settings, overridden by options of the command line."""
    settings = read_settings()
    if given.get("consents"):
        settings = replace(settings, consents=parse_consents(given["consents"]))
    if given.get("names"):
        settings = replace(settings, is_hashed=given["names"] == "hash")
    chosen = {name: given[name] for name in ("key", "user", "host") if given.get(name)}
    if "key" in chosen:
        # Shells do not expand the ~ of --key=~/team.key. Absolute, because a push remembers the
        # path, and `lake verify` may use it in another directory.
        chosen["key"] = expand_user(str(chosen["key"])).absolute()
    return replace(settings, **chosen)


def dest_of(dest: str | None, settings: LakeSettings, command: str) -> str:
    """Return the lake that was named, or the configured one."""
    if found := dest or settings.dest:
        return found
    raise UsageError("name a lake, or set dest in [lake]", f"turnlog lake {command} s3://team/lake")


@click.group("lake")
def command() -> None:
    """Share the figures of all machines as Parquet files.

    DEST is a directory or a URL (s3://, gs://, abfs://); by default `dest` of [lake] in the
    configuration. Prompts, paths, commands and errors stay on this machine unless --with includes
    them. `turnlog stats REPORT --lake DEST` reports on all machines at once.

    \b
    Examples:
      turnlog lake push s3://team/lake
      turnlog lake status s3://team/lake
      turnlog lake install s3://team/lake
    """
    require_extra("lake", "lake support")


@command.command("push")
@click.argument("dest", required=False)
@since_option("sessions with entries")
@with_option
@name_options
@click.option("--again", is_flag=True, help="Write everything again, to replace damaged parts.")
@click.option("--background", is_flag=True, help="Push in a background process.")
@dry_run_option
@quiet_option
@json_option
@store_option
@click.pass_context
def push_command(ctx: click.Context, dest: str | None, **given: Any) -> None:
    """Push new and changed sessions to DEST.

    Only what has changed since the last push is read and written. Sessions that were edited,
    redacted or deleted replace or lose their rows. A push that is interrupted changes nothing;
    the next one continues.

    \b
    Examples:
      turnlog lake push /mnt/share/lake
      turnlog lake push s3://team/lake --with paths
      turnlog lake push s3://team/lake --names hash --key ~/team.key --dry-run
    """
    settings = settings_of(given)
    target = dest_of(dest, settings, "push")
    stores = stores_in(ctx)
    since: datetime | None = given["since"]
    if given["background"]:
        push_in_background(ctx, lambda: push(stores, target, settings))
        return
    progress = StepBar("pushing", is_hidden=given["quiet"] or given["as_json"])
    options = PushOptions(
        since=since and since.timestamp(),
        is_dry_run=given["dry_run"],
        again=given["again"],
        step=progress,
    )
    with closing(progress):
        done = push(stores, target, settings, options, ON_STDERR)
    if given["as_json"]:
        echo_json(asdict(done))
    elif not given["quiet"]:
        _print_pushed(done, would="would be " if given["dry_run"] else "")


def _print_pushed(done: Pushed, would: str) -> None:
    if done.rows:
        size = "" if would else dim(f", {file_size(done.bytes)}")
        echo(f"{plural(done.rows, 'row')} of {plural(done.files, 'file')} {would}pushed{size}")
    if done.retracted:
        echo(f"{plural(done.retracted, 'unit')} {would}retracted")
    if not done.rows and not done.retracted:
        echo("nothing has changed")
    if done.forgotten:
        echo(f"{plural(done.forgotten, 'forgotten file')} left out")
    if done.damaged:
        echo(f"{plural(len(done.damaged), 'damaged part')} {would}replaced")
    where = f"{plain(done.dest)}: {plural(done.unchanged, 'unchanged file')}"
    echo(dim(f"{where}, machine {done.machine}"))


@command.command("pull")
@click.argument("dest")
@click.argument("folder")
@dry_run_option
@json_option
def pull_command(dest: str, folder: str, dry_run: bool, as_json: bool) -> None:
    """Copy the lake DEST to FOLDER, for reports without a network.

    Run it again to bring the copy up to date: only new parts are copied. The copy is a lake, but
    nothing can be pushed to it.

    \b
    Examples:
      turnlog lake pull s3://team/lake ~/lake
    """
    done = pull(dest, folder, is_dry_run=dry_run)
    if as_json:
        echo_json(asdict(done))
        return
    would = "would be " if dry_run else ""
    echo(f"{plural(done.parts, 'part')} {would}copied{dim(f', {file_size(done.bytes)}')}")
    if done.deleted:
        echo(f"{plural(done.deleted, 'old part')} {would}deleted")
    echo(dim(f"{plain(folder)}: {plural(done.kept, 'part')} unchanged"))


@command.command("status")
@click.argument("dest", required=False)
@json_option
def status_command(dest: str | None, as_json: bool) -> None:
    """Show which machines pushed to DEST, and how large it is.

    \b
    Examples:
      turnlog lake status s3://team/lake
      turnlog lake status --json
    """
    found = lake_status(dest_of(dest, read_settings(), "status"))
    if as_json:
        echo_json(asdict(found))
    else:
        _print_status(found)


def _print_status(found: LakeStatus) -> None:
    if not found.machines:
        echo(f"{plain(found.dest)} is empty")
        return
    echo_table(with_rows(MACHINES, map(_machine_cells, found.machines)))
    echo("")
    rows = [
        [each.table, f"{each.rows:,}", f"{each.parts:,}", file_size(each.bytes)]
        for each in found.tables
    ]
    echo_table(with_rows(TABLES, rows))
    dest = quote(plain(found.dest))
    if found.dead_parts:
        freed = f"{plural(found.dead_parts, 'dead part')}, {file_size(found.dead_bytes)}"
        echo(dim(f"{freed} (try: {to_type(f'turnlog lake compact {dest}')})"))
    if found.missing:
        count = plural(len(found.missing), "part")
        echo(f"turnlog: {count} missing (try: {to_type(f'turnlog lake verify {dest}')})", err=True)
    for path in found.foreign[:MOST_NAMED]:
        echo(f"turnlog: ignored: {plain(path)} is not a part of the lake", err=True)
    if len(found.keys) > 1:
        keys = f"names are hashed with {len(found.keys)} keys"
        hint = to_type(f"turnlog lake push {dest} --key team.key")
        echo(f"turnlog: {keys}: copied turns count twice (try: {hint})", err=True)


def _machine_cells(each: MachineStatus) -> list[str]:
    first, last = each.first_day or "", each.last_day or ""
    days = first if first == last else f"{first} – {last}"
    when = age(datetime.fromtimestamp(each.written, UTC))
    name = f"{each.machine}{' *' if each.is_this else ''}"
    counts = [f"{each.files:,}", f"{each.rows:,}"]
    return [name, plain(each.host), plain(each.user), *counts, days, when]


@command.command("verify")
@click.argument("dest", required=False)
@with_option
@name_options
@json_option
@store_option
@click.pass_context
def verify_command(ctx: click.Context, dest: str | None, as_json: bool, **given: Any) -> None:
    """Check that DEST is whole and matches the sessions of this machine.

    Reads every live part and compares digests. Rows of this machine are computed again from its
    sessions, with the options of the last push.

    \b
    Examples:
      turnlog lake verify s3://team/lake
    """
    settings = settings_of(given)
    target = dest_of(dest, settings, "verify")
    if not any(given.values()):
        # A running push locks the state with the last options; then use those configured.
        with suppress(Conflict):
            settings = last_settings(target) or settings
    with closing(StepBar("verifying", is_hidden=as_json)) as bar:
        found = verify(stores_in(ctx), target, settings, bar, ON_STDERR)
    if as_json:
        echo_json(asdict(found) | {"is_sound": found.is_sound})
    else:
        _print_verified(found)
    if not found.is_sound:
        ctx.exit(1)


def _print_verified(found: VerifiedLake) -> None:
    for each in found.findings[:100]:
        kind = style(each.kind, "red" if each.is_serious else "yellow")
        echo(f"{kind}  {plain(each.path)}: {plain(each.message)}")
    if len(found.findings) > 100:
        echo(f"… and {len(found.findings) - 100:,} more")
    read = f"{plural(found.parts, 'part')}, {plural(found.rows, 'row')}"
    verdict = "sound" if found.is_sound else "not sound"
    echo(f"{read} of {plural(found.machines, 'machine')}: {verdict}")
    compared = plural(found.sessions, "session file")
    echo(dim(f"{compared} of this machine compared"))
    if not found.is_sound:
        hint = to_type(f"turnlog lake push {quote(plain(found.dest))} --again")
        echo(f"turnlog: rows of this machine can be replaced (try: {hint})", err=True)


@command.command("compact")
@click.argument("dest", required=False)
@click.option(
    "--grace",
    type=click.FloatRange(0),
    default=GRACE / 3600,
    show_default=True,
    metavar="HOURS",
    help="Keep replaced parts for HOURS, for readers that still use them.",
)
@dry_run_option
@json_option
@click.pass_context
def compact_command(
    ctx: click.Context, dest: str | None, grace: float, dry_run: bool, as_json: bool
) -> None:
    """Merge small parts of DEST, and delete parts without live rows.

    Any machine may do this at any time, also while others push or compact.

    \b
    Examples:
      turnlog lake compact s3://team/lake
      turnlog lake compact /mnt/share/lake --grace 0
    """
    options = CompactOptions(grace=grace * 3600, is_dry_run=dry_run)
    done = compact(dest_of(dest, read_settings(), "compact"), options)
    if as_json:
        echo_json(asdict(done))
    else:
        would = "would be " if dry_run else ""
        echo(f"{plural(done.merged, 'part')} {would}merged")
        freed = dim(f", {file_size(done.freed_bytes)} freed")
        echo(f"{plural(done.deleted, 'part')} {would}deleted{freed if done.deleted else ''}")
        if done.waiting:
            echo(dim(f"{plural(done.waiting, 'part')} to be deleted after {grace:g} hours"))
    for message in done.damaged:
        echo(f"turnlog: not merged: {plain(message)}", err=True)
    if done.damaged:
        ctx.exit(1)


@command.command("forget")
@click.argument("dest", required=False)
@click.option("--user", metavar="NAME", help="Forget all sessions of a user.")
@click.option("--session", metavar="ID", help="Forget a session, on all machines.")
@click.option(
    "--key",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with the key that names are hashed with.",
)
@dry_run_option
@yes_option
@json_option
@click.pass_context
def forget_command(ctx: click.Context, dest: str | None, as_json: bool, **given: Any) -> None:
    """Permanently delete all rows of a user or a session from DEST.

    Parts are written again without them, and the old ones deleted. The same files are not pushed
    again. This cannot be undone; turnlog asks for confirmation on a terminal, elsewhere --yes is
    required. If a bucket keeps old versions of objects, delete those there.

    \b
    Examples:
      turnlog lake forget s3://team/lake --user ada --dry-run
      turnlog lake forget s3://team/lake --session 4f5fa9a4-6c1e-4d5b-9b1c-2f6f3b9e2d11 --yes
    """
    settings = settings_of({"key": given["key"]})
    target = dest_of(dest, settings, "forget")
    is_dry_run = given["dry_run"]
    asked = ForgetRequest(given["user"], given["session"], is_dry_run, consent_of(given["yes"]))
    done = forget(target, settings, asked)
    if as_json:
        echo_json(asdict(done))
    else:
        verb = "Would forget" if is_dry_run else "Forgot"
        what = f"{plural(done.rows, 'row')} of {plural(done.files, 'file')}"
        echo(f"{verb} {what} on {plural(done.machines, 'machine')}")
    for message in done.problems:
        echo(f"turnlog: not complete: {plain(message)}", err=True)
    if done.problems:
        ctx.exit(1)


command.add_command(install_command)
command.add_command(uninstall_command)
command.add_command(ingest_command)
command.add_command(ddl_command)
command.add_command(scout_command)
