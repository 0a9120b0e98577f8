"""Group work by day, project, model and other dimensions: one SQL body for all such reports."""

from pathlib import Path
from typing import NamedTuple

from turnlog.errors import UsageError

BODY = "work.sql"
LOCAL = "w.quarter * 900, 'unixepoch', 'localtime'"
"""The start of a quarter of an hour, in the local time zone."""
SESSION = "coalesce(f.session, f.path)"
"""A sub-agent counts as part of its session; a file without one stands for itself."""
SESSIONS = f"count(DISTINCT iif(w.messages, {SESSION}, NULL)) AS sessions"
TIME = "strftime('%Y-%m-%dT%H:%M:%SZ', {}, 'unixepoch')"

DIMENSIONS = {
    "day": f"date({LOCAL})",
    "week": f"date({LOCAL}, 'weekday 0', '-6 days')",  # named by its Monday
    "month": f"strftime('%Y-%m', {LOCAL})",
    "weekday": f"(strftime('%w', {LOCAL}) + 6) % 7",  # 0 is Monday
    "hour": f"CAST(strftime('%H', {LOCAL}) AS INTEGER)",
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
            "(SELECT group_concat(l.url, ' ') FROM linked l"
            " WHERE l.project IS f.project AND l.branch IS w.branch) AS pull_requests",
            "(SELECT group_concat(m.hash, ' ') FROM made m"
            " WHERE m.project IS f.project AND m.branch IS w.branch) AS commits",
            SESSIONS,
        ),
        "branch_tables.sql",
    ),
    "session": Grouping(
        ("session",),
        (
            "max(iif(f.is_subagent, NULL, f.title)) AS title",
            "coalesce(max(iif(f.is_subagent, NULL, f.project)), max(f.project)) AS project",
            f"{TIME.format('min(f.started)')} AS started",
            f"{TIME.format('max(f.ended)')} AS ended",
        ),
    ),
}


def work_query(name: str, by: tuple[str, ...] = ()) -> str:
    """Return the SQL of a report, grouped by further dimensions on request."""
    grouping = GROUPINGS[name]
    unknown = [each for each in by if each not in DIMENSIONS]
    if unknown:
        raise UsageError(
            f"cannot group by {unknown[0]}: choose from {', '.join(DIMENSIONS)}",
            f"turnlog stats {name} --by project,model",
        )
    taken = {column.rpartition(" AS ")[2] for column in grouping.columns}
    dimensions = tuple(dict.fromkeys((*grouping.dimensions, *by)))
    keys = [f"{DIMENSIONS[each]} AS {each}" for each in dimensions if each not in taken]
    return _filled(
        tables=_read(grouping.tables) if grouping.tables else "",
        keys=",\n    ".join([*keys, *grouping.columns]),
        # Expressions, not names: `project` is also a column of the tables.
        group=", ".join(DIMENSIONS[each] for each in dimensions),
        order=_order(dimensions),
    )


def _order(dimensions: tuple[str, ...]) -> str:
    """Return the order of rows: times as they pass, everything else the most expensive first."""
    times = [DIMENSIONS[each] for each in dimensions if each in TIMES]
    others = [DIMENSIONS[each] for each in dimensions if each not in TIMES]
    return ", ".join([*times, *(("cost_usd DESC", "tokens DESC") if others else ()), *others])


def _filled(**parts: str) -> str:
    text = _read(BODY)
    for name, part in parts.items():
        text = text.replace("{{" + name + "}}", part)
    return text


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")
