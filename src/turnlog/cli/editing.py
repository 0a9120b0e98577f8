"""What the commands that change sessions have in common."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from turnlog.cli.output import dim, size
from turnlog.edit.build import Effect, Wanted
from turnlog.edit.journal import Journal
from turnlog.edit.transforms import Choice

OPTIONS = (
    click.option("--strip-tools", is_flag=True, help="Take away calls and their results."),
    click.option("--stub-results", is_flag=True, help="Shorten results; calls stay."),
    click.option("--strip-thinking", is_flag=True, help="Take away what the model thought."),
    click.option("--strip-images", is_flag=True, help="Put a word in the place of images."),
    click.option("--strip-progress", is_flag=True, help="Drop lines that a resume never reads."),
    click.option("--straighten", is_flag=True, help="One chain that every client reads whole."),
    click.option(
        "--keep-last",
        type=click.IntRange(0),
        default=0,
        metavar="N",
        help="Spare the last N turns that have calls.",
    ),
    click.option(
        "--larger-than",
        type=click.IntRange(0),
        default=2000,
        show_default=True,
        metavar="N",
        help="Shorten only results of more than N characters.",
    ),
    click.option("--until", metavar="TURN|UUID", help="Keep what is up to here."),
    click.option("--branch", metavar="UUID", help="Keep only the branch that ends here."),
)


def transform_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say what to change."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def wanted_of(options: dict[str, Any]) -> Wanted:
    """What the options ask for."""
    choice = Choice(options.pop("keep_last"), options.pop("larger_than"))
    until, branch = options.pop("until"), options.pop("branch")
    names = [name for name, is_wanted in options.items() if is_wanted]
    return Wanted(names, choice, until, branch)


def open_journal() -> Journal:
    """The journal of all changes, in turnlog's own folder."""
    home = os.environ.get("TURNLOG_HOME")
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Journal((Path(home) if home else Path(data) / "turnlog") / "journal")


def print_effect(effect: Effect) -> None:
    """Print what a change amounts to."""
    for word, counts in (("drop", effect.dropped), ("rewrite", effect.rewritten)):
        for kind, count in counts.items():
            click.echo(f"  {word:8}{count:>7}  {kind}")
    entries = f"{effect.entries_before:,} → {effect.entries_after:,} entries"
    saved = max(0, effect.bytes_before - effect.bytes_after) // 4
    click.echo(
        f"  {entries}, {size(effect.bytes_before)} → {size(effect.bytes_after)}"
        + dim(f"  (about {saved:,} tokens less)" if saved else "")
    )
