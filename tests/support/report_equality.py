"""Compare reports of an index with those of a lake, column by column.

What the index tells is passed through the same filter of names as what a push writes: ids, models
and tools of unusual form are hashed, secrets are masked. Integers and texts have to be equal, costs
and times to nine digits.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from turnlog.index.reports.reports import REPORTS, Filters, Report, ReportRequest, Row
from turnlog.lake.lake_names import NameFilter

TOLERANCE = 1e-9
NOW = 1_765_501_234.5
EVERY_REPORT = [ReportRequest(name) for name in (*REPORTS, "calls")]
GROUPED = [
    ReportRequest("daily", by=("project", "model")),
    ReportRequest("branch", by=("session",)),
    ReportRequest("hour", by=("store", "branch")),
    ReportRequest("session", by=("model",)),
]
FILTERED = [
    ReportRequest(name, Filters(1.72e9, 1.79e9, "E", "CLAUDE")) for name in (*REPORTS, "calls")
]
ALL_REQUESTS = [*EVERY_REPORT, *GROUPED, *FILTERED]


def differences(expected: Iterable[Report], found: Iterable[Report], keep: NameFilter) -> list[str]:
    """Return a line for each difference between two lists of reports."""
    lines: list[str] = []
    for one, other in zip(expected, found, strict=True):
        lines += (f"{one.name}: {line}" for line in _compare(one, other, keep))
    return lines


def count_values(reports: Iterable[Report]) -> int:
    """Return the number of values that a comparison covers."""
    return sum(len(row) for report in reports for row in report.rows)


def _compare(one: Report, other: Report, keep: NameFilter) -> list[str]:
    if one.columns != other.columns:
        return [f"columns {one.columns} and {other.columns}"]
    expected = sorted((_filtered(row, keep) for row in one.rows), key=_rank)
    # Rows with equal figures are in the order of their names, which may be hashes.
    rows = sorted((_filtered(row, None) for row in other.rows), key=_rank)
    if len(expected) != len(rows):
        return [f"{len(expected)} rows and {len(rows)} rows"]
    pairs = [*zip(expected, rows, strict=True), (one.total, other.total)]
    found = [
        f"{name} is {row[name]!r} and {twin[name]!r}"
        for row, twin in pairs
        for name in row
        if not _is_equal(row[name], twin[name])
    ]
    unpriced = sorted(_model(model, keep) for model in one.unpriced_models)
    if unpriced != sorted(other.unpriced_models):
        found.append(f"unpriced {unpriced} and {other.unpriced_models}")
    return found


def _is_equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return one == other


def _rank(row: Row) -> list[str]:
    return [str(value) for value in row.values() if not isinstance(value, float)]


def _model(name: str, keep: NameFilter) -> str:
    return name if name == "unknown" else str(keep.model(name))


def _tool(name: str, keep: NameFilter) -> str:
    return name if name.endswith("__*") else keep.tool(name)


def _list(values: Sequence[str], keep: NameFilter) -> list[str]:
    return sorted(str(keep.path(value)) for value in values)


NAMES: dict[str, Callable[[Any, NameFilter], Any]] = {
    "session": lambda text, keep: keep.identifier(text),
    "id": lambda text, keep: keep.identifier(text),
    "model": _model,
    "branch": lambda text, keep: keep.branch(text),
    "project": lambda text, keep: keep.project(text),
    "name": _tool,
    "tool": _tool,
    "title": lambda text, keep: keep.text(text),
    "error": lambda text, keep: keep.text(text),
    "last_error": lambda text, keep: keep.text(text),
    "command": lambda text, keep: keep.command(text),
    "path": lambda text, keep: keep.path(text),
    "store": lambda text, keep: keep.path(text),
    "pull_requests": _list,
    "commits": _list,
}
"""How a push filters the columns of reports."""


def _filtered(row: Row, keep: NameFilter | None) -> Row:
    if keep is None:
        return {
            name: sorted(value) if isinstance(value, list) else value for name, value in row.items()
        }
    return {
        name: NAMES[name](value, keep) if name in NAMES and value is not None else value
        for name, value in row.items()
    }
