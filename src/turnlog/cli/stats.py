"""turnlog stats: report tokens, cost, time and calls over all sessions, deduplicated."""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from turnlog.cli.arguments import (
    chosen_format,
    csv_option,
    json_option,
    limit_option,
    output_option,
    project_option,
    reveal_switch,
    since_option,
    until_option,
)
from turnlog.cli.completions import complete_model
from turnlog.cli.drawing import draw_report
from turnlog.cli.extras import require_extra
from turnlog.cli.indexing import ON_STDERR
from turnlog.cli.layouts import layout_of, number
from turnlog.cli.output import echo_json, width
from turnlog.cli.store_options import has_chosen_stores, with_stores
from turnlog.cli.suggested_commands import choose
from turnlog.cli.tables import echo_csv
from turnlog.cli.terminal import dim, echo, echo_masked, masked_value
from turnlog.errors import NotFound, UsageError
from turnlog.index.reports.reports import (
    CARRYING,
    EVERYTHING,
    REPORTS,
    Filters,
    Report,
    ReportRequest,
    Row,
    compare_with_plan,
)
from turnlog.index.service import report as compute_report
from turnlog.store.stores import Stores, all_session_files, places_of
from turnlog.text import money

if TYPE_CHECKING:
    from turnlog.lake.lake_reports import LakeSource

OF_LAKE = ("engine", "master", "teams", "k")
"""Options that need --lake."""
SHOWN = 30
"""Rows of a table by default."""
VERDICT = ("cost_usd", "plan_usd", "plan_share")


class StatsOptions(NamedTuple):
    """Row order, limit and output format."""

    order: str | None
    limit: int | None
    """None is the default of the format; 0 is all."""
    form: str
    """`table`, `json`, `csv` or `svg`."""
    by: tuple[str, ...] = ()
    """Dimensions to group by besides those of the report."""
    plan: float | None = None
    """Dollars per month of a subscription to compare with."""

    @property
    def size(self) -> int | None:
        """The number of rows; None is all."""
        if self.limit is None:
            return SHOWN if self.form == "table" else None
        return self.limit or None


@click.command("stats")
@click.argument(
    "report", type=click.Choice([*REPORTS, CARRYING]), default="daily", metavar="[REPORT]"
)
@since_option("activity")
@until_option("activity")
@project_option
@click.option(
    "--model",
    metavar="TEXT",
    shell_complete=complete_model,
    help="Only models whose id contains TEXT.",
)
@click.option(
    "--by", metavar="NAME,…", help="Group by project, model, branch, session, store … as well."
)
@click.option("--order", metavar="COLUMN", help="Sort by this JSON column, largest first.")
@click.option(
    "--plan",
    type=click.FloatRange(0, min_open=True, max=1e9),
    metavar="USD",
    help="Compare months with a subscription at USD a month.",
)
@click.option("--lake", metavar="DEST", help="Report on all machines that pushed to this lake.")
@click.option(
    "--engine", type=click.Choice(["duckdb", "spark"]), help="Engine to query the lake with."
)
@click.option("--master", metavar="URL", help="Spark cluster: spark://HOST:7077, yarn, local[4].")
@click.option(
    "--teams",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Teams for --by team; by default teams.toml of the lake.",
)
@click.option(
    "--k",
    type=click.IntRange(2, 1000),
    metavar="N",
    help="Leave out groups of fewer than N people.",
)
@limit_option("rows", None, f"; by default {SHOWN} in a table")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "csv", "svg"]),
    help="Output format; svg is a chart of --order.",
)
@output_option()
@reveal_switch
@json_option
@csv_option
@with_stores
def command(stores: Stores, report: str, **options: Any) -> None:
    """Report tokens, cost, time and calls over all sessions.

    REPORT is daily (the default), weekly, monthly, session, project, store, model, tool, file,
    branch, hour, blocks, errors, latency, rereads, cache or carrying. Each message, prompt and
    call counts once, even if several files contain it. Days and hours are in your time zone; a
    block is a window of five hours. --format svg draws a chart for web pages and documents.

    Every request pays again for everything in its context. The carrying report shows what each
    tool cost that way, or with --by each project, session or file; --since and --until select
    items that first appeared in that time. The parts are estimates, their sum is exact.

    --lake reports on the sessions that all machines pushed (see `turnlog lake`), and --by also
    groups by user, machine and team. With --k, only monthly, project and model show figures, for
    whole months in UTC and at least N people each.

    \b
    Examples:
      turnlog stats --since 7d
      turnlog stats carrying --by file --csv -o files.csv
      turnlog stats daily --by model --format svg -o cost.svg
      turnlog stats monthly --lake s3://team/lake --by team
    """
    filters = _filters(options)
    by = tuple(filter(None, (options.pop("by") or "").split(",")))
    source = _lake_source(options)
    wanted = StatsOptions(form=chosen_format(options), by=by, **options)
    if source:
        computed = _lake_report(source, ReportRequest(report, filters, by))
    else:
        computed = compute_report(stores, report, filters, by=by, feedback=ON_STDERR)
    if wanted.plan:
        computed = compare_with_plan(computed, wanted.plan)
    if not computed.rows and wanted.form in ("table", "svg"):
        raise _nothing(stores, source, report, filters)
    _print(_ordered(computed, wanted.order), wanted)


def _lake_source(options: dict[str, Any]) -> "LakeSource | None":
    """Return the lake to report on; None for this machine's sessions."""
    dest, *others = (options.pop(name) for name in ("lake", *OF_LAKE))
    if dest is None:
        for name, value in zip(OF_LAKE, others, strict=True):
            if value is not None:
                hint = f"turnlog stats --lake DEST --{name} {value}"
                raise UsageError(f"--{name} is for reports on a lake", hint)
        return None
    if has_chosen_stores(click.get_current_context()):
        choose()  # no stores: the hint must not repeat them
        hint = f"turnlog stats --lake {quote(dest)}"
        raise UsageError("--store cannot be combined with --lake", hint)
    require_extra("lake", "lake support")
    from turnlog.lake.lake_reports import LakeSource
    from turnlog.lake.teams import load_teams

    engine, master, teams, k = others
    return LakeSource(dest, engine or "duckdb", master, teams and load_teams(teams), k)


def _nothing(
    stores: Stores, source: "LakeSource | None", report: str, filters: Filters
) -> NotFound:
    if source is None and filters != EVERYTHING and any(all_session_files(stores)):
        what = f"nothing to report in {places_of(stores)} with these options"
        return NotFound(what, f"turnlog stats {report}")
    if source is None:
        return NotFound(f"nothing to report in {places_of(stores)}", "turnlog --samples stats")
    hint = f"turnlog lake status {quote(source.dest)}"
    if source.k:
        return NotFound(f"{source.dest} has no such group of {source.k} people or more", hint)
    return NotFound(f"nothing to report in {source.dest}", hint)


def _lake_report(source: "LakeSource", request: ReportRequest) -> Report:
    from turnlog.lake.lake_reports import lake_report

    return lake_report(source, request)


def _filters(options: dict[str, Any]) -> Filters:
    since, until = options.pop("since"), options.pop("until")
    return Filters(
        since and since.timestamp(),
        until and until.timestamp(),
        options.pop("project"),
        options.pop("model"),
    )


def _print(computed: Report, wanted: StatsOptions) -> None:
    rows = _chosen(computed, wanted)
    if wanted.form == "json":
        echo_json(
            {
                "report": computed.name,
                "rows": rows,
                "total": computed.total,
                "unpriced_models": computed.unpriced_models,
            }
        )
    elif wanted.form == "svg":
        echo_masked(_chart(computed, rows, wanted))
    elif wanted.form == "csv":
        echo_csv(computed.columns, (list(row.values()) for row in rows))
    else:
        for line in draw_report(computed, rows, width(), wanted.order, wanted.by):
            echo(line)
        if wanted.plan:
            echo(_verdict(computed))
        if len(rows) < len(computed.rows):
            hint = f"{len(rows)} of {len(computed.rows)} rows; --limit 0 shows all"
            echo(dim(hint), err=True)


def _verdict(computed: Report) -> str:
    """Return how the cost of all months compares with that of the subscription."""
    cost, plan, share = (number(computed.total, name) for name in VERDICT)
    ratio = "" if share is None else f": {share:.1f} times as much"
    return f"{money(cost)} at list prices, {money(plan)} for the subscription{ratio}"


def _chart(computed: Report, rows: list[Row], wanted: StatsOptions) -> str:
    from turnlog.render.charts.report_charts import ReportChart, report_chart, standalone

    # Masked before it is drawn: a mask put into finished SVG could break it.
    drawn = ReportChart(computed.name, masked_value(rows), wanted.by, wanted.order)
    return standalone(report_chart(drawn)).rstrip("\n")


def _ordered(computed: Report, column: str | None) -> Report:
    if column is None:
        return computed
    if column not in computed.columns:
        names = ", ".join(computed.columns)
        raise UsageError(f"no column {column}: {computed.name} has {names}", "turnlog stats --help")
    return computed._replace(
        rows=sorted(computed.rows, key=lambda row: _rank(row, column), reverse=True)
    )


def _rank(row: Row, column: str) -> tuple[bool, Any]:
    value = row[column]
    return value is not None, value


def _chosen(computed: Report, wanted: StatsOptions) -> list[Row]:
    """Apply the limit: keep the last rows of a timeline, the first rows otherwise."""
    if wanted.size is None or (computed.name == "hour" and not wanted.by):
        return computed.rows
    layout = layout_of(computed.name, wanted.by)
    is_tail = layout.is_timeline and wanted.order is None
    return computed.rows[-wanted.size :] if is_tail else computed.rows[: wanted.size]
