"""Flags of the client that `turnlog chat` does not have: accepted with a notice, or refused.

A flag is refused if the chat would otherwise do what the user ruled out, such as recording a
session. It is ignored if only convenience is lost. Names and arguments are those of 2.1.325.
Options that take several values in the client take them here, too.
"""

import os
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

import click

from turnlog.cli.terminal import echo_plain
from turnlog.errors import UsageError
from turnlog.format.tools import KNOWN_TOOLS

NONE, OPTIONAL, REQUIRED = "", "[]", "<>"
"""A flag takes no argument, an optional one or a required one."""
ARGUMENTS = "turnlog.chat.arguments"
"""Key of the arguments in the context of the command."""
ALWAYS, IGNORED, REFUSED = "supported", "ignored", "refused"


class ClientFlag(NamedTuple):
    """A flag of the client."""

    names: tuple[str, ...]
    argument: str
    treatment: str
    reason: str
    hint: str | None = None
    """What to type instead."""


CLOUD = "turnlog has no cloud sessions"
CHROME = "turnlog does not control a browser"
CLIENT_FLAGS = (
    ClientFlag(("--await-initialize",), NONE, ALWAYS, "turnlog waits for the program anyway"),
    ClientFlag(("--no-chrome",), NONE, ALWAYS, CHROME),
    ClientFlag(("--forward-subagent-text",), NONE, ALWAYS, "-p prints it anyway"),
    ClientFlag(("--ax-screen-reader",), NONE, IGNORED, "output for pipes is plain text"),
    ClientFlag(("--brief",), NONE, IGNORED, "turnlog has no such tool"),
    ClientFlag(("--chrome",), NONE, IGNORED, CHROME),
    ClientFlag(("--ide",), NONE, IGNORED, "editors start turnlog chat --acp"),
    ClientFlag(("--prompt-suggestions",), OPTIONAL, IGNORED, "turnlog suggests no prompts"),
    ClientFlag(
        ("--remote-control-session-name-prefix",), REQUIRED, IGNORED, "there is no remote control"
    ),
    ClientFlag(
        ("--system-prompt-snapshot",), REQUIRED, IGNORED, "the system prompt is not recorded"
    ),
    ClientFlag(("--cloud",), OPTIONAL, REFUSED, CLOUD),
    ClientFlag(("--desktop",), NONE, REFUSED, "turnlog has no desktop app", "turnlog web"),
    ClientFlag(("--environment",), REQUIRED, REFUSED, CLOUD),
    ClientFlag(("--file",), REQUIRED, REFUSED, "turnlog downloads no files"),
    ClientFlag(
        ("--from-pr",), OPTIONAL, REFUSED, "name the session instead", "turnlog search NUMBER"
    ),
    ClientFlag(
        ("--managed-settings",), REQUIRED, REFUSED, "managed settings come from their own file"
    ),
    ClientFlag(
        ("--plugin-url",), REQUIRED, REFUSED, "turnlog downloads no plugins", "--plugin-dir DIR"
    ),
    ClientFlag(
        ("--project-config-root",), REQUIRED, REFUSED, "settings come from the project", "cd DIR"
    ),
    ClientFlag(("--remote-control",), OPTIONAL, REFUSED, "there is no remote control"),
    ClientFlag(
        ("--restricted",), NONE, REFUSED, "choose tools and settings", "--tools Read,Grep,Glob"
    ),
    ClientFlag(("--teleport",), OPTIONAL, REFUSED, CLOUD),
    ClientFlag(
        ("--tmux",), OPTIONAL, REFUSED, "start it in tmux", "tmux new turnlog chat --worktree"
    ),
    ClientFlag(
        ("-v", "--version"), NONE, REFUSED, "it is a flag of turnlog itself", "turnlog --version"
    ),
)
BY_NAME = {name: flag for flag in CLIENT_FLAGS for name in flag.names}
RULE = re.compile(r"(\w+)(?:\([^()]*\))?")
BETA = re.compile(r"[a-z0-9-]+-\d{4}-\d{2}-\d{2}")


def _is_rule(text: str) -> bool:
    found = RULE.fullmatch(text)
    return found is not None and (found[1] in KNOWN_TOOLS or text.startswith("mcp__"))


def _is_config(text: str) -> bool:
    return text.lstrip().startswith("{") or text.endswith(".json")


# The client takes every word up to the next option, even a prompt. Here, a word has to look like a
# value: `--add-dir ../lib "Fix it"` has a prompt.
SEVERAL: dict[str, Callable[[str], bool]] = {
    "add_dir": os.path.isdir,  # unlike `Path.is_dir`, it never raises
    "allowed_tools": _is_rule,
    "betas": lambda text: BETA.fullmatch(text) is not None,
    "disallowed_tools": _is_rule,
    "mcp_config": _is_config,
    "tools": _is_rule,
}
"""Options that take several values, by parameter name; the function recognises a further value."""


class ClientCommand(click.Command):
    """A command that also understands flags of the client; its own options take precedence."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments without the flags of the client; print a notice for each ignored one."""
        own = {name: option for option in self.params for name in option.opts}
        kept, ignored = without_client_flags(args, own)
        kept = with_each_value(kept, own)
        ctx.meta[ARGUMENTS] = list(kept)  # a copy, because click empties `kept`
        for flag in ignored:
            if flag.treatment == IGNORED:
                echo_plain(f"turnlog: {flag.names[-1]} is ignored: {flag.reason}", err=True)
        return super().parse_args(ctx, kept)


def without_client_flags(
    args: list[str], own: dict[str, Any]
) -> tuple[list[str], list[ClientFlag]]:
    """Return arguments without flags of the client, and those flags.

    >>> args = ["-p", "--system-prompt-snapshot", "x", "--ide", "--", "--ide"]
    >>> kept, flags = without_client_flags(args, {})
    >>> kept, [flag.names[-1] for flag in flags]
    (['-p', '--', '--ide'], ['--system-prompt-snapshot', '--ide'])
    """
    kept: list[str] = []
    found: list[ClientFlag] = []
    rest = list(args)
    while rest:
        given = rest.pop(0)
        name, has_value, _ = given.partition("=")
        flag = None if name in own else BY_NAME.get(name)
        if given == "--":
            return [*kept, given, *rest], found
        if flag is None:
            kept.append(given)
            # The value of an option is not a flag of the client, whatever it looks like.
            if not has_value and _takes_word(own.get(name), rest):
                kept.append(rest.pop(0))
            continue
        if flag.treatment == REFUSED:
            raise UsageError(f"{name} is not supported: {flag.reason}", flag.hint)
        found.append(flag)
        is_optional = flag.argument == OPTIONAL and rest and not rest[0].startswith("-")
        if not has_value and rest and (flag.argument == REQUIRED or is_optional):
            rest.pop(0)
    return kept, found


def with_each_value(args: list[str], own: dict[str, Any]) -> list[str]:
    """Return arguments with an option repeated before each further value, as click expects.

    >>> option = click.Option(["--mcp-config"], multiple=True)
    >>> with_each_value(["--mcp-config", "a.json", "b.json", "Hi"], {"--mcp-config": option})
    ['--mcp-config', 'a.json', '--mcp-config', 'b.json', 'Hi']
    """
    found: list[str] = []
    last = ""
    is_value: Callable[[str], bool] | None = None
    for words in grouped(args, own):
        if is_value and len(words) == 1 and not words[0].startswith("-") and is_value(words[0]):
            found += [last, *words]
            continue
        found += words
        last = words[0].partition("=")[0]
        is_value = SEVERAL.get(own[last].name or "") if last in own else None
    return found


def grouped(args: list[str], own: dict[str, Any]) -> Iterator[list[str]]:
    """Yield each option with its value, and each other word; from `--` on, all words together."""
    rest = list(args)
    while rest:
        given = rest.pop(0)
        if given == "--":
            yield [given, *rest]
            return
        name, has_value, _ = given.partition("=")
        takes_next = not has_value and _takes_word(own.get(name), rest)
        yield [given, rest.pop(0)] if takes_next else [given]


def without_flag(args: list[str], own: dict[str, Any], names: Collection[str]) -> list[str]:
    """Return arguments without a flag, but keep values that look like it.

    >>> without_flag(["--bg", "--", "--bg"], {}, ["--bg"])
    ['--', '--bg']
    """
    return [word for words in grouped(args, own) if words[0] not in names for word in words]


def _takes_word(option: Any, rest: list[str]) -> bool:
    """Return whether the next word is the value of an option."""
    if not isinstance(option, click.Option) or option.is_flag or not rest:
        return False
    # If its value is optional, an option does not take another option as its value.
    return not option._flag_needs_value or not rest[0].startswith("-")  # pyright: ignore
