"""What cog writes into the documents: the help of every command, and the output of some."""

import os
import subprocess
import sys

from turnlog.cli.root import COMMANDS, help_of

# Output in the documents is laid out for a terminal of this width.
WIDTH = "96"


def print_commands() -> None:
    """Print a section for each command, with its help."""
    for name in COMMANDS:
        print(f"\n## turnlog {name}\n\n```text\n{help_of([name]).rstrip()}\n```")


def print_output(arguments: str) -> None:
    """Print what a command prints for the sample sessions."""
    environment = os.environ | {"COLUMNS": WIDTH, "TZ": "UTC"}
    command = [sys.executable, "-m", "turnlog", "--samples", *arguments.split()]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    print(f"```console\n$ turnlog {arguments}\n{found.stdout.rstrip()}\n```")
