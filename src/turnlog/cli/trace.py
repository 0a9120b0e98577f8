"""turnlog trace: send sessions as traces to an observability backend, or write them to a file."""

import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from turnlog.cli.arguments import (
    all_option,
    json_option,
    project_option,
    since_option,
    until_option,
)
from turnlog.cli.completions import complete_session, complete_target
from turnlog.cli.ls import SessionSelection
from turnlog.cli.output import echo_json, local_time, plain, progress_bar, width
from turnlog.cli.picking import SELECTING, named_or_picked
from turnlog.cli.span_options import span_options
from turnlog.cli.store_options import store_option, stores_in
from turnlog.cli.tables import Column, Table
from turnlog.cli.terminal import Look, echo, style
from turnlog.render.terminal_text import times_apart
from turnlog.store.catalog import select_sessions
from turnlog.store.session_lookup import find_session
from turnlog.store.stores import Stores
from turnlog.text import plural
from turnlog.trace.send import SendReport
from turnlog.trace.service import send_traces, spans_in, write_traces
from turnlog.trace.span import Span, WorkKind
from turnlog.trace.targets import PERFETTO, FileTarget, Target, target_of
from turnlog.trace.trace_settings import TraceSettings, load_targets

AGREEING = "turnlog.trace.agreeing"
"""Key in `Context.meta` of the same command line with --yes."""
COLOURS: dict[WorkKind, Look] = {WorkKind.GENERATION: "cyan", WorkKind.TOOL: "yellow"}
COLUMNS = (
    Column("span", width=26, is_filling=True),
    Column("start", is_number=True, width=19, expendable=2, look="dim"),
    Column("time", is_number=True, width=9),
    Column("working", is_number=True, width=7, expendable=3, look="dim"),
    Column("state", width=11, expendable=1),
)
WIDEST = 110
"""Maximum width in cells; on a wider line, a name and its times would be too far apart."""


class TraceCommand(click.Command):
    """A command whose --to may be followed by two words: `--to perfetto FILE`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[AGREEING] = shlex.join(["turnlog", "trace", "--yes", *args])
        for place in range(len(args) - 2):
            if args[place : place + 2] == ["--to", PERFETTO.rstrip(":")] and args[place + 2 :]:
                args[place + 1 : place + 3] = [f"{PERFETTO}{args[place + 2]}"]
        return super().parse_args(ctx, args)


@click.command("trace", cls=TraceCommand)
@click.argument("sessions", metavar="[SESSION]...", nargs=-1, shell_complete=complete_session)
@all_option("Trace all sessions.")
@project_option
@since_option("sessions active")
@until_option("sessions last active")
@click.option(
    "--to",
    metavar="TARGET",
    multiple=True,
    shell_complete=complete_target,
    help="Backend (langfuse, phoenix, ...), URL, FILE.json or `perfetto FILE`; repeatable.",
)
@span_options
@click.option("--again", is_flag=True, help="Resend spans that were sent before.")
@click.option("--yes", "-y", is_flag=True, help="Replace a FILE that turnlog did not write.")
@click.option("--dry-run", is_flag=True, help="Print the traces instead of sending them.")
@json_option
@store_option
@click.pass_context
def command(ctx: click.Context, sessions: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Send sessions as traces to a backend, or write them to a file.

    Each turn is a trace. Spans that were sent before or have not ended are skipped. Exits with 1
    if a span could not be sent. --project, --since and --until imply --all. See docs/tracing.md
    for backends and settings.

    \b
    Examples:
      turnlog trace last --dry-run
      turnlog trace last --to langfuse
      turnlog trace --since 7d --to http://localhost:4318 --tag nightly
      turnlog trace last --to perfetto session.json
    """
    stores = stores_in(ctx)
    own = ("every", "project", "since", "until", "again", "dry_run", "yes")
    selection = SessionSelection(options["project"], options["since"], options["until"])
    is_selected = options["every"] or selection != SessionSelection()
    example = "turnlog trace last --to langfuse"
    sessions = named_or_picked(ctx, sessions, is_selected, SELECTING, example)
    loaded = load_targets({name: value for name, value in options.items() if name not in own})
    if not sessions:  # one caller's span cannot be the parent of many sessions
        loaded = [replace(settings, traceparent=None) for settings in loaded]
    paths = _paths(stores, sessions, selection)
    if options["dry_run"]:
        _print_spans(_spans(stores, paths, loaded[0]), as_json)
        return
    targets = [(target_of(settings), settings) for settings in loaded]
    for target, _ in targets:
        if isinstance(target, FileTarget):
            target.require_replaceable(ctx.meta[AGREEING], options["yes"])
    reports: list[SendReport] = []
    files: list[dict[str, Any]] = []
    for target, settings in targets:
        if isinstance(target, FileTarget):
            files.append(_write(target, stores, paths, settings, as_json))
        else:
            found = list(_sent(stores, paths, target, settings, options["again"]))
            reports += found
            _print_failures(found, len(paths))
    backends = [target for target, _ in targets if isinstance(target, Target)]
    if as_json:
        echo_json([*reports, *files])
    else:
        _print_reports(reports, len(backends) > 1, bool(sessions))
    if len(reports) < len(paths) * len(backends) or any(report.failed for report in reports):
        ctx.exit(1)


def _paths(stores: Stores, sessions: tuple[str, ...], selection: SessionSelection) -> list[Path]:
    """Return the files of named or selected sessions, the oldest first."""
    if sessions:
        return [find_session(stores, text).path for text in sessions]
    return [each.path for each in reversed(select_sessions(stores, *selection))]


def _spans(stores: Stores, paths: list[Path], settings: TraceSettings) -> Iterator[Span]:
    for path in paths:
        yield from spans_in(stores, settings, path)


def _sent(
    stores: Stores, paths: list[Path], target: Target, settings: TraceSettings, again: bool
) -> Iterator[SendReport]:
    def warn(reason: str) -> None:
        echo(style(plain(reason), "red"), err=True)

    with progress_bar(len(paths), "sending") as bar:
        for report in send_traces(stores, paths, target, settings, again=again, warn=warn):
            yield report
            bar.update(1)


def _write(
    target: FileTarget, stores: Stores, paths: list[Path], settings: TraceSettings, as_json: bool
) -> dict[str, Any]:
    """Write sessions to a file; return its path and counts, and print them unless `as_json`."""
    size = sum(path.stat().st_size for path in paths if path.exists())
    with progress_bar(size, "writing") as bar:
        tally = write_traces(stores, paths, target, settings, bar.update)
    turns, spans = plural(len(tally.turns), "turn"), plural(tally.spans, "span")
    if not as_json:
        echo(f"{target.path}: {turns}, {spans}")
    return {"file": target.path, "turns": len(tally.turns), "spans": tally.spans}


def _print_reports(reports: list[SendReport], names_target: bool, shows_links: bool) -> None:
    for report in reports:
        summary = f"{plural(report.turns, 'turn')}, {plural(report.sent, 'span')} sent"
        others = {"skipped": report.skipped, "open": report.open, "failed": report.failed}
        summary += "".join(f", {count:,} {name}" for name, count in others.items() if count)
        summary += f" to {plain(report.target)}" if names_target else ""
        echo(f"{report.session}  {summary}")
        for link in report.links if shows_links else []:
            echo(f"  {plain(link)}")


def _print_failures(reports: list[SendReport], wanted: int) -> None:
    for report in reports:
        if report.failed:
            echo(style(f"  {plain(report.reason)}", "red"), err=True)
    if len(reports) < wanted:
        echo(f"not tried: {plural(wanted - len(reports), 'session')}", err=True)


def _print_spans(spans: Iterator[Span], as_json: bool) -> None:
    if as_json:
        echo_json(list(spans))
        return
    table = Table(COLUMNS, min(width(), WIDEST))
    echo(table.head())
    depths: dict[str | None, int] = {None: -1}
    session, start = "", 0
    for span in spans:
        if span.trace.session_id != session:
            session = span.trace.session_id
            echo(style(plain(session), "bold"))
        depths[span.id] = depths.get(span.parent_id, -1) + 1
        start = span.begins if span.parent_id is None else start
        cells = _cells(span, depths[span.id], start)
        # The colour of the name depends on the span's kind, which has no column.
        echo(table.row(cells, {"span": COLOURS.get(span.kind)}).rstrip())


def _cells(span: Span, depth: int, start: int) -> list[str]:
    """Return the cells of a span: name, start, duration, a turn's working time, and state."""
    name = f"  {'  ' * depth}{plain(span.name)}"
    lasted = "?" if None in (span.start, span.end) else f"{(span.ends - span.begins) / 1e9:.3f}s"
    moment = datetime.fromtimestamp(span.begins / 1e9, UTC) if span.begins else None
    when = local_time(moment) if depth == 0 else f"+{(span.begins - start) / 1e9:.3f}s"
    marks = {"failed": span.error is not None, "interrupted": span.is_interrupted}
    marks["open"] = not span.is_final
    summary = " ".join(mark for mark, is_so in marks.items() if is_so)
    working, elapsed = times_apart(span.working_ms, span.elapsed_ms)
    return [name, when, lasted, working if elapsed else "", summary]
