"""The tool `usage`: tokens, cost and time of sessions, as the reports count them."""

from typing import Any

from turnlog.format.timestamps import parse_since, parse_until
from turnlog.index import service
from turnlog.index.reports.reports import Filters, Report, ReportRequest, Row, footnotes_of
from turnlog.index.reports.session_list import ListFilters
from turnlog.mcp_server.answers import ToolAnswer
from turnlog.mcp_server.citations import brief, parse_reference
from turnlog.mcp_server.visible_sessions import History

HIDDEN = frozenset({"unpriced", "understated", "elapsed_seconds", "agent_tokens"})
"""Columns that are not worth their tokens."""


def usage(history: History, given: dict[str, Any]) -> ToolAnswer:
    """Return the rows of a report as a table, with its totals first."""
    since, until = given.get("since"), given.get("until")
    filters = Filters(
        since=parse_since(since).timestamp() if since else None,
        until=parse_until(until).timestamp() if until else None,
        model=given.get("model"),
    )
    name = given.get("report", "daily")
    request = ReportRequest(name, filters, tuple(given.get("by", ())))
    numbers = _numbers(history, given.get("session"))
    found = service.report_on_sessions(history.stores, request, numbers)
    period = " ".join(filter(None, (since and f"since {since}", until and f"until {until}")))
    about = f"session {given['session']}" if given.get("session") else f"{len(numbers)} sessions"
    head = f"usage {name} of {about} in {history.scope.label} {period}".rstrip()
    # Newest first, so that a truncated answer has the rows that most questions are about.
    rows = found.rows[-1::-1] if name in ("daily", "weekly", "monthly") else found.rows
    columns = _columns(found)
    table = [" | ".join(columns), *(_cells(columns, row) for row in rows)]
    total = ", ".join(
        f"{key} {_value(key, value)}"
        for key, value in found.total.items()
        if value and key not in HIDDEN
    )
    blocks = [f"Total: {total}"] if total else []
    blocks += ["\n".join(table[start : start + 40]) for start in range(0, len(table), 40)]
    return ToolAnswer(head, [*blocks, *footnotes_of(found)])


def _numbers(history: History, session: str | None) -> tuple[int, ...]:
    if session is None:
        # Include the calling session: it is part of the project's costs.
        return tuple(number for _, number in history.in_scope)
    id_, _ = history.find(parse_reference(session).session)
    found = service.match_sessions(history.stores, ListFilters(ids=(id_,)))
    return tuple(number for _, number in found.rows)


def _columns(report: Report) -> list[str]:
    """Return the columns that have a value in some row."""
    shown = (name for name in report.columns if name not in HIDDEN)
    return [name for name in shown if any(row.get(name) for row in report.rows)]


def _cells(columns: list[str], row: Row) -> str:
    return " | ".join(_value(name, row.get(name)) for name in columns)


def _value(name: str, value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}" if name.endswith("usd") else f"{value:.6g}"
    return "" if value is None else brief(str(value), 160)
