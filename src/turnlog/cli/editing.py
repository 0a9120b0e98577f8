"""Options and output shared by the commands that change sessions."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from turnlog.agent.model.messages_api import DEFAULT_MODEL, summarise
from turnlog.cli.arguments import AliasedOption
from turnlog.cli.output import plain, styled_hint, width
from turnlog.cli.suggested_commands import to_type
from turnlog.cli.tables import Column, Table, with_rows
from turnlog.cli.terminal import echo
from turnlog.edit.effect import Effect
from turnlog.edit.journal import Record
from turnlog.edit.plan_builder import REPAIR, EditOptions
from turnlog.edit.service import CloneResult, EditOutcome
from turnlog.edit.transforms import TransformOptions
from turnlog.errors import UsageError
from turnlog.text import file_size

COLUMNS = (
    Column("change", is_whole=True),
    Column("entries", is_number=True),
    Column("kind"),
    Column("size", is_number=True),
)
OPTIONS = (
    click.option("--repair", is_flag=True, help="First repair what `turnlog check` reports."),
    click.option("--strip-tools", is_flag=True, help="Remove tool calls and results."),
    click.option("--stub-results", is_flag=True, help="Shorten large tool results; keep calls."),
    click.option("--strip-thinking", is_flag=True, help="Remove thinking blocks."),
    click.option("--strip-images", is_flag=True, help="Replace images with placeholders."),
    click.option(
        "--strip-progress", is_flag=True, help="Drop lines that the client ignores on resume."
    ),
    click.option(
        "--straighten/--no-straighten",
        default=None,
        help="Relink entries into one chain that every client reads in full.",
    ),
    click.option("--compress", is_flag=True, help="Summarize older turns; keep prompts verbatim."),
    click.option(
        "--with-model",
        is_flag=False,
        flag_value=DEFAULT_MODEL,
        metavar="[MODEL]",
        help=f"With --compress, let a model ({DEFAULT_MODEL}) write the summary.",
    ),
    click.option(
        "--keep-last",
        type=click.IntRange(0),
        default=0,
        metavar="N",
        help="Leave the last N turns unchanged; tool options count only turns with calls.",
    ),
    click.option(
        "--larger-than",
        type=click.IntRange(0),
        default=2000,
        show_default=True,
        metavar="N",
        help="Shorten only results longer than N characters.",
    ),
    click.option(
        "--keep-until",
        metavar="TURN|UUID",
        cls=AliasedOption,
        aliases=["--until"],
        help="Drop everything after this turn or entry.",
    ),
    click.option(
        "--leaf",
        metavar="UUID",
        cls=AliasedOption,
        aliases=["--branch"],
        help="Keep only the branch that ends at UUID.",
    ),
)


def transform_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select transforms."""
    # Decorators apply bottom-up: reversed, help lists the options in the order above.
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def edit_options(
    options: dict[str, Any], dry_run: bool = False, transcript: Path | None = None
) -> EditOptions:
    """Return the parsed options as a value; `transcript` is the file with the full conversation."""
    # Pop the options with values first: the remaining ones are flags, named like transforms.
    model = options.pop("with_model")
    if model and not options["compress"]:
        raise UsageError("--with-model requires --compress", "--compress --with-model")
    choice = TransformOptions(
        options.pop("keep_last"),
        options.pop("larger_than"),
        # A dry run must not cost anything: its summary is made of extracts, without a model.
        partial(summarise, model=model) if model and not dry_run else None,
        transcript.absolute() if transcript else None,
    )
    until, leaf = options.pop("keep_until"), options.pop("leaf")
    names = [name for name, is_wanted in options.items() if is_wanted]
    return EditOptions(names, choice, until, leaf, options["straighten"] is False)


def print_undo(record: Record | None) -> None:
    """Print the command that undoes a change, if one was made."""
    if record:
        echo(f"  turnlog undo {record.id}")


def repair_as_json(options: EditOptions, result: EditOutcome | CloneResult) -> dict[str, Any]:
    """Return the repaired and remaining findings, if a repair ran."""
    is_repair = REPAIR in options.transforms or bool(result.mended)
    return {"repaired": result.mended, "left": result.left} if is_repair else {}


def print_repair(result: EditOutcome | CloneResult) -> None:
    """Print which findings a repair removed and which remain."""
    for finding in result.mended:
        _print_finding("repair", finding.message, "")
    for finding in result.left:
        fix = f"({plain(to_type(finding.fix))})" if finding.fix else ""
        _print_finding("left", finding.message, fix)


def _print_finding(word: str, message: str, fix: str) -> None:
    """Print a finding after a label, wrapped with a hanging indent."""
    lead = f"  {word:8}"
    for line in styled_hint(plain(message), fix, width() - len(lead)):
        echo(f"{lead}{line}")
        lead = " " * len(lead)


def print_effect(effect: Effect) -> None:
    """Print how many entries and bytes a change drops, rewrites and adds."""
    rows = [
        [word, f"{amount.entries:,}", plain(kind), _less(amount.bytes)]
        for word, amounts in (("drop", effect.dropped), ("rewrite", effect.rewritten))
        for kind, amount in amounts.items()
    ]
    rows += [["add", f"{effect.added:,}", "", ""]] if effect.added else []
    for line in Table(with_rows(COLUMNS, rows), width() - 2).lines() if rows else ():
        echo(f"  {line}")
    entries = f"{effect.entries_before:,} → {effect.entries_after:,} entries"
    echo(f"  {entries}, {file_size(effect.bytes_before)} → {file_size(effect.bytes_after)}")
    before, after = effect.context_before, effect.context_after
    if before != after:
        echo(f"  context: about {before:,} → {after:,} tokens")


def _less(count: int) -> str:
    return f"{'-' if count > 0 else '+'}{file_size(abs(count))}" if count else ""
