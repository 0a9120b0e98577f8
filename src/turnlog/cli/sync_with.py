"""turnlog sync-with: exchange sessions with other machines."""

from dataclasses import asdict
from shlex import quote
from typing import Any

import click

from turnlog.cli.arguments import dry_run_option, json_option, yes_option
from turnlog.cli.forget import consent_of
from turnlog.cli.output import echo_json, plain, progress_bar
from turnlog.cli.passwords import password_file_option, password_from
from turnlog.cli.store_options import store_option, stores_in
from turnlog.cli.suggested_commands import to_type
from turnlog.cli.terminal import dim, echo
from turnlog.errors import UsageError
from turnlog.exchange.options import Exchanged, ExchangeOptions, NotExchanged
from turnlog.exchange.run import sync_with
from turnlog.secrets import mask
from turnlog.store.paths import Store, expand_user
from turnlog.store.stores import Stores
from turnlog.text import file_size, plural

PASSWORD = "TURNLOG_SYNC_PASSWORD"
MOST_NAMED = 5


@click.command("sync-with")
@click.argument("dest")
@dry_run_option
@click.option(
    "--leave-removed",
    is_flag=True,
    help="Do not bring back lines and sessions that were removed here.",
)
@click.option(
    "--delete",
    is_flag=True,
    help="Delete elsewhere what was removed here, and here what was removed elsewhere.",
)
@click.option(
    "--map",
    "mapped",
    multiple=True,
    metavar="LOCAL=SHARED",
    help="Map the directory LOCAL to SHARED on other machines; remembered.",
)
@click.option("--init", is_flag=True, help="Start at a new DEST; creates the directory.")
@click.option("--verify", is_flag=True, help="Read all packs at DEST; send damaged ones again.")
@click.option("--password", is_flag=True, help="Encrypt everything at DEST; asks for a password.")
@password_file_option
@yes_option
@click.option("-q", "--quiet", is_flag=True, help="Print only errors.")
@json_option
@store_option
@click.pass_context
def command(ctx: click.Context, dest: str, quiet: bool, as_json: bool, **given: Any) -> None:
    """Exchange all sessions with other machines through DEST.

    DEST is a directory, ssh:HOST:PATH, rclone:REMOTE:PATH, or a git repository (git:URL); the first
    sync with a new one needs --init. Run the same command on each machine: afterwards each of them
    has every line of every session. Sessions that were continued in two places get two branches;
    edited ones are kept next to each other as forks. Nothing is deleted, settings and credentials
    are never exchanged, and `turnlog undo` undoes what a sync changed here.

    \b
    Examples:
      turnlog sync-with /mnt/share/sessions --init
      turnlog sync-with /mnt/share/sessions
      turnlog sync-with ssh:ada@desk:sessions --dry-run
      turnlog sync-with rclone:gdrive:sessions --password
    """
    store = _one_store(stores_in(ctx))
    progress = _Progress(is_hidden=quiet)
    options = ExchangeOptions(
        is_dry_run=given["dry_run"],
        leave_removed=given["leave_removed"],
        is_deleting=given["delete"],
        consent=consent_of(given["yes"]),
        mapped=dict(map(_mapping, given["mapped"])),
        password=password_from(
            given["password_file"],
            given["password"],
            PASSWORD,
            f"turnlog sync-with {quote(mask(dest))}",
            confirm=False,
        ),
        may_start=given["init"],
        is_verifying=given["verify"],
        progress=progress,
    )
    try:
        done = sync_with(store, dest, options)
    finally:
        progress.close()
    if as_json:
        echo_json(asdict(done))
    elif not quiet:
        _print(done, given["dry_run"])
    _print_problems(done, quiet)
    if done.problems:
        ctx.exit(1)


class _Progress:
    """A progress bar for each step of a sync."""

    def __init__(self, is_hidden: bool) -> None:
        self._is_hidden = is_hidden
        self._step, self._bar = "", None

    def __call__(self, step: str, done: int, total: int) -> None:
        if self._is_hidden:
            return
        if step != self._step:
            self.close()
            self._step, self._bar = step, progress_bar(total, step).__enter__()
        if self._bar:
            self._bar.update(done - self._bar.pos)

    def close(self) -> None:
        if self._bar:
            self._bar.__exit__(None, None, None)
            self._bar = None


def _one_store(stores: Stores) -> Store:
    # Two stores that sync with one DEST are two machines: each would get the sessions of the other.
    if len(stores) > 1:
        hint = f"turnlog sync-with DEST --store {quote(str(stores[0].root))}"
        raise UsageError(f"sync-with takes one store, not {len(stores)}", hint)
    return stores[0]


def _mapping(text: str) -> tuple[str, str]:
    local, equals, shared = text.partition("=")
    if not equals or not local or not shared:
        hint = "turnlog sync-with DEST --map /work/shop=~/shop"
        raise UsageError(f"{text!r} is not LOCAL=SHARED", hint)
    return str(expand_user(local).absolute()).rstrip("/"), shared.rstrip("/")


def _print(done: Exchanged, is_dry_run: bool) -> None:
    would = "would be " if is_dry_run else ""
    rows = [
        (done.created, "new here"),
        (done.extended, "fast-forwarded"),
        (done.merged, "merged: another machine's lines are a branch of the session"),
        (done.forked, "added: another edition, as a fork"),
        (done.removed, "removed: deleted on another machine"),
        (done.deleted, "marked as deleted"),
    ]
    if done.sent:
        size = dim(f", {file_size(done.sent_bytes)}")
        echo(f"{plural(done.sent, 'session')} {would}sent{size}")
    for names, what in rows:
        if names:
            echo(f"{plural(len(names), 'session')} {would}{what}")
            shown = [] if what == "new here" else names[:MOST_NAMED]
            for name in shown:
                echo(f"  {plain(name)}")
            if shown and len(names) > MOST_NAMED:
                echo(f"  … and {len(names) - MOST_NAMED:,} more")
    if done.files:
        echo(f"{plural(done.files, 'other file')} {would}received")
    if not done.sent and not done.files and not any(names for names, _ in rows):
        echo("nothing has changed")
    machines = plural(done.machines, "other machine")
    echo(dim(f"{plain(done.dest)}: {plural(done.sessions, 'session')} here, {machines}"))


def _print_problems(done: Exchanged, quiet: bool) -> None:
    for remark in () if quiet else done.started:
        echo(f"turnlog: {plain(remark)}", err=True)
    for name in () if quiet else done.repaired:
        echo(f"turnlog: {plain(name)} was damaged at DEST: sent again", err=True)
    for each in () if quiet else done.rewinding:
        hint = to_type(f"turnlog files {quote(each.name)}")
        echo(
            f"turnlog: {plain(each.name)}: received lines let /rewind change {plain(each.reason)}"
            f" (try: {hint})",
            err=True,
        )
    for path in done.set_aside:
        echo(f"turnlog: another machine's version is in {plain(path)}", err=True)
    for each in () if quiet else done.skipped:
        _print_one("not changed here", each, f"turnlog sync-with {plain(done.dest)}")
    for each in () if quiet else done.linked:
        reason = f"{each.reason} is a symbolic link, which turnlog reads but never writes through"
        _print_one("not changed here", NotExchanged(each.name, reason))
    for each in done.problems:
        _print_one("not exchanged", each)
    if done.returned and not quiet:
        count = plural(len(done.returned), "removed session")
        hint = to_type(f"turnlog sync-with {plain(done.dest)} --leave-removed")
        echo(f"turnlog: {count} came back (try: {hint})", err=True)


def _print_one(what: str, each: NotExchanged, hint: str | None = None) -> None:
    command = f" (try: {to_type(hint)})" if hint else ""
    echo(f"turnlog: {what}: {plain(each.name)}: {plain(each.reason)}{command}", err=True)
