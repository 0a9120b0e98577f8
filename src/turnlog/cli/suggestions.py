"""Turn click's errors into one line whose hint is a command to type, such as the nearest match."""

import re
from collections.abc import Iterable

import click
from click.exceptions import NoSuchCommand, NoSuchOption

from turnlog.errors import UsageError

CLOSE = 0.6
"""Minimum similarity, from 0 to 1, for a name to be suggested."""
OTHER_NAMES = {
    "list": "ls",
    "log": "ls",
    "sessions": "ls",
    "view": "show",
    "cat": "show",
    "grep": "search",
    "find": "search",
    "delete": "rm",
    "remove": "rm",
    "move": "mv",
    "copy": "clone",
    "cp": "clone",
    "fork": "clone",
    "usage": "stats",
    "report": "stats",
    "doctor": "check",
    "verify": "check",
    "fix": "edit",
    "repair": "edit",
    "follow": "tail",
    "backup": "archive",
    "path": "where",
    "paths": "where",
    "continue": "resume",
    "choose": "pick",
    "select": "pick",
    "chart": "stats",
    "html": "export",
    "share": "export",
    "serve": "web",
    "ui": "web",
    "open": "web",
    "ps": "live",
    "status": "live",
    "top": "live",
}
"""Commands by the names that other programs use for them."""
OTHER_OPTIONS = {
    "--sort": "--order",
    "--sort-by": "--order",
    "--order-by": "--order",
    "--force": "--yes",
    "--overwrite": "--yes",
}
"""Options by the names that other programs use for them."""


def usage_error(error: click.ClickException, command: str | None = None) -> UsageError:
    """Return the error that reports a command line click could not parse.

    `command` is the name of the command, as some errors of click have no context.
    """
    context = getattr(error, "ctx", None)
    path = context.command_path if context else f"turnlog {command or ''}".rstrip()
    hint = f"{path} --help"
    if isinstance(error, NoSuchCommand) and context:
        message = f"no such command {error.command_name!r}"
        hint = _command_hint(context, error.command_name) or hint
    elif isinstance(error, NoSuchOption):
        message = f"no such option {error.option_name!r}"
        match = _option_hint(context, error.option_name) if context else None
        hint = f"{path} {match}" if match else hint
    else:
        hint = _choice_hint(path, error) or hint
        message = error.format_message().replace("\n", " ").removesuffix(".")
        message = message[:1].lower() + message[1:]
    return UsageError(message, hint)


def _option_hint(context: click.Context, name: str) -> str | None:
    options = visible_options(context)
    if match := OTHER_OPTIONS.get(name):
        # A synonym is not a misspelling: without --order, --sort must not suggest --store.
        return match if match in options else None
    # Compare without the dashes, which all options share: with them, --sort resembles --json.
    bare = nearest(name.lstrip("-"), (option.lstrip("-") for option in options))
    return f"--{bare}" if bare else None


def _command_hint(context: click.Context, name: str) -> str | None:
    command = context.command
    names = command.list_commands(context) if isinstance(command, click.Group) else []
    match = OTHER_NAMES.get(name.lower())
    match = match if match in names else nearest(name, names)
    return f"{context.command_path} {match}" if match else None


def _choice_hint(path: str, error: click.ClickException) -> str | None:
    """Return the command with the value that a misspelled choice resembles."""
    parameter = error.param if isinstance(error, click.BadParameter) else None
    value = re.match(r"'([^']*)' is not one of ", error.message)
    if not (parameter and isinstance(parameter.type, click.Choice) and value):
        return None
    choices: Iterable[str] = map(str, parameter.type.choices)
    match = nearest(value[1], choices)
    option = f"{parameter.opts[-1]} " if isinstance(parameter, click.Option) else ""
    return f"{path} {option}{match}" if match else None


def visible_options(context: click.Context) -> list[str]:
    """Return the spellings of a command's options that its help shows."""
    parameters = context.command.get_params(context)
    return [
        name
        for each in parameters
        if isinstance(each, click.Option) and not each.hidden
        for name in (*each.opts, *each.secondary_opts)
        if name.startswith("--")
    ]


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the most similar of some names, or None if none is similar.

    >>> nearest("serach", ["show", "search"]), nearest("xyz", ["show"])
    ('search', None)
    """
    from difflib import get_close_matches

    return next(iter(get_close_matches(name.lower(), list(names), 1, CLOSE)), None)
