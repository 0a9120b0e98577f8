"""Store the root command's help, so that `turnlog --help` prints it without importing click."""

from pathlib import Path

from turnlog.cli.root import help_of

Path("src/turnlog/cli/help.txt").write_text(help_of([]), "utf-8")
