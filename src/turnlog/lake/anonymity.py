"""Reports whose every figure covers at least k people, even if two reports are compared.

All such reports add up the same cells. A cell is a team, UTC month, project and model, or several
of them that were merged because too few people had worked there; other small groups are left out.
Whatever two reports differ by is therefore a sum of whole cells, each with k people or more. Times
are not local and filters select whole cells, because `--until` or another time zone could otherwise
cut a cell in two. The cells of a larger k are unions of those of a smaller one.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from turnlog.errors import UsageError
from turnlog.index.reports.reports import (
    LISTS,
    Filters,
    Report,
    ReportRequest,
    Row,
    compute_report,
    total_of,
)
from turnlog.lake.lake_tables import LakeTables

ANONYMOUS_REPORTS = ("monthly", "project", "model")
CELL = ("team", "month", "project", "model")
"""Dimensions of a cell, in the order in which small groups are merged."""
OTHER = "other"
"""The name of merged groups."""
LARGEST_K = 1000
NOT_ADDED = frozenset({*CELL, *LISTS, "sessions"})
"""Columns that cannot be added up; `sessions` is one, as a session may be in several cells."""
# Sessions without a user count as one person: the containers of one CI account appear as many
# machines.
PEOPLE = """
SELECT DISTINCT coalesce(f.user_name, '') AS person, {team}, q.month, f.project, w.model
FROM work w JOIN files f ON f.id = w.file LEFT JOIN quarters q ON q.quarter = w.quarter
"""

Labels = tuple[str | None, ...]


class Cell(NamedTuple):
    """Groups that are reported together."""

    labels: Labels
    people: frozenset[str]
    members: tuple[Labels, ...]
    """The labels of the groups that were merged into this cell."""


def anonymous_report(
    tables: LakeTables, request: ReportRequest, k: int, dimensions: dict[str, str]
) -> Report:
    """Compute a report of cells with at least k people; `tables` has months in UTC."""
    wanted = _dimensions(request, k)
    _, found = tables.run(PEOPLE.format(team=dimensions["team"]), {})
    cells = build_cells(found, k)
    labels = {member: cell.labels for cell in cells for member in cell.members}
    everything = compute_report(
        tables.run, ReportRequest("monthly", by=CELL), dimensions=dimensions
    )
    rows: dict[Labels, Row] = {}
    figures = [name for name in everything.columns if name not in NOT_ADDED]
    for row in everything.rows:
        cell = labels.get(tuple(row[name] for name in CELL))  # type: ignore[arg-type]
        if cell is None or not _is_selected(cell, request.filters):
            continue
        key = tuple(cell[CELL.index(name)] for name in wanted)
        known = rows.setdefault(key, dict(zip(wanted, key, strict=True)))
        for name in figures:
            known[name] = _sum(known.get(name), row[name])
    columns = [*wanted, *figures]
    ordered = sorted(rows.values(), key=_order(wanted))
    unpriced = {_name(key[-1]) for key in _unpriced(everything.rows, labels)}
    return Report(request.name, columns, ordered, total_of(columns, ordered), sorted(unpriced))


def build_cells(people: Iterable[Sequence[Any]], k: int) -> list[Cell]:
    """Return cells with at least k people each, from rows of a person and the labels of a group."""
    groups: dict[Labels, set[str]] = {}
    for person, *labels in people:
        groups.setdefault(tuple(labels), set()).add(person)
    cells = [Cell(each, frozenset(found), (each,)) for each, found in groups.items()]
    # Step by step, so that the cells of k are unions of those of k - 1: otherwise a report with
    # --k 5 and one with --k 6 could differ by part of a cell.
    for least in range(2, k + 1):
        cells = _split(cells, least, ())
    return cells


def _split(cells: list[Cell], least: int, labels: Labels) -> list[Cell]:
    """Divide cells by the next dimension, merging groups with too few people."""
    people = frozenset[str]().union(*(cell.people for cell in cells))
    if len(people) < least:
        return []
    if len(labels) == len(CELL):
        return [Cell(labels, people, tuple(each for cell in cells for each in cell.members))]
    groups: dict[str | None, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.labels[len(labels)], []).append(cell)
    kept: list[Cell] = []
    # What a smaller k merged stays merged, or the cells of this k would not be unions of its cells.
    small: list[Cell] = list(groups.pop(OTHER, []))
    for label, group in groups.items():
        if len(frozenset[str]().union(*(cell.people for cell in group))) < least:
            small += group
        else:
            kept += _split(group, least, (*labels, label))
    return [*kept, *(_split(small, least, (*labels, OTHER)) if small else [])]


def _dimensions(request: ReportRequest, k: int) -> tuple[str, ...]:
    if not 2 <= k <= LARGEST_K:
        raise UsageError(f"--k {k} is not between 2 and {LARGEST_K}", "turnlog stats --k 5")
    if request.name not in ANONYMOUS_REPORTS:
        known = ", ".join(ANONYMOUS_REPORTS)
        raise UsageError(
            f"{request.name} would show what single people did: with --k, choose from {known}",
            "turnlog stats monthly --lake DEST --k 5",
        )
    for name in request.by:
        if name not in CELL:
            known = ", ".join(CELL)
            hint = f"turnlog stats {request.name} --lake DEST --k {k} --by project"
            raise UsageError(f"cannot group by {name} with --k: choose from {known}", hint)
    first = "month" if request.name == "monthly" else request.name
    return tuple(dict.fromkeys((first, *request.by)))


def _is_selected(cell: Labels, filters: Filters) -> bool:
    _, month, project, model = cell
    for part, label in ((filters.project, project), (filters.model, model)):
        if part is not None and part.lower() not in (label or "").lower():
            return False
    if filters.since is None and filters.until is None:
        return True
    # Merged months have no time of their own, so they are in no period.
    if month is None or month == OTHER:
        return False
    # A month is selected as a whole, if its middle is in the period.
    middle = datetime.strptime(f"{month}-15", "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    is_late = filters.since is None or middle >= filters.since
    return is_late and (filters.until is None or middle < filters.until)


def _sum(known: Any, value: Any) -> Any:
    return known if value is None else value if known is None else known + value


def _order(wanted: tuple[str, ...]) -> Callable[[Row], Any]:
    """Return the order of rows: months chronologically, all else the most expensive first."""

    def rank(row: Row) -> Any:
        month = str(row.get("month") or "") if "month" in wanted else ""
        cost, tokens = row["cost_usd"], row["tokens"]
        names = [_name(row[name]) for name in wanted]
        return month, -float(str(cost or 0)), -int(str(tokens or 0)), names

    return rank


def _unpriced(rows: Iterable[Row], labels: dict[Labels, Labels]) -> Iterable[Labels]:
    for row in rows:
        cell = labels.get(tuple(row[name] for name in CELL))  # type: ignore[arg-type]
        if cell and row["unpriced"]:
            yield cell


def _name(value: Any) -> str:
    return "unknown" if value is None else str(value)
