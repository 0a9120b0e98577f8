"""Compare the flags of the client with those of `turnlog chat`, for docs/chat.md.

The names are those that `claude --help` of 2.1.325 lists.
"""

from pathlib import Path

import click

from turnlog.cli.client_flags import ALWAYS, BY_NAME
from turnlog.cli.root import root

FLAGS = Path(__file__).parent.parent / "tests" / "data" / "client_flags.txt"
VERSION = ("-v", "--version")
DIFFERENT = {
    "--bare": "managed hooks run",
    "--permission-mode": "`auto` is `acceptEdits`: no model decides about other calls",
    "--version": "as `turnlog --version`; `turnlog-chat -v` prints the version of the client first",
}
"""Supported flags that differ."""


def print_table() -> None:
    """Print a row for each flag."""
    print("| flag | `turnlog chat` | |\n|---|---|---|")
    for names in flag_names():
        print(f"| {', '.join(f'`{name}`' for name in names)} | {' | '.join(treatment_of(names))} |")


def flag_names() -> list[tuple[str, ...]]:
    """Return the names of each flag of the client."""
    return [tuple(line.split()) for line in FLAGS.read_text("utf-8").splitlines()]


def treatment_of(names: tuple[str, ...]) -> tuple[str, str]:
    """Return what happens to a flag, and why; raise `KeyError` for one that is unknown."""
    chat = root.get_command(click.Context(root), "chat")
    assert chat
    # click keeps the help option of the first context, and the command reference shows it.
    with click.Context(chat, help_option_names=["-h", "--help"]) as context:
        known = {name for option in chat.get_params(context) for name in option.opts}
    if known.intersection(names) or names == VERSION:
        return ALWAYS, DIFFERENT.get(names[-1], "")
    flag = BY_NAME[names[0]]
    return flag.treatment, flag.reason
