"""What the commands that change sessions have in common."""

import shlex
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import click

from turnlog.agent.model.messages_api import DEFAULT_MODEL, summarise
from turnlog.cli.output import plain, size, width
from turnlog.cli.tables import GAP, Column, Table, with_rows
from turnlog.cli.terminal import dim, echo
from turnlog.conversation.session import Session
from turnlog.edit.effect import Effect
from turnlog.edit.journal import Journal, Record
from turnlog.edit.plan_builder import (
    COMPRESS,
    REPAIR,
    EditOptions,
    Prepared,
    build_plan,
    changes_anything,
)
from turnlog.edit.transforms import TransformOptions
from turnlog.errors import TurnlogError, UsageError
from turnlog.store.paths import journal_folder

COLUMNS = (
    Column("change", is_whole=True),
    Column("entries", is_number=True),
    Column("kind"),
    Column("size", is_number=True),
)
OPTIONS = (
    click.option("--repair", is_flag=True, help="First repair what `turnlog check` finds."),
    click.option("--strip-tools", is_flag=True, help="Remove calls and their results."),
    click.option("--stub-results", is_flag=True, help="Shorten results; calls stay."),
    click.option("--strip-thinking", is_flag=True, help="Remove thinking."),
    click.option("--strip-images", is_flag=True, help="Replace images by a placeholder."),
    click.option("--strip-progress", is_flag=True, help="Drop lines that a resume never reads."),
    click.option(
        "--straighten/--no-straighten",
        default=None,
        help="Make one chain that every client reads in full.",
    ),
    click.option("--compress", is_flag=True, help="Summarise older turns; prompts stay verbatim."),
    click.option(
        "--with-model",
        is_flag=False,
        flag_value=DEFAULT_MODEL,
        metavar="[MODEL]",
        help=f"Let a model write the summary ({DEFAULT_MODEL}); a dry run asks none.",
    ),
    click.option(
        "--keep-last",
        type=click.IntRange(0),
        default=0,
        metavar="N",
        help="Spare the last N turns: --compress any, the others those that have calls.",
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


def wanted_of(
    options: dict[str, Any], dry_run: bool = False, transcript: Path | None = None
) -> EditOptions:
    """What the options ask for; `transcript` is where all of the session stays."""
    model = options.pop("with_model")
    if model and not options["compress"]:
        raise UsageError("--with-model is for --compress", "--compress --with-model")
    choice = TransformOptions(
        options.pop("keep_last"),
        options.pop("larger_than"),
        partial(summarise, model=model) if model and not dry_run else None,
        transcript.absolute() if transcript else None,
    )
    until, branch = options.pop("until"), options.pop("branch")
    names = [name for name, is_wanted in options.items() if is_wanted]
    return EditOptions(names, choice, until, branch)


def exhaust(lines: Iterable[bytes]) -> None:
    """Carry out what is only to be told."""
    deque(lines, maxlen=0)


def open_journal() -> Journal:
    """The journal of all changes, in turnlog's own folder."""
    return Journal(journal_folder())


def print_undo(record: Record | None) -> None:
    """Print how to take a change back, if one was made."""
    if record:
        echo(f"  turnlog undo {record.id}")


def repair_as_json(wanted: EditOptions, ready: Prepared) -> dict[str, Any]:
    """Return what was repaired, if a repair was asked for or straightening needed one."""
    is_repair = REPAIR in wanted.transforms or bool(ready.mended)
    return {"repaired": ready.mended, "left": ready.left} if is_repair else {}


def print_repair(ready: Prepared) -> None:
    """Print what a repair took away, and what it could not."""
    for finding in ready.mended:
        echo(f"  {'repair':8}{plain(finding.message)}")
    for finding in ready.left:
        fix = f"{GAP}{dim(f'({plain(finding.fix)})')}" if finding.fix else ""
        echo(f"  {'left':8}{plain(finding.message)}{fix}")


def require_compression(session: Session, name: str, wanted: EditOptions, ready: Prepared) -> None:
    """Raise if nothing that `wanted` asks for changes a session to be compressed."""
    if COMPRESS not in wanted.transforms or ready.mended or ready.plan.added:
        return
    if changes_anything(build_plan(session, wanted)):
        return
    turns, spared = len(session.turns), wanted.choice.keep_last
    reason = "its older turns are a summary already"
    if spared >= turns:
        count = "its only turn" if turns == 1 else f"all of its {turns} turns"
        reason = f"--keep-last {spared} keeps {count}" if turns else "it has no turns"
    hint = f"turnlog clone {shlex.quote(name)}"
    raise TurnlogError(f"nothing to compress in {session.id}: {reason}", hint)


def print_effect(effect: Effect) -> None:
    """Print what a change amounts to."""
    rows = [
        [word, f"{amount.entries:,}", plain(kind), _less(amount.bytes)]
        for word, amounts in (("drop", effect.dropped), ("rewrite", effect.rewritten))
        for kind, amount in amounts.items()
    ]
    rows += [["add", f"{effect.added:,}", "", ""]] if effect.added else []
    for line in Table(with_rows(COLUMNS, rows), width() - 2).lines() if rows else ():
        echo(f"  {line}")
    entries = f"{effect.entries_before:,} → {effect.entries_after:,} entries"
    echo(f"  {entries}, {size(effect.bytes_before)} → {size(effect.bytes_after)}")
    before, after = effect.context_before, effect.context_after
    if before != after:
        echo(f"  context: about {before:,} → {after:,} tokens")


def _less(count: int) -> str:
    return f"{'-' if count > 0 else '+'}{size(abs(count))}" if count else ""
