"""Flags of the client that `turnlog chat` does not have: accepted with a notice, or refused.

A flag is refused if the chat would do what the user has just ruled out, such as recording a
session, and ignored if nothing but comfort is lost. Names and arguments are those of 2.1.325.
"""

from typing import Any, NamedTuple

import click

from turnlog.cli.terminal import echo
from turnlog.errors import UsageError
from turnlog.text import harmless

NONE, OPTIONAL, REQUIRED = "", "[]", "<>"
"""Whether a flag takes an argument."""
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
    ClientFlag(
        ("--autocompact",), REQUIRED, IGNORED, "settings say when the conversation is compacted"
    ),
    ClientFlag(("--ax-screen-reader",), NONE, IGNORED, "output for pipes is plain text"),
    ClientFlag(("--brief",), NONE, IGNORED, "turnlog has no such tool"),
    ClientFlag(("--chrome",), NONE, IGNORED, CHROME),
    ClientFlag(("-d", "--debug"), OPTIONAL, IGNORED, "turnlog writes no debug log"),
    ClientFlag(("--debug-file",), REQUIRED, IGNORED, "turnlog writes no debug log"),
    ClientFlag(
        ("--exclude-dynamic-system-prompt-sections",),
        NONE,
        IGNORED,
        "programs ask for it when they initialize",
    ),
    ClientFlag(("--ide",), NONE, IGNORED, "editors start turnlog chat --acp"),
    ClientFlag(("--prompt-suggestions",), OPTIONAL, IGNORED, "turnlog suggests no prompts"),
    ClientFlag(
        ("--remote-control-session-name-prefix",), REQUIRED, IGNORED, "there is no remote control"
    ),
    ClientFlag(
        ("--system-prompt-snapshot",), REQUIRED, IGNORED, "the system prompt is not recorded"
    ),
    ClientFlag(
        ("--agent",),
        REQUIRED,
        REFUSED,
        "an agent cannot be the whole session",
        "--append-system-prompt-file FILE",
    ),
    ClientFlag(("--bare",), NONE, REFUSED, "hooks and memory cannot be left out"),
    ClientFlag(
        ("--bg", "--background"),
        NONE,
        REFUSED,
        "a chat does not run in the background",
        "tmux new -d turnlog chat",
    ),
    ClientFlag(("--cloud",), OPTIONAL, REFUSED, CLOUD),
    ClientFlag(("--desktop",), NONE, REFUSED, "turnlog has no desktop app", "turnlog web"),
    ClientFlag(
        ("--disable-slash-commands",), NONE, REFUSED, "commands and skills cannot be left out"
    ),
    ClientFlag(("--environment",), REQUIRED, REFUSED, CLOUD),
    ClientFlag(("--file",), REQUIRED, REFUSED, "turnlog downloads no files"),
    ClientFlag(
        ("--from-pr",), OPTIONAL, REFUSED, "name the session instead", "turnlog search NUMBER"
    ),
    ClientFlag(
        ("--managed-settings",), REQUIRED, REFUSED, "managed settings come from their own file"
    ),
    ClientFlag(
        ("--no-session-persistence",),
        NONE,
        REFUSED,
        "turnlog records every session",
        "turnlog rm SESSION",
    ),
    ClientFlag(
        ("--plugin-url",), REQUIRED, REFUSED, "turnlog downloads no plugins", "--plugin-dir DIR"
    ),
    ClientFlag(
        ("--project-config-root",), REQUIRED, REFUSED, "a project has its settings itself", "cd DIR"
    ),
    ClientFlag(("--remote-control",), OPTIONAL, REFUSED, "there is no remote control"),
    ClientFlag(
        ("--restricted",), NONE, REFUSED, "choose tools and settings", "--tools Read,Grep,Glob"
    ),
    ClientFlag(
        ("--safe-mode",), NONE, REFUSED, "choose settings instead", "--setting-sources user"
    ),
    ClientFlag(("--teleport",), OPTIONAL, REFUSED, CLOUD),
    ClientFlag(("--tmux",), OPTIONAL, REFUSED, "turnlog creates no worktrees", "git worktree add"),
    ClientFlag(
        ("-v", "--version"), NONE, REFUSED, "it is a flag of turnlog itself", "turnlog --version"
    ),
    ClientFlag(
        ("-w", "--worktree"), OPTIONAL, REFUSED, "turnlog creates no worktrees", "git worktree add"
    ),
)
BY_NAME = {name: flag for flag in CLIENT_FLAGS for name in flag.names}


class ClientCommand(click.Command):
    """A command that also understands flags of the client; its own options take precedence."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments without the flags of the client; print a notice for each ignored one."""
        own = {name: option for option in self.params for name in option.opts}
        kept, ignored = without_client_flags(args, own)
        for flag in ignored:
            if flag.treatment == IGNORED:
                echo(harmless(f"turnlog: {flag.names[-1]} is ignored: {flag.reason}"), err=True)
        return super().parse_args(ctx, kept)


def without_client_flags(
    args: list[str], own: dict[str, Any]
) -> tuple[list[str], list[ClientFlag]]:
    """Return arguments without flags of the client, and those flags.

    >>> kept, flags = without_client_flags(["-p", "--debug", "api", "--ide", "--", "--ide"], {})
    >>> kept, [flag.names[-1] for flag in flags]
    (['-p', '--', '--ide'], ['--debug', '--ide'])
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
            # The value of an option is none of these, whatever it looks like.
            if not has_value and _takes_value(own.get(name)) and rest:
                kept.append(rest.pop(0))
            continue
        if flag.treatment == REFUSED:
            raise UsageError(f"{name} is not supported: {flag.reason}", flag.hint)
        found.append(flag)
        is_optional = flag.argument == OPTIONAL and rest and not rest[0].startswith("-")
        if not has_value and rest and (flag.argument == REQUIRED or is_optional):
            rest.pop(0)
    return kept, found


def _takes_value(option: Any) -> bool:
    return isinstance(option, click.Option) and not option.is_flag
