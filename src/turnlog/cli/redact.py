"""turnlog redact: replace secrets in all files of sessions with placeholders."""

import re
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from turnlog.cli.arguments import all_option, dry_run_option, json_option
from turnlog.cli.completions import complete_session
from turnlog.cli.output import echo_json, finish, fit_path, plain, plain_masked, progress_bar, width
from turnlog.cli.picking import named_or_picked
from turnlog.cli.sessions import own_files
from turnlog.cli.store_options import store_option, stores_in
from turnlog.cli.suggested_commands import to_type
from turnlog.cli.tables import Column, Table, echo_table, with_rows
from turnlog.cli.terminal import echo, masked, style
from turnlog.edit.redact.match_context import RedactionMatch
from turnlog.edit.redact.redaction import Progress
from turnlog.edit.redact.redactor import RedactionOutcome, describe_location, redact_sessions
from turnlog.edit.redact.replacement import IN_NAME, Find
from turnlog.errors import UsageError
from turnlog.index.database import discard_indexes
from turnlog.secrets import placeholder_for
from turnlog.store.archive.archive import open_archive
from turnlog.store.paths import Store
from turnlog.text import plural

MANY = 5
"""Maximum number of changes that a hint names one by one."""
INDENT = "  "
MATCHES = (
    Column("line", is_number=True, look="dim"),
    Column("value", is_whole=True),
    Column("length", is_number=True, expendable=3),
    Column("key", expendable=2, look="cyan"),
    Column("context (▒ is the value)", width=30),
    Column("", is_number=True, expendable=1, look="dim"),
)
COLUMNS = (
    Column("kind"),
    Column("replaced", is_number=True),
    Column("where", look="dim"),
)


@click.command("redact")
@click.argument("sessions", metavar="[SESSION]...", nargs=-1, shell_complete=complete_session)
@all_option("Redact all sessions and the files they share.")
@click.option(
    "--also",
    multiple=True,
    metavar="REGEX",
    help="Also replace matches of REGEX, or of its first group; repeatable.",
)
@dry_run_option
@json_option
@store_option
@click.pass_context
def command(
    ctx: click.Context,
    sessions: tuple[str, ...],
    every: bool,
    also: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Replace secrets in each SESSION with placeholders.

    Covers the conversation, sub-agents, large outputs, file backups, to-do lists, plans, task
    outputs and the prompt history. A secret found once is replaced everywhere, always with the
    same placeholder. The result is scanned again: exits with 1 if a secret remains or a session
    was skipped because it is in use.

    `turnlog undo` restores the secrets until `turnlog forget` deletes the backup.

    \b
    Examples:
      turnlog redact last --dry-run
      turnlog redact --all
      turnlog redact 3f2a --also 'customer: (\\w+)'
    """
    sessions = named_or_picked(ctx, sessions, every, "--all", "turnlog redact last --dry-run")
    patterns = [_compiled(text) for text in also]
    store, paths = own_files(stores_in(ctx), sessions, "redact --all" if every else "redact")
    outcome = redact_sessions(
        store,
        paths,
        patterns,
        dry_run=dry_run,
        watcher=_watch,
        discard_copies=lambda: discard_indexes(store),
    )
    if as_json:
        echo_json(_as_json(store, outcome, dry_run))
    elif dry_run:
        _print_finds(store, outcome)
    else:
        _print(store, outcome)
    if not (dry_run or outcome.is_complete):
        ctx.exit(1)


def _compiled(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(
            f"{text!r} is not a regular expression: {error}", "turnlog redact --help"
        ) from error


@contextmanager
def _watch(total: int) -> Generator[Progress]:
    with progress_bar(total, "redacting") as bar:
        yield bar.update
        finish(bar)


def _print(store: Store, outcome: RedactionOutcome) -> None:
    if not outcome.found.finds and not outcome.left:
        echo("no secrets found")
        return
    left = f"{len(outcome.left)} left" if outcome.left else "none left"
    if outcome.skipped:
        left += f" in these, {plural(len(outcome.skipped), 'session')} skipped"
    echo(f"{_summary(outcome.replaced)} replaced; rescanned: {left}")
    _print_table(store, outcome.replaced)
    _print_left(store, outcome)
    _print_kept(outcome)
    archive = open_archive()
    if any(archive.find(path) for path in {str(find.path) for find in outcome.replaced}):
        echo(f"The archive still contains the secrets (try: {to_type('turnlog archive')})")


def _print_finds(store: Store, outcome: RedactionOutcome) -> None:
    """Print each match: its place, placeholder and context."""
    if not (outcome.found.finds or outcome.found.stuck):
        echo("no secrets found")
        return
    for path, matches in groupby(outcome.matches, key=lambda match: match.path):
        echo(style(_short(store, path), "bold"))
        room = width() - len(INDENT)
        rows = [_match_cells(match, room) for match in matches]
        for line in Table(with_rows(MATCHES, rows), room).lines():
            echo(f"{INDENT}{line}")
    for find in dict.fromkeys(outcome.found.stuck):
        echo(_left(store, find))
    echo(f"{_summary(outcome.found.finds)} would be replaced")


def _match_cells(match: RedactionMatch, room: int) -> list[str]:
    key, before, after = match.context
    # The table cuts texts at the end. Cut the words before the value here, or a narrow terminal
    # would not show the value's position.
    words = f"{fit_path(_words(before), max(8, room // 5))}▒{_words(after)}"
    times = f"{match.times}×" if match.times > 1 else ""
    return [str(match.line), match.placeholder, f"{match.length:,}", plain(key), words, times]


def _words(text: str) -> str:
    """Return a masked text on one line, keeping the blanks that separate it from the value."""
    return re.sub(r"\s+", " ", plain_masked(f"|{masked(text)}|")[1:-1])


def _print_table(store: Store, finds: Iterable[Find]) -> None:
    places: dict[str, Counter[str]] = {}
    for find in finds:
        places.setdefault(find.kind, Counter())[describe_location(store, find.path)] += 1
    rows = [
        (
            kind,
            f"{counts.total():,}",
            ", ".join(f"{p} {count}" for p, count in counts.most_common()),
        )
        for kind, counts in sorted(places.items())
    ]
    echo_table(with_rows(COLUMNS, rows))


def _print_left(store: Store, outcome: RedactionOutcome) -> None:
    for each in outcome.skipped:
        echo(f"skipped: {plain(each.reason)}: {_summary(each.finds)} not replaced")
    for find in outcome.left:
        echo(_left(store, find))
    if outcome.fixed:
        fields = ", ".join(f"{name} {count}" for name, count in outcome.fixed.most_common())
        echo(f"not replaced, as the session depends on them: {fields}")


def _print_kept(outcome: RedactionOutcome) -> None:
    ids = [record.id for record in outcome.records]
    if not ids:
        return
    undo = f"turnlog undo {ids[0]}" if len(ids) == 1 else f"{len(ids)} changes: turnlog history"
    echo(f"  {undo}")
    echo(f"turnlog keeps the originals for undo; to delete them: {_forget(ids)}")
    if outcome.earlier:
        names = [record.id for record in outcome.earlier]
        echo(f"Earlier changes keep copies of the same files: {_forget(names)}")


def _forget(ids: list[str]) -> str:
    return f"turnlog forget {' '.join(ids) if len(ids) <= MANY else '--all-changes'}"


def _summary(finds: list[Find]) -> str:
    kinds = plural(len({find.kind for find in finds}), "kind")
    secrets = plural(len({find.value for find in finds}), "secret")
    return f"{secrets} ({kinds}) in {plural(len({find.path for find in finds}), 'file')}"


def _left(store: Store, find: Find) -> str:
    placeholder, path = placeholder_for(find.kind, find.value), _short(store, find.path)
    if find.line == IN_NAME:
        return f"left: {placeholder} in the name of {path}"
    return f"left: {placeholder} in {path}{f':{find.line}' if find.line else ', which is not text'}"


def _short(store: Store, path: Path) -> str:
    return plain(str(path.relative_to(store.root) if path.is_relative_to(store.root) else path))


def _as_json(store: Store, outcome: RedactionOutcome, dry_run: bool) -> dict[str, Any]:
    kinds: dict[str, Counter[str]] = {}
    files: dict[Path, Counter[str]] = {}
    finds = outcome.found.finds if dry_run else outcome.replaced
    for find in finds:
        kinds.setdefault(find.kind, Counter())[describe_location(store, find.path)] += 1
        files.setdefault(find.path, Counter())[find.kind] += 1
    return {
        "secrets": len({find.value for find in finds}),
        "kinds": kinds,
        "files": [{"path": path, "kinds": counts} for path, counts in files.items()],
        "finds": [_find_as_json(find) for find in finds],
        **({"matches": [_match_as_json(match) for match in outcome.matches]} if dry_run else {}),
        "left": [_find_as_json(f) for f in (outcome.found.stuck if dry_run else outcome.left)],
        "left_in_fields": outcome.fixed,
        "skipped": [
            {"reason": each.reason, "finds": [_find_as_json(find) for find in each.finds]}
            for each in outcome.skipped
        ],
        "changes": [record.id for record in outcome.records],
        "earlier_changes": [record.id for record in outcome.earlier],
        "done": not dry_run,
    }


def _find_as_json(find: Find) -> dict[str, Any]:
    placeholder = placeholder_for(find.kind, find.value)
    return {"path": find.path, "line": find.line, "kind": find.kind, "placeholder": placeholder}


def _match_as_json(match: RedactionMatch) -> dict[str, Any]:
    key, before, after = match.context
    fields = {"path": match.path, "line": match.line, "kind": match.kind}
    fields |= {"placeholder": match.placeholder, "length": match.length, "times": match.times}
    return fields | {"key": key, "before": before, "after": after}
