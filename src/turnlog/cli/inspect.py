"""turnlog inspect: count versions, entry kinds, fields and tools, flagging unknown ones."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from turnlog.cli.arguments import all_option, json_option, output_option
from turnlog.cli.completions import complete_session
from turnlog.cli.output import echo_json, plain, progress_bar
from turnlog.cli.store_options import with_stores
from turnlog.cli.tables import Column, echo_table
from turnlog.cli.terminal import dim, echo, style
from turnlog.errors import UsageError
from turnlog.format.regular_files import is_readable
from turnlog.format.survey import (
    Survey,
    is_known_block,
    is_known_kind,
    is_known_tool,
    survey_file,
)
from turnlog.store.parallel import map_files
from turnlog.store.session_lookup import find_session
from turnlog.store.stores import Stores, no_sessions
from turnlog.text import file_size, plural

MANY = 12
"""Rows of a list without --full."""


@click.command("inspect")
@click.argument("session", required=False, shell_complete=complete_session)
@all_option("Inspect all sessions and sub-agents (the default).")
@click.option("--full", is_flag=True, help="Include known fields, and print every row.")
@output_option()
@json_option
@with_stores
def command(stores: Stores, session: str | None, every: bool, full: bool, as_json: bool) -> None:
    """Count client versions, entry kinds, fields and tools.

    Kinds and fields that turnlog does not know are flagged. They are preserved and shown
    generically; a new one means that the client's format has changed.

    \b
    Examples:
      turnlog inspect
      turnlog inspect last --full
      turnlog inspect --json | jq .versions
    """
    survey = _survey(_paths(stores, session, every))
    if as_json:
        echo_json(_as_json(survey))
    else:
        _print(survey, full)


def survey_files(paths: Sequence[Path]) -> Survey:
    """Survey several files as one."""
    whole = Survey()
    for path in paths:
        whole.add(survey_file(path))
    return whole


def _paths(stores: Stores, session: str | None, every: bool) -> list[Path]:
    if session and every:
        raise UsageError("SESSION cannot be combined with --all", "turnlog inspect --all")
    if session:
        return [find_session(stores, session).path]
    # Not only the files in the catalog: a survey should also find files that turnlog does not
    # know. A set, because one store may lie within another.
    found = {path for store in stores for path in store.projects.rglob("*.jsonl")}
    paths = [path for path in sorted(found) if is_readable(path)]
    if not paths:
        raise no_sessions(stores, "inspect")
    return paths


def _survey(paths: list[Path]) -> Survey:
    whole = Survey()
    with progress_bar(sum(path.stat().st_size for path in paths), "Reading") as bar:
        for done, part in map_files(survey_files, paths):
            whole.add(part)
            bar.update(done)
    return whole


def _as_json(survey: Survey) -> dict[str, Any]:
    fields = survey.count_fields()
    return {
        "files": survey.files,
        "lines": survey.lines,
        "bytes": survey.bytes,
        "versions": dict(sorted(survey.versions.items())),
        "kinds": _marked(survey.kinds, is_known_kind),
        "blocks": _marked(survey.blocks, is_known_block),
        "tools": _marked(survey.tools, is_known_tool),
        "stop_reasons": {
            reason: {"lines": lines, "messages": survey.message_stops[reason]}
            for reason, lines in survey.line_stops.most_common()
        },
        "fields": {
            name: {"count": count, "known": known}
            for (name, known), count in sorted(fields.items())
        },
        "misfits": dict(survey.misfits),
        "problems": [problem._asdict() for problem in survey.problems],
    }


def _marked(counts: Counter[str], is_known: Callable[[str], bool]) -> dict[str, dict[str, Any]]:
    ordered = counts.most_common()
    return {name: {"count": count, "known": is_known(name)} for name, count in ordered}


def _print(survey: Survey, full: bool) -> None:
    echo(f"{plural(survey.files, 'file')}, {survey.lines:,} lines, {file_size(survey.bytes)}")
    limit = None if full else MANY
    _print_list("Client versions", survey.versions, lambda _: True, limit)
    _print_list("Entry kinds", survey.kinds, is_known_kind, None)
    _print_list("Content blocks", survey.blocks, is_known_block, None)
    _print_list("Tools", survey.tools, is_known_tool, limit)
    _print_stops(survey)
    fields = survey.count_fields()
    known = {name for name, is_known in fields if is_known}
    shown = {name: count for (name, is_known), count in fields.items() if full or not is_known}
    title = "Fields" if full else "Fields turnlog does not know"
    _print_list(title, shown, known.__contains__, None)
    _print_list("Known fields of an unexpected type", survey.misfits, lambda _: False, None)
    _print_problems(survey)


def _print_list(
    title: str, counts: Mapping[str, int], is_known: Callable[[str], bool], limit: int | None
) -> None:
    if not counts:
        return
    echo()
    rows = sorted(counts.items(), key=lambda row: (is_known(row[0]), -row[1], row[0]))
    shown = rows[:limit]
    marks = ["" if is_known(name) else "unknown" for name, _ in shown]
    columns = [
        Column("count", [f"{count:,}" for _, count in shown], is_number=True, width=10),
        Column(title, [plain(name) for name, _ in shown]),
        Column("", marks, is_whole=True, look="yellow"),
    ]
    echo_table(columns)
    if limit and len(rows) > limit:
        echo(dim(f"            {len(rows) - limit} more (--full shows all)"))


def _print_stops(survey: Survey) -> None:
    reasons = survey.line_stops.most_common()
    if not reasons:
        return
    echo()
    lines = [f"{count:,}" for _, count in reasons]
    messages = [f"{survey.message_stops[reason]:,}" for reason, _ in reasons]
    columns = [
        Column("lines", lines, is_number=True, width=10),
        Column("messages", messages, is_number=True),
        Column("Stop reasons", [plain(reason) for reason, _ in reasons]),
    ]
    echo_table(columns)


def _print_problems(survey: Survey) -> None:
    if not survey.problems:
        return
    echo("\n" + style("Problems", "bold"))
    for problem in survey.problems:
        echo(f"  {plain(str(problem.path))}:{problem.line}  {style(problem.reason, 'red')}")
