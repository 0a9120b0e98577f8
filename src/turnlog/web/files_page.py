"""The files page: files read, changed and re-read most; and one file across all sessions."""

import shlex
from collections.abc import Sequence
from typing import Any

from turnlog.errors import NotFound
from turnlog.format.timestamps import parse_timestamp
from turnlog.index.reports.reports import Report, ReportRequest, Row
from turnlog.index.service import FILE_CALLS, file_calls
from turnlog.render.charts.bars import RankedRow, StackPart, ranked_bars, stacked_bars
from turnlog.render.charts.report_charts import axis_label, filled_periods
from turnlog.render.charts.svg import ChartOptions
from turnlog.secrets import mask, mask_value
from turnlog.store.paths import Store
from turnlog.text import short_duration
from turnlog.web.report_data import (
    FILTERS,
    PageLinks,
    Params,
    address,
    csv_of,
    filters_in,
    masked_row,
    reports_of,
    session_link,
    stats_command,
    top_rows,
    unmasked_reports,
)

SHOWN = 15
MOST_ROWS = 200
CHANGING = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Write"})
AGES = (("7 days", "7d"), ("30 days", "30d"), ("90 days", "90d"), ("year", "365d"), ("all", None))


def files_page(stores: Sequence[Store], params: Params) -> dict[str, Any]:
    """Return the values of the page about all files."""
    filters = filters_in(params)
    files, rereads = unmasked_reports(
        stores, [ReportRequest("file", filters), ReportRequest("rereads", filters)]
    )
    links = PageLinks("/files", params)
    return {
        "params": {name: params.get(name, "") for name in FILTERS},
        "hidden": {},
        "ages": [(name, links.to(since=age, until=None)) for name, age in AGES],
        "charts": [
            _ranked("Files changed most often", files, "changes", params, _lines),
            _ranked("Files read most often", files, "reads", params),
            _ranked("Files read again in the same session", rereads, "rereads", params, _again),
        ],
        "files": [_file(masked_row(row)) for row in files.rows[:MOST_ROWS]],
        "rest": max(len(files.rows) - MOST_ROWS, 0),
        "csv": links.to(format="csv"),
        "command": stats_command("file", params),
    }


def files_csv(stores: Sequence[Store], params: Params) -> str:
    """Return the table of files as CSV."""
    return csv_of(reports_of(stores, [ReportRequest("file", filters_in(params))])[0])


def file_link(path: str) -> str:
    """Return the address of the page about one file."""
    return address("/files", path=path)


def _ranked(
    title: str, report: Report, column: str, params: Params, note: Any = None
) -> dict[str, Any]:
    rows = [
        RankedRow(str(row["path"]), _number(row, column), note=note(row) if note else "")
        for row in map(masked_row, top_rows(report, column, SHOWN))
    ]
    return {
        "title": title,
        "chart": ranked_bars(rows, ChartOptions(title, link=file_link)),
        "command": stats_command(report.name, params, "--order", column),
    }


def _number(row: Row, name: str) -> float:
    value = row.get(name)
    return value if isinstance(value, int | float) else 0


def _lines(row: Row) -> str:
    return f"+{_number(row, 'added'):,.0f} −{_number(row, 'removed'):,.0f}"


def _again(row: Row) -> str:
    return f"({_number(row, 'unchanged'):,.0f} unchanged)" if row["unchanged"] else ""


def _file(row: Row) -> dict[str, Any]:
    path = str(row["path"])
    counts = ("sessions", "changes", "reads")
    cells = [f"{_number(row, name):,.0f}" for name in counts]
    return {
        "path": path,
        "link": file_link(path),
        "cells": [*cells, *_lines(row).split()],
        "last": _local(row["last"]),
    }


def _local(stamp: Any) -> str:
    moment = parse_timestamp(str(stamp or ""))
    return f"{moment.astimezone():%Y-%m-%d %H:%M}" if moment else ""


def file_page(stores: Sequence[Store], params: Params) -> dict[str, Any]:
    """Return the values of the page about one file, in all sessions."""
    path = params["path"]
    # A path is only compared with those in the index; the file itself is never opened.
    rows = file_calls(stores, path).rows
    if not rows:
        raise NotFound(f"no call read or changed {path[:200]}", "turnlog stats file")
    rows = sorted(mask_value(rows), key=lambda row: str(row["time"] or ""), reverse=True)
    changes = [row for row in rows if row["name"] in CHANGING and row["ok"] != 0]
    reads = [row for row in rows if row["name"] not in CHANGING and row["ok"] != 0]
    return {
        "path": mask(path),
        "sessions": len({row["session"] for row in rows}),
        "changes": len(changes),
        "reads": len(reads),
        "added": sum(_number(row, "added") for row in changes),
        "removed": sum(_number(row, "removed") for row in changes),
        "is_cut": len(rows) >= FILE_CALLS,
        "chart": _history(rows),
        "calls": [_call(row) for row in rows],
        "command": mask(shlex.join(["turnlog", *_command(path, bool(changes))])),
        "search_link": address("/sessions", file=path),
    }


def _command(path: str, is_changed: bool) -> list[str]:
    if is_changed:
        return ["history-of", path]
    query = (
        "SELECT datetime(c.at, 'unixepoch') AS time, f.session, c.tool, c.line FROM calls c"
        f" JOIN files f ON f.id = c.file WHERE c.counts = 1 AND c.path = {_literal(path)}"
    )
    return ["sql", query]


def _literal(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def _history(rows: Sequence[Row]) -> str:
    """Draw reads and changes of a file by local day."""
    counts: dict[tuple[str, str], int] = {}
    for row in rows:
        moment = parse_timestamp(str(row["time"] or ""))
        if moment:
            kind = "changes" if row["name"] in CHANGING else "reads"
            place = (moment.astimezone().date().isoformat(), kind)
            counts[place] = counts.get(place, 0) + 1
    parts = [StackPart(*place, count) for place, count in counts.items()]
    days = [part.period for part in parts]
    periods = filled_periods(days, 1)
    options = ChartOptions("Reads and changes of the file by day", labels=axis_label)
    return stacked_bars(parts, periods, options)


def _call(row: Row) -> dict[str, Any]:
    return {
        "time": _local(row["time"]),
        "link": session_link(str(row["session"]), line=str(row["line"])),
        "session": row["title"] or row["session"],
        "name": row["name"],
        "branch": row["branch"] or "",
        "is_error": row["ok"] == 0,
        "error": row["error"] or "",
        "seconds": short_duration(_number(row, "seconds")),
        "lines": _lines(row) if row["name"] in CHANGING else "",
        "is_subagent": bool(row["is_subagent"]),
        "key": row["session"],
        # A sub-agent's lines are in a file of its own, which the session's page cannot show.
        "result_line": None if row["is_subagent"] else row["result_line"],
    }
