"""Store the root command's help, so that `turnlog --help` need not load click to print it."""

from pathlib import Path

from turnlog.cli.root import help_of

Path("src/turnlog/cli/help.txt").write_text(help_of([]), "utf-8")
