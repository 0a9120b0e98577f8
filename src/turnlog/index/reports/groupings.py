"""Group work by day, project, model and other dimensions: one SQL body for all such reports."""

from collections.abc import Mapping
from typing import NamedTuple

from turnlog.errors import UsageError
from turnlog.index.reports.dialects import read_sql

BODY = "work"
# Sums of floating-point numbers depend on their order; equal costs must remain equal.
COST_ORDER = "round(cost_usd, 9) DESC"
SESSION = "coalesce(f.session, f.path)"
"""A sub-agent counts as part of its session; a file without a session counts as its own."""
SESSIONS = f"count(DISTINCT CASE WHEN w.messages > 0 THEN {SESSION} END) AS sessions"

DIMENSIONS = {
    "day": "{{day(w)}}",
    "week": "{{week(w)}}",
    "month": "{{month(w)}}",
    "weekday": "{{weekday(w)}}",
    "hour": "{{hour(w)}}",
    "store": "f.store",
    "project": "f.project",
    "branch": "w.branch",
    "model": "w.model",
    "session": SESSION,
}
"""SQL of each dimension; a turn belongs to the model that answered first in it."""
TIMES = frozenset({"day", "week", "month", "weekday", "hour"})


class Grouping(NamedTuple):
    """The dimensions of a report, and the columns that it has besides the sums."""

    dimensions: tuple[str, ...]
    columns: tuple[str, ...] = (SESSIONS,)
    tables: str = ""
    """A file with common table expressions that the columns use."""
    joins: str = ""
    """The condition that joins these tables."""


GROUPINGS = {
    "daily": Grouping(("day",)),
    "weekly": Grouping(("week",)),
    "monthly": Grouping(("month",)),
    "hour": Grouping(("weekday", "hour")),
    "project": Grouping(("project",)),
    "store": Grouping(("store",)),
    "model": Grouping(("model",)),
    "branch": Grouping(
        ("project", "branch"),
        (
            "max(l.urls) AS pull_requests",
            "max(m.hashes) AS commits",
            SESSIONS,
        ),
        "branch_tables",
        " LEFT JOIN linked l"
        " ON {{same(l.project, f.project)}} AND {{same(l.branch, w.branch)}}"
        " LEFT JOIN made m"
        " ON {{same(m.project, f.project)}} AND {{same(m.branch, w.branch)}}",
    ),
    "session": Grouping(
        ("session",),
        (
            "max(CASE WHEN f.is_subagent = 0 THEN f.title END) AS title",
            "coalesce(max(CASE WHEN f.is_subagent = 0 THEN f.project END), max(f.project))"
            " AS project",
            "{{iso_time(min(f.started))}} AS started",
            "{{iso_time(max(f.ended))}} AS ended",
        ),
    ),
}


def work_query(name: str, by: tuple[str, ...] = (), known: Mapping[str, str] = DIMENSIONS) -> str:
    """Return the SQL of a report, grouped by further dimensions on request."""
    grouping = GROUPINGS[name]
    unknown = [each for each in by if each not in known]
    if unknown:
        raise UsageError(
            f"cannot group by {unknown[0]}: choose from {', '.join(known)}",
            f"turnlog stats {name} --by project,model",
        )
    taken = {column.rpartition(" AS ")[2] for column in grouping.columns}
    dimensions = {each: known[each] for each in (*grouping.dimensions, *by)}
    keys = [f"{sql} AS {each}" for each, sql in dimensions.items() if each not in taken]
    return _filled(
        tables="{{" + grouping.tables + "}} " if grouping.tables else "",
        joins=grouping.joins,
        keys=",\n    ".join([*keys, *grouping.columns]),
        # Expressions, not names: `project` is also a column of the tables.
        group=", ".join(dimensions.values()),
        order=_order(dimensions),
    )


def _order(dimensions: Mapping[str, str]) -> str:
    """Return the order of rows: times chronologically, everything else the most expensive first."""
    times = [sql for each, sql in dimensions.items() if each in TIMES]
    others = [sql for each, sql in dimensions.items() if each not in TIMES]
    return ", ".join([*times, *((COST_ORDER, "tokens DESC") if others else ()), *others])


def _filled(**parts: str) -> str:
    text = read_sql(BODY)
    for name, part in parts.items():
        text = text.replace("{{" + name + "}}", part)
    return text
