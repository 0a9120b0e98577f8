"""turnlog stats: what the sessions took, over all files, each thing counted once."""

from typing import Any, NamedTuple

import click

from turnlog.cli.arguments import Since, Until, csv_option, json_option, reveal_switch
from turnlog.cli.drawing import draw_report
from turnlog.cli.indexing import ON_STDERR
from turnlog.cli.layouts import layout_of
from turnlog.cli.output import echo_json, width
from turnlog.cli.tables import echo_csv
from turnlog.cli.terminal import dim, echo
from turnlog.errors import NotFound, UsageError
from turnlog.index.reports.reports import REPORTS, Filters, Report, Row
from turnlog.index.service import report as compute_report
from turnlog.store.paths import Store

SHOWN = 30
"""How many rows a terminal shows unless told otherwise."""


class StatsOptions(NamedTuple):
    """Which rows are printed, and how."""

    order: str | None
    limit: int | None
    """None is as many as suits the form; 0 is all."""
    as_json: bool
    as_csv: bool
    by: tuple[str, ...] = ()
    """Dimensions to group by besides those of the report."""

    @property
    def size(self) -> int | None:
        """How many rows; None is all."""
        if self.limit is None:
            return None if self.as_json or self.as_csv else SHOWN
        return self.limit or None


@click.command("stats")
@click.argument("report", type=click.Choice(REPORTS), default="daily", metavar="[REPORT]")
@click.option("--since", type=Since(), help="Only what was done since a date or an age (3d, 12h).")
@click.option("--until", type=Until(), help="Only what was done up to a day, or before a time.")
@click.option("--project", metavar="TEXT", help="Only projects whose directory contains TEXT.")
@click.option("--model", metavar="TEXT", help="Only models whose name contains TEXT.")
@click.option("--by", metavar="NAME,…", help="Group by project, model, branch, session … as well.")
@click.option("--order", metavar="COLUMN", help="Sort by a column of the JSON, the largest first.")
@click.option("--limit", type=click.IntRange(0), help=f"Rows, {SHOWN} in a table; 0 for all.")
@reveal_switch
@json_option
@csv_option
@click.pass_obj
def command(store: Store, report: str, **options: Any) -> None:
    """Print what all sessions took: tokens, cost, time, calls.

    REPORT is daily (the default), weekly, monthly, session, project, model, tool, file, branch,
    hour, blocks or errors. Each message, prompt and call counts once, however many files have it.
    Days and hours are those of your time zone; a block is a window of five hours.
    """
    filters = _filters(options)
    by = tuple(filter(None, (options.pop("by") or "").split(",")))
    wanted = StatsOptions(**options, by=by)
    told = compute_report(store, report, filters, by=wanted.by, feedback=ON_STDERR)
    if not (told.rows or wanted.as_json or wanted.as_csv):
        raise NotFound(f"nothing to report of {store.projects}", "turnlog --samples stats")
    _print(_ordered(told, wanted.order), wanted)


def _filters(options: dict[str, Any]) -> Filters:
    since, until = options.pop("since"), options.pop("until")
    return Filters(
        since and since.timestamp(),
        until and until.timestamp(),
        options.pop("project"),
        options.pop("model"),
    )


def _print(told: Report, wanted: StatsOptions) -> None:
    rows = _chosen(told, wanted)
    if wanted.as_json:
        echo_json(
            {
                "report": told.name,
                "rows": rows,
                "total": told.total,
                "unpriced_models": told.unpriced_models,
            }
        )
    elif wanted.as_csv:
        echo_csv(told.columns, (list(row.values()) for row in rows))
    else:
        for line in draw_report(told, rows, width(), wanted.order, wanted.by):
            echo(line)
        if len(rows) < len(told.rows):
            hint = f"{len(rows)} of {len(told.rows)} rows; --limit 0 shows all"
            echo(dim(hint), err=True)


def _ordered(told: Report, column: str | None) -> Report:
    if column is None:
        return told
    if column not in told.columns:
        names = ", ".join(told.columns)
        raise UsageError(f"no column {column}: {told.name} has {names}", "turnlog stats --help")
    return told._replace(rows=sorted(told.rows, key=lambda row: _rank(row, column), reverse=True))


def _rank(row: Row, column: str) -> tuple[bool, Any]:
    value = row[column]
    return value is not None, value


def _chosen(told: Report, wanted: StatsOptions) -> list[Row]:
    """As many rows as are wanted: of what goes on in time, the last ones."""
    if wanted.size is None or (told.name == "hour" and not wanted.by):
        return told.rows
    layout = layout_of(told.name, wanted.by)
    is_tail = layout.is_timeline and wanted.order is None
    return told.rows[-wanted.size :] if is_tail else told.rows[: wanted.size]
