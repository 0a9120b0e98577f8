"""Write the man page, generated from the help texts of all commands."""

from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click

from turnlog.cli.root import GROUPS, command_paths, root

PAGE = Path("share/man/man1/turnlog.1")
VERBATIM = "\b"
"""Click's mark for a paragraph that must not be wrapped."""
# Unescaped, roff would print a hyphen and curly quotes, which a shell does not understand.
ESCAPES = {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga"}
EXITS = {"0": "Success, or found.", "1": "Failure, or nothing found.", "2": "Usage error."}
VARIABLES = {
    "CLAUDE_CONFIG_DIR": "Claude Code's directory, by default ~/.claude.",
    "TURNLOG_HOME": "turnlog's own directory for data and configuration.",
    "TURNLOG_ARCHIVE": "The archive, if not in the data directory.",
    "ANTHROPIC_API_KEY": "The API key for turnlog chat.",
    "NO_COLOR, FORCE_COLOR": "Disable or force colours.",
    "COLUMNS": "The width of tables.",
}


def man_page() -> str:
    """Return the man page as roff."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    context = click.Context(root, info_name="turnlog", help_option_names=["-h", "--help"])
    yield '.TH TURNLOG 1 "" turnlog "User Commands"'
    yield ".SH NAME"
    yield r"turnlog \- read, search, analyze and edit Claude Code sessions"
    yield ".SH SYNOPSIS"
    yield r".B turnlog"
    yield r"[\fIOPTIONS\fR] [\fICOMMAND\fR] [\fIARGS\fR]..."
    yield ".SH DESCRIPTION"
    yield from _help(root)
    yield ".SH OPTIONS"
    yield from _options(root, context)
    for title, names in GROUPS.items():
        yield f".SH {title.upper()} COMMANDS"
        for path in command_paths():
            if path[0] in names:
                yield from _command(path)
    yield ".SH EXIT STATUS"
    yield from _definitions(EXITS)
    yield ".SH ENVIRONMENT"
    yield from _definitions(VARIABLES)


def _command(path: list[str]) -> Iterator[str]:
    command: click.Command = root
    context = click.Context(root, info_name="turnlog")
    for name in path:
        assert isinstance(command, click.Group)
        command = command.get_command(context, name) or command
        context = click.Context(command, parent=context, info_name=name)
    words = " ".join(["turnlog", *path, *command.collect_usage_pieces(context)])
    yield f".SS {_escaped(words)}"
    yield from _help(command)
    yield from _options(command, context)


def _help(command: click.Command) -> Iterator[str]:
    for paragraph in cleandoc(command.help or "").split("\n\n"):
        yield ".PP"
        if paragraph.startswith(VERBATIM):
            yield ".nf"
            yield from map(_escaped, paragraph.splitlines()[1:])
            yield ".fi"
        else:
            yield _escaped(" ".join(paragraph.split()))


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    records = (each.get_help_record(context) for each in command.get_params(context))
    # Every command has --help: once is enough.
    is_root = command is root
    yield from _definitions(
        {names: text for names, text in filter(None, records) if is_root or "--help" not in names}
    )


def _definitions(definitions: dict[str, str]) -> Iterator[str]:
    for name, text in definitions.items():
        yield ".TP"
        yield rf"\fB{_escaped(name)}\fR"
        yield _escaped(" ".join(text.split()))


def _escaped(text: str) -> str:
    r"""Return a line that roff prints as it is.

    >>> print(_escaped(r".x -o \w"))
    \&.x \-o \ew
    """
    signs = (sign if sign.isascii() else f"\\[u{ord(sign):04X}]" for sign in text)
    escaped = "".join(ESCAPES.get(sign, sign) for sign in signs)
    return rf"\&{escaped}" if escaped.startswith(".") else escaped


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(man_page(), "utf-8")
