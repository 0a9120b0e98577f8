"""The tools `usage` and `errors`: figures of sessions; failures and what fixed them."""

from typing import Any

from turnlog.errors import UsageError
from turnlog.format.timestamps import parse_since, parse_until
from turnlog.index import service
from turnlog.index.reports.failures import FailedCall, FailureQuery, RecordedCall
from turnlog.index.reports.reports import Filters, Report, ReportRequest, Row, footnotes_of
from turnlog.index.reports.session_list import ListFilters
from turnlog.mcp_server.answers import ToolAnswer
from turnlog.mcp_server.citations import brief, cite, local_time, parse_reference
from turnlog.mcp_server.history import History, short_id

HIDDEN = frozenset({"unpriced", "understated", "elapsed_seconds", "agent_tokens"})
"""Columns that would only cost tokens."""
COMMAND, MESSAGE = 300, 400


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
    # The newest first: an answer that is cut keeps what is asked for most.
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
        # What this session costs is part of what the project costs.
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


def errors(history: History, given: dict[str, Any]) -> ToolAnswer:
    """Return earlier failures like a command or a message, each with what fixed it."""
    command, message = given.get("command", ""), given.get("message", "")
    if not command.strip() and not message.strip():
        raise UsageError("name a command, a message or both")
    query = FailureQuery(command, message, history.numbers(), given.get("limit", 5))
    found = service.failures(history.stores, query)
    fixed = sum(each.success is not None for each in found)
    asked = brief(f"{command} {message}".strip(), 200)
    head = f"errors like {asked!r} in {history.scope.label}: {len(found)}"
    if not found:
        return ToolAnswer(head, [], "No such failure is recorded. Try `search` with errors=true.")
    # Those with a fix are what the question is about.
    ordered = sorted(found, key=lambda each: each.success is None)
    return ToolAnswer(
        f"{head}, {fixed} of them fixed", [_failure(history, each) for each in ordered]
    )


def _failure(history: History, failure: FailedCall) -> str:
    call = failure.call
    turn = history.turn_of(failure.file, call.line)
    lines = [
        f"{cite(failure.session, call.line, turn, call.at)} failed: {_call(call)}",
        f"  in {short_id(failure.session)} · {brief(failure.title, 100) or 'untitled'}",
        f"  error: {brief(call.error, MESSAGE)}",
    ]
    if failure.success is None:
        return "\n".join([*lines, "  never succeeded afterwards in that session"])
    if failure.between:
        lines.append("  in between:")
        lines += [
            f"    {_mark(failure, each)} {_call(each)}{_failed(each)}" for each in failure.between
        ]
    success = failure.success
    return "\n".join(
        [
            *lines,
            f"  {_mark(failure, success)} {local_time(success.at)} then worked: {_call(success)}",
        ]
    )


def _mark(failure: FailedCall, call: RecordedCall) -> str:
    return cite(failure.session, call.line, None, None)


def _call(call: RecordedCall) -> str:
    return f"{call.tool} {brief(call.command or call.path, COMMAND)}".rstrip()


def _failed(call: RecordedCall) -> str:
    return f" → failed: {brief(call.error, 120)}" if call.is_error else ""
