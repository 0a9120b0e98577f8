"""turnlog hook: manage the client hooks that send traces while you work."""

import os
from pathlib import Path
from typing import Any

import click

from turnlog.cli.arguments import json_option
from turnlog.cli.completions import complete_target
from turnlog.cli.extras import require_extra
from turnlog.cli.hook_doctor import examine, print_examination
from turnlog.cli.hook_status import installed_places, print_status, status_of
from turnlog.cli.output import echo_json, plain
from turnlog.cli.span_options import span_options
from turnlog.cli.terminal import echo, style
from turnlog.errors import Conflict, NotFound, TurnlogError
from turnlog.plugin.client_hooks import TRACE_HOOK
from turnlog.store.configuration import configuration_file
from turnlog.store.paths import Store, real_path
from turnlog.text import plural
from turnlog.trace.send import SendReport
from turnlog.trace.sender import Sender, Urgency
from turnlog.trace.spool import Spool
from turnlog.trace.switch import ancestors, read_switches
from turnlog.trace.targets import backend_of
from turnlog.trace.trace_settings import load_targets

WAIT = 30.0
"""Seconds to wait for another sender."""
project_option = click.option(
    "--project",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Project directory; by default the current one.",
)


def trace_options(command: Any) -> Any:
    """Add the options for the targets and content of traces."""
    to = click.option(
        "--to",
        metavar="TARGET",
        multiple=True,
        shell_complete=complete_target,
        help="Backend (langfuse, phoenix, ...) or URL; repeatable.",
    )
    return to(span_options(command))


@click.group("hook")
def command() -> None:
    """Send traces while you work, using client hooks.

    A hook only queues a note on disk, so the client never waits for the backend. Notes that cannot
    be sent are retried later.

    \b
    Examples:
      turnlog hook install --to langfuse
      turnlog hook status
      turnlog hook off --project ~/src/private
    """


@command.command("install")
@trace_options
@click.pass_obj
def install(store: Store, **options: Any) -> None:
    """Install client hooks that send traces after each turn.

    Settings without an option here are read from the environment and turnlog's configuration when
    a hook runs.

    \b
    Examples:
      turnlog hook install --to langfuse
      turnlog hook install --to http://localhost:4318 --content none
    """
    require_extra("trace", "tracing")
    targets = [backend_of(settings) for settings in load_targets(options)]
    spool = Spool()
    # A project's settings may set XDG_CONFIG_HOME or HOME for its hooks. With fixed paths, they
    # still find the user's configuration, and the switch that turns the project off.
    places = {"config": configuration_file(), "spool": spool.folder, "store": store.root}
    fixed = [word for name, path in places.items() for word in (f"--{name}", str(path.absolute()))]
    is_new = TRACE_HOOK.install(store, [*_words(options), *fixed])
    spool.begin()
    verb = "Installed" if is_new else "Already installed"
    addresses = " and ".join(target.address for target in targets)
    echo(f"{verb} in {store.settings}; traces go to {addresses}")


def _words(options: dict[str, Any]) -> list[str]:
    """Return options as arguments of the hook's command, each name followed by its value."""
    words: list[str] = []
    for name, value in options.items():
        option = "--tag" if name == "tags" else f"--{name.replace('_', '-')}"
        values: list[Any] = list(value) if option in ("--tag", "--to") else [value]
        for each in values:
            words += [] if each is None else [option, str(each)]
    return words


@command.command("uninstall")
@click.pass_obj
def uninstall(store: Store) -> None:
    """Remove the client hooks.

    \b
    Examples:
      turnlog hook uninstall
    """
    is_new = TRACE_HOOK.uninstall(store)
    where = f"Removed from {store.settings}" if is_new else f"Not installed in {store.settings}"
    echo(where)


@command.command("run", context_settings={"ignore_unknown_options": True})
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def run(options: tuple[str, ...]) -> None:
    """Queue a hook call for delivery; run by the client.

    Reads the hook's JSON payload from stdin. A background process sends it.
    """
    raise click.UsageError("stdin contains no JSON; the client passes a payload to its hooks")


@command.command("on")
@project_option
@click.pass_obj
def switch_on(store: Store, project: Path | None) -> None:
    """Resume traces of a project and its subdirectories.

    \b
    Examples:
      turnlog hook on --project ~/src/shop
    """
    _switch(store, project, is_on=True)


@command.command("off")
@project_option
@click.pass_obj
def switch_off(store: Store, project: Path | None) -> None:
    """Stop traces of a project and its subdirectories.

    Queued notes are held until the project is switched on again. Turns made while it is off are
    never sent by the hooks.

    \b
    Examples:
      turnlog hook off --project ~/src/private
    """
    _switch(store, project, is_on=False)


def _switch(store: Store, project: Path | None, is_on: bool) -> None:
    # Shells do not expand the ~ of --project=~/vault, and hardly anyone means a directory "~".
    named = os.path.expanduser(project or Path.cwd())  # noqa: PTH111 - accepts ~nosuchuser
    folder = real_path(Path(named))
    places = installed_places(store)
    switches = read_switches(str(places["config"]))
    if not switches.is_readable:
        raise TurnlogError(f"{switches.path} cannot be read", f"chmod 600 {switches.path}")
    # With a misspelled directory, the project that was meant would silently stay on or off.
    if not folder.is_dir() and str(folder) not in switches.events:
        raise NotFound(f"{plain(str(folder))} is not a directory", "turnlog hook status")
    switches.turn(str(folder), is_on)
    inside = [
        n for n in Spool(places["spool"]).notes() if str(folder) in ancestors(n.route.project)
    ]
    verb = "waiting (send now: turnlog hook send)" if is_on else "held"
    details = f"; {plural(len(inside), 'note')} {verb}" if inside else ""
    echo(f"{'on' if is_on else 'off'}  {folder}{details}")


@command.command("send")
@click.option("--again", is_flag=True, help="Retry notes that the backend rejected.")
@json_option
@click.pass_context
def send(ctx: click.Context, again: bool, as_json: bool) -> None:
    """Send queued notes now, each to its project's target.

    Exits with 1 if a note could not be sent.

    \b
    Examples:
      turnlog hook send
      turnlog hook send --again
    """
    store: Store = ctx.obj
    spool = Spool(installed_places(store)["spool"])
    sender = Sender(spool, spool.folder.parent)
    if not sender.run(again, Urgency(WAIT, is_forced=True)):
        raise Conflict("another turnlog is sending", "turnlog hook status")
    if as_json:
        echo_json(sender.reports)
    else:
        _report(sender.reports)
        if not (sender.reports or sender.held or sender.problems):
            echo("nothing is waiting")
    for project, count in sender.held.items():
        hint = f"turnlog hook on --project {plain(project)}"
        echo(f"held: {plural(count, 'note')} of {plain(project)} ({hint})", err=True)
    for reason in sender.problems.values():
        echo(style(f"waits: {plain(reason)}", "red"), err=True)
    if sender.problems:
        ctx.exit(1)


def _report(reports: list[SendReport]) -> None:
    for report in reports:
        others = {"open": report.open, "refused": report.refused}
        details = "".join(f", {count:,} {name}" for name, count in others.items() if count)
        echo(f"{report.session}  {plural(report.sent, 'span')} sent{details}")
        for link in report.links:
            echo(f"  {plain(link)}")


@command.command("status")
@json_option
@click.pass_obj
def status(store: Store, as_json: bool) -> None:
    """Show targets, switches, and sent, queued and failed notes.

    \b
    Examples:
      turnlog hook status
      turnlog hook status --json | jq .waiting
    """
    held = status_of(store, Spool(installed_places(store)["spool"]))
    if as_json:
        echo_json(held)
    else:
        print_status(held)


@command.command("doctor")
@trace_options
@json_option
@click.pass_context
def doctor(ctx: click.Context, as_json: bool, **options: Any) -> None:
    """Send a test span and check the installation.

    Exits with 1 if the hooks cannot work.

    \b
    Examples:
      turnlog hook doctor
      turnlog hook doctor --to phoenix
    """
    require_extra("trace", "tracing")
    store: Store = ctx.obj
    found = examine(store, options)
    if as_json:
        echo_json(found)
    else:
        print_examination(found)
    if not found["is_well"]:
        ctx.exit(1)
