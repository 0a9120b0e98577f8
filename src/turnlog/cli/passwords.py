"""Read the password of an encrypted file: from a file, the environment or the terminal."""

import os
import re
import sys
from pathlib import Path
from shlex import quote

import click

from turnlog.errors import NotFound, UsageError

LONGEST = 4096
"""Maximum bytes of a password."""


def password_from(
    file: Path | None, is_wanted: bool, variable: str, command: str, confirm: bool = True
) -> str | None:
    """Return the password from a file, the environment or the terminal; None if none is wanted.

    `command` is the start of the command in hints, such as `turnlog export`.
    """
    by_file = f"{command} --password-file FILE"
    if file:
        password = _first_line(file, by_file)
    elif not is_wanted:
        return None
    elif not (password := os.environ.get(variable, "")):
        if not sys.stdin.isatty():
            raise UsageError("no terminal to ask for the password", by_file)
        password = click.prompt("Password", hide_input=True, confirmation_prompt=confirm, err=True)
    if not password:
        raise UsageError("the password is empty", by_file)
    if re.search(r"[\ud800-\udfff]", password):
        # Password prompts read UTF-8, so nobody could type it to open the file.
        raise UsageError("the password is not UTF-8", by_file)
    return password


def _first_line(file: Path, hint: str) -> str:
    try:
        # Not the whole file: it may be a device, or a large file by mistake.
        with file.open("rb") as opened:
            line = opened.readline(LONGEST + 1)
        if len(line) > LONGEST:
            raise UsageError(f"the first line of {file} has more than {LONGEST:,} bytes", hint)
        return re.split("[\r\n]", line.decode())[0]
    except OSError as error:
        reason = f"cannot read the password from {file}: {error.strerror}"
        raise NotFound(reason, f"ls -l {quote(str(file))}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8", hint) from error


password_file_option = click.option(
    "--password-file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Read the password from the first line of FILE.",
)
