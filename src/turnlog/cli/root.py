"""The root command, whose subcommands are modules imported when they are called."""

import os
from importlib import import_module
from pathlib import Path

import click

from turnlog import __version__
from turnlog.cli.direct import COMPLETE
from turnlog.cli.reporting import INTERRUPTED, reported
from turnlog.cli.terminal import echo
from turnlog.errors import UsageError
from turnlog.store.paths import Store, open_store

COMMANDS = (
    "chat",
    "ls",
    "search",
    "show",
    "tree",
    "turns",
    "calls",
    "files",
    "cost",
    "context",
    "stats",
    "sql",
    "sync",
    "statusline",
    "clone",
    "edit",
    "mv",
    "rename",
    "rm",
    "redact",
    "undo",
    "history",
    "forget",
    "archive",
    "restore",
    "check",
    "trace",
    "hook",
    "replay",
    "entries",
    "raw",
    "inspect",
    "tail",
    "where",
    "schema",
    "completion",
)


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return import_module(f"turnlog.cli.{cmd_name}").command


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, "-V", "--version", message="turnlog %(version)s")
@click.option("--samples", is_flag=True, help="Use the sample sessions that come with turnlog.")
@click.pass_context
def root(ctx: click.Context, samples: bool) -> None:
    """Read, search, measure and edit the session files of Claude Code.

    SESSION is a path, an id, the start of an id, a title or slug, or `last`. Without a command,
    turnlog gives an overview.
    """
    store = samples_store() if samples else open_store()
    if ctx.invoked_subcommand is None and not samples and not any(store.session_files()):
        echo(f"No sessions in {store.projects} yet: these are turnlog's samples.", err=True)
        store = samples_store()
    ctx.obj = store
    if ctx.invoked_subcommand is None:
        ctx.invoke(import_module("turnlog.cli.overview").command)


def samples_store() -> Store:
    """The sample sessions in the package."""
    return Store(Path(__file__).parent.parent / "samples")


def help_of(path: list[str]) -> str:
    """The help text of a command, or of the root, laid out for 80 columns."""
    command: click.Command = root
    context = click.Context(root, info_name="turnlog", terminal_width=80)
    context.help_option_names = ["-h", "--help"]
    for name in path:
        command = root.get_command(context, name) or command
        context = click.Context(command, parent=context, info_name=name, terminal_width=80)
    return command.get_help(context) + "\n"


def run(arguments: list[str]) -> int:
    """Run a command line and return its exit code."""
    return reported(lambda: _invoke(arguments))


def _invoke(arguments: list[str]) -> int:
    try:
        return _complete() if COMPLETE in os.environ else _call(arguments)
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.exceptions.Abort:
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        echo(error.format_message(), err=True)
        return error.exit_code
    except click.ClickException as error:
        raise _usage_error(error) from error


def _complete() -> int:
    from click.shell_completion import shell_complete

    return shell_complete(root, {}, "turnlog", COMPLETE, os.environ[COMPLETE])


def _call(arguments: list[str]) -> int:
    with root.make_context("turnlog", arguments) as context:
        root.invoke(context)
    return 0


def _usage_error(error: click.ClickException) -> UsageError:
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "turnlog"
    return UsageError(error.format_message().replace("\n", " "), f"{command} --help")
