"""Reports for pages: over several stores, with filters from the URL, as rows, CSV and commands."""

import csv
import io
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote, urlencode

from turnlog.errors import UsageError
from turnlog.index.filters import ReportFilters, filters_of
from turnlog.index.reports.reports import Filters, Report, ReportRequest, Row
from turnlog.index.reports.reports import Value as RowValue
from turnlog.index.service import report_batch
from turnlog.secrets import mask_value
from turnlog.store.paths import Store

Params = Mapping[str, str]
"""The query of a URL."""
FILTERS = ("since", "until", "project", "model")
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def filters_in(params: Params) -> Filters:
    """Return the filters of a URL; raise UsageError for an invalid date."""
    chosen: ReportFilters = {
        "since": params.get("since") or None,
        "until": params.get("until") or None,
        "project": params.get("project") or None,
        "model": params.get("model") or None,
    }
    return filters_of(chosen)


def choice(params: Params, name: str, known: Sequence[str]) -> str:
    """Return a parameter, which must be one of `known`; the first of them if it is missing."""
    value = params.get(name) or known[0]
    if value not in known:
        raise UsageError(f"{name}={value[:40]} is unknown: choose from {', '.join(known)}")
    return value


def number_in(params: Params, name: str) -> float | None:
    """Return a parameter as a positive number; None if it is missing."""
    text = params.get(name)
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise UsageError(f"{name}={text[:40]} is not a positive number")
    return value


def reports_of(stores: Sequence[Store], requests: Sequence[ReportRequest]) -> list[Report]:
    """Compute reports over all stores, masked."""
    return [masked_report(report) for report in unmasked_reports(stores, requests)]


def unmasked_reports(stores: Sequence[Store], requests: Sequence[ReportRequest]) -> list[Report]:
    """Compute reports without masking: the caller masks only the rows it shows (`masked_row`)."""
    return report_batch(stores, requests)


def masked_report(report: Report) -> Report:
    """Mask the texts of a report."""
    rows = [masked_row(row) for row in report.rows]
    return report._replace(rows=rows, unpriced_models=mask_value(report.unpriced_models))


def masked_row(row: Row) -> Row:
    """Mask the texts of a row; numbers and dates need no scan."""
    texts = {
        name: value
        for name, value in row.items()
        if isinstance(value, str | list) and name not in TIMES
    }
    return row | mask_value(texts) if texts else row


TIMES = ("day", "week", "month", "weekday", "hour", "started")


def _sum(row: Row, names: Iterable[str]) -> float:
    return sum(value for name in names if isinstance(value := row.get(name), int | float))


def top_rows(report: Report, column: str, most: int) -> list[Row]:
    """Return the rows of a report with the largest values of a column."""
    known = [row for row in report.rows if isinstance(row[column], int | float) and row[column]]
    return sorted(known, key=lambda row: -_sum(row, (column,)))[:most]


def csv_of(report: Report) -> str:
    """Return the rows of a report as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(report.columns)
    for row in report.rows:
        writer.writerow([_cell(row[name]) for name in report.columns])
    return out.getvalue()


def _cell(value: RowValue) -> str | float | None:
    if isinstance(value, list):
        return " ".join(value)
    # A spreadsheet runs a cell such as `=HYPERLINK(…)`: a project or a title may be called that.
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


class PageLinks(NamedTuple):
    """Builds URLs of a page that change some of its parameters and keep the others."""

    path: str
    params: Params

    def to(self, **changes: str | None) -> str:
        """Return the address of this page with some parameters changed; None removes one."""
        merged = {**self.params, **changes}
        kept = {name: value for name, value in merged.items() if value}
        return f"{self.path}?{urlencode(kept)}" if kept else self.path


def address(page: str, /, **params: str | None) -> str:
    """Return an address within the app.

    >>> address("/files", path="/home/ada/a b.py")
    '/files?path=%2Fhome%2Fada%2Fa+b.py'
    """
    return PageLinks(page, {}).to(**params)


def session_link(id_: str, line: str | None = None) -> str | None:
    """Return the address of a session; None for a file that belongs to no session.

    >>> session_link("a?b", line="7"), session_link("/home/ada/agent-1.jsonl")
    ('/sessions/a%3Fb?line=7', None)
    """
    # Reports identify a file without a session by its path, and no URL may contain a path.
    return None if "/" in id_ else address(f"/sessions/{quote(id_, safe='')}", line=line)


def stats_command(report: str, params: Params, *options: str) -> str:
    """Return the command that prints a report with the filters of a page.

    >>> stats_command("daily", {"since": "7d", "project": "a b"}, "--by", "model")
    "turnlog stats daily --by model --since 7d --project 'a b'"
    """
    words = ["turnlog", "stats", report, *options]
    for name in FILTERS:
        if value := params.get(name):
            words += [f"--{name}", value]
    return shlex.join(words)
