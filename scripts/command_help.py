"""Write command help, output and chat keys into the documents, run by cog."""

import os
import subprocess
import sys
from collections.abc import Iterable

from turnlog.agent.terminal.listings import KEYS
from turnlog.agent.terminal.slash_commands import OWN
from turnlog.cli.root import command_paths, help_of

# Output in the documents is laid out for a terminal of this width.
WIDTH = "96"


def print_commands() -> None:
    """Print a section for each command and subcommand, with its help."""
    for path in command_paths():
        heading = "#" * (len(path) + 1)
        print(f"\n{heading} turnlog {' '.join(path)}\n\n```text\n{help_of(path).rstrip()}\n```")


def print_output(arguments: str) -> None:
    """Print what a command prints for the sample sessions."""
    environment = os.environ | {"COLUMNS": WIDTH, "TZ": "UTC"}
    command = [sys.executable, "-m", "turnlog", "--samples", *arguments.split()]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    print(f"```console\n$ turnlog {arguments}\n{found.stdout.rstrip()}\n```")


def print_keys() -> None:
    """Print a table of what keys do in a chat."""
    print("| key | does |\n|---|---|")
    for keys, told in KEYS:
        print(f"| {_as_code(keys.split(', '))} | {told} |")


def print_slash_commands() -> None:
    """Print a table of the commands of a chat."""
    print("| command | does | also |\n|---|---|---|")
    for each in OWN:
        command = f"/{each.name} {each.usage}".strip()
        print(f"| `{command}` | {each.help} | {_as_code(f'/{name}' for name in each.aliases)} |")


def _as_code(texts: Iterable[str]) -> str:
    return ", ".join(f"`{text}`" for text in texts)
