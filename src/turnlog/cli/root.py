"""The root command; modules of subcommands are imported when they are called."""

import os
from importlib import import_module
from pathlib import Path

import click

from turnlog import __version__
from turnlog.cli.direct import COMPLETE
from turnlog.cli.reporting import reported
from turnlog.cli.signals import interrupted
from turnlog.cli.store_options import CHOSEN, FILLING, store_option, stores_in, use_stores
from turnlog.cli.suggested_commands import choose, name_files
from turnlog.cli.suggestions import usage_error
from turnlog.cli.terminal import echo
from turnlog.store.paths import Store, open_store
from turnlog.store.stores import Stores, all_session_files, places_of, store_at

GROUPS = {
    "View": (
        "ls",
        "show",
        "tree",
        "turns",
        "calls",
        "files",
        "history-of",
        "cost",
        "context",
        "tail",
        "live",
    ),
    "Browse": ("pick", "resume", "web"),
    "Search": ("search", "sql"),
    "Analyze": ("stats", "lake", "check", "inspect"),
    "Edit": ("clone", "edit", "mv", "rename", "tag", "rm", "undo", "history", "forget"),
    "Share": (
        "export",
        "bundle",
        "unbundle",
        "share",
        "sync-with",
        "git",
        "redact",
        "archive",
        "restore",
    ),
    "Trace": ("trace", "hook"),
    "Agent": ("chat", "agents", "mcp", "plugin", "replay", "statusline"),
    "Low level": ("entries", "raw", "schema", "where", "sync", "completion"),
}
"""Commands by the heading that `turnlog --help` lists them under."""
COMMANDS = tuple(name for names in GROUPS.values() for name in names)


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return import_module(f"turnlog.cli.{cmd_name.replace('-', '_')}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        longest = max(map(len, COMMANDS))
        for title, names in GROUPS.items():
            with formatter.section(title):
                commands = [(name, self.get_command(ctx, name)) for name in names]
                # Padded names align the columns of all sections.
                rows = [
                    (name.ljust(longest), command.get_short_help_str(formatter.width))
                    for name, command in commands
                    if command
                ]
                formatter.write_dl(rows)


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, "-V", "--version", message="turnlog %(version)s")
@store_option
@click.option("--samples", is_flag=True, help="Use the sample sessions shipped with turnlog.")
@click.pass_context
def root(ctx: click.Context, samples: bool) -> None:
    """Read, search, analyze and edit Claude Code sessions.

    Run `turnlog` without a command for an overview of recent sessions. SESSION is `last`, an id or
    the start of one, a title or slug or part of one, or a path.

    \b
    Examples:
      turnlog show last
      turnlog search "connection pool" --since yesterday
      turnlog stats weekly --project shop
    """
    chosen: Stores = ctx.meta.get(CHOSEN, ())
    if ctx.invoked_subcommand not in FILLING:
        for store in chosen:
            store_at(store.root)
    if samples:
        use_stores(ctx, (*chosen, samples_store()))
        choose(["--samples", *(word for each in chosen for word in ("--store", str(each.root)))])
    elif not chosen:
        ctx.obj = open_store()
    if ctx.invoked_subcommand is None:
        _require_sessions(ctx)
        ctx.invoke(import_module("turnlog.cli.overview").command)


def _require_sessions(ctx: click.Context) -> None:
    """Use the sample sessions if the user has no sessions yet."""
    stores = stores_in(ctx)
    if CHOSEN not in ctx.meta and not any(all_session_files(stores)):
        echo(f"No sessions in {places_of(stores)} yet: these are turnlog's samples.", err=True)
        use_stores(ctx, (samples_store(),))
        choose(["--samples"])


def samples_store() -> Store:
    """Return the store of sample sessions in the package."""
    return Store(Path(__file__).parent.parent / "samples")


def help_of(path: list[str]) -> str:
    """Return the help text of a command, or of the root, formatted for 80 columns."""
    command: click.Command = root
    context = click.Context(root, info_name="turnlog", terminal_width=80)
    context.help_option_names = ["-h", "--help"]
    for name in path:
        assert isinstance(command, click.Group)
        command = command.get_command(context, name) or command
        context = click.Context(command, parent=context, info_name=name, terminal_width=80)
    return command.get_help(context) + "\n"


def command_paths() -> list[list[str]]:
    """Return the words that call each command and subcommand, in the order of the help."""
    paths: list[list[str]] = []
    for name in COMMANDS:
        context = click.Context(root)
        command = root.get_command(context, name)
        names = command.list_commands(context) if isinstance(command, click.Group) else []
        paths += [[name], *([name, each] for each in names)]
    return paths


def run(arguments: list[str]) -> int:
    """Run a command line and return its exit code."""
    return reported(lambda: _invoke(arguments))


def _invoke(arguments: list[str]) -> int:
    try:
        return _complete() if COMPLETE in os.environ else _call(arguments)
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.exceptions.Abort:
        return interrupted()
    except click.exceptions.NoArgsIsHelpError as error:
        echo(error.format_message(), err=True)
        return error.exit_code
    except click.ClickException as error:
        name = next((word for word in arguments if word in COMMANDS), None)
        raise usage_error(error, name) from error


def _complete() -> int:
    from click.shell_completion import shell_complete

    return shell_complete(root, {}, "turnlog", COMPLETE, os.environ[COMPLETE])


def _call(arguments: list[str]) -> int:
    name_files(arguments)
    with root.make_context("turnlog", arguments) as context:
        root.invoke(context)
    return 0
