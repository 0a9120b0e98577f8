"""Table layouts of the reports: columns, their minimum terminal width, and bars."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from turnlog.cli.charts import DAYS
from turnlog.cli.output import plain
from turnlog.cli.tables import local_minute
from turnlog.index.reports.reports import CARRYING, Row
from turnlog.text import file_size, money, percent, short_count, short_duration, short_id


@dataclass(frozen=True)
class ReportColumn:
    """A column of a report."""

    head: str
    show: Callable[[Row], str]
    from_width: int = 0
    """Minimum terminal width to show it."""
    is_number: bool = True
    is_path: bool = False
    is_whole: bool = False
    """True for dates and ids, which are never cut."""


DETAILS = (
    *("-lines", "+lines", "time", "calls", "write", "input", "read"),
    *("└ agents", "sess", "output", "tokens", "turns"),
)
"""Columns of most reports, the least important first."""


@dataclass(frozen=True)
class ReportLayout:
    columns: tuple[ReportColumn, ...]
    expendable: tuple[str, ...] = DETAILS
    """Heads of columns to omit in narrow terminals, in this order."""
    bar: str | None = None
    """The figure that bars are drawn for."""
    is_timeline: bool = False
    """True if a limit keeps the last rows instead of the first."""

    def rank_of(self, head: str) -> int:
        """Return how expendable a column is; 0 is never omitted."""
        rest = self.expendable[::-1]
        return rest.index(head) + 1 if head in rest else 0


def layout_of(name: str, by: tuple[str, ...] = ()) -> ReportLayout:
    """Return the layout of a report, with a column for each additional dimension in `by`."""
    if name == CARRYING:
        return _carrying_layout(by or ("tool",))
    layout = LAYOUTS[name if name != "hour" else "daily"]
    first, *rest = layout.columns
    if name == "hour":
        day = _whole("weekday", lambda row: DAYS[int(number(row, "weekday") or 0)])
        heads = [day, ReportColumn("hour", lambda row: f"{number(row, 'hour') or 0:.0f}")]
        layout = replace(layout, bar=None)
    else:
        heads = [first]
    known = {column.head for column in layout.columns}
    extra = [_dimension(each) for each in by]
    added = [column for column in extra if column.head not in known]
    return replace(layout, columns=(*heads, *added, *rest)) if by else LAYOUTS[name]


def _dimension(name: str) -> ReportColumn:
    """Return the column of an additional dimension to group by."""
    if name == MODEL.head:
        return MODEL
    return _path(name, name) if name in PATHS else _text(name, name)


def _carrying_layout(by: tuple[str, ...]) -> ReportLayout:
    heads = [HEADS_OF_CARRYING[each] for each in by]
    if "session" in by:
        heads += [
            _text("title", "title"),
            *([] if "project" in by else [_path("project", "project")]),
        ]
    else:
        heads.append(SESSIONS)
    return ReportLayout(
        (
            *heads,
            _count("items", "items"),
            ReportColumn("size", lambda row: file_size(number(row, "bytes") or 0)),
            _count("sent", "sent"),
            _dollars("carried", "carried_usd"),
            _dollars("output", "output_usd"),
            COST,
        ),
        ("sess", "items", "title", "output", "carried", "size", "project", "sent"),
        bar="cost_usd",
    )


def number(row: Row, name: str) -> float | None:
    """Return a field of a row if it is a number, else None."""
    value = row.get(name)
    return value if isinstance(value, int | float) else None


def text(row: Row, name: str) -> str:
    """Return a field of a row as text, masked and on one line."""
    return plain(str(row.get(name) or ""))


def _text(head: str, name: str, from_width: int = 0) -> ReportColumn:
    return ReportColumn(head, lambda row: text(row, name), from_width, is_number=False)


def _path(head: str, name: str, from_width: int = 0) -> ReportColumn:
    return ReportColumn(
        head, lambda row: text(row, name), from_width, is_number=False, is_path=True
    )


def _count(head: str, name: str, from_width: int = 0) -> ReportColumn:
    return ReportColumn(head, lambda row: short_count(number(row, name)), from_width)


def _span(head: str, name: str, from_width: int = 0) -> ReportColumn:
    return ReportColumn(head, lambda row: short_duration(number(row, name)), from_width)


def _share(head: str, name: str, from_width: int = 0) -> ReportColumn:
    return ReportColumn(head, lambda row: percent(number(row, name)), from_width)


def _when(head: str, name: str, from_width: int = 0) -> ReportColumn:
    return _whole(head, lambda row: local_minute(text(row, name)), from_width)


def _whole(head: str, show: Callable[[Row], str], from_width: int = 0) -> ReportColumn:
    return ReportColumn(head, show, from_width, is_number=False, is_whole=True)


def _dollars(head: str, name: str, from_width: int = 0) -> ReportColumn:
    return ReportColumn(head, lambda row: _money(row, name), from_width)


def _money(row: Row, name: str) -> str:
    return money(number(row, name)) if name in row else ""


def _written(row: Row) -> str:
    return short_count((number(row, "cache_write_5m") or 0) + (number(row, "cache_write_1h") or 0))


def _model(row: Row) -> str:
    # The total has no model.
    name = text(row, "model").removeprefix("claude-")
    return name or "(none)" if "model" in row else ""


def _pulls(row: Row) -> str:
    urls = row.get("pull_requests")
    return " ".join(f"#{url.rpartition('/')[2]}" for url in urls) if isinstance(urls, list) else ""


def _commits(row: Row) -> str:
    hashes = row.get("commits")
    return str(len(hashes) or "") if isinstance(hashes, list) else ""


MODEL = ReportColumn("model", _model, is_number=False)
COST = ReportColumn("cost", lambda row: _money(row, "cost_usd") + str(row.get("marks") or ""))
AGENTS = _dollars("└ agents", "agent_cost_usd")
WRITTEN = ReportColumn("write", _written)
KINDS = (
    _count("input", "input"),
    _count("output", "output"),
    WRITTEN,
    _count("read", "cache_read"),
)
LINES = (_count("+lines", "added", 118), _count("-lines", "removed", 118))
ELAPSED = _span("elapsed", "elapsed_seconds", 126)
SESSIONS, TURNS = _count("sess", "sessions"), _count("turns", "turns")
PATHS = ("store", "project")
"""Dimensions that are paths, which are cut at the start instead of the end."""
HEADS_OF_CARRYING = {
    "store": _path("store", "store"),
    "project": _path("project", "project"),
    "session": _whole("session", lambda row: short_id(text(row, "session"))),
    "tool": _text("tool", "tool"),
    "file": ReportColumn(
        "file", lambda row: text(row, "file") or "no file", is_number=False, is_path=True
    ),
}


def _period(name: str) -> ReportLayout:
    counts = (SESSIONS, TURNS, _count("calls", "calls", 96))
    rest = (COST, AGENTS, _span("time", "seconds", 104), ELAPSED, *LINES)
    step = _whole(name, lambda row: text(row, name))
    return ReportLayout((step, *counts, *KINDS, *rest), bar="cost_usd", is_timeline=True)


def _place(name: str) -> ReportLayout:
    counts = (SESSIONS, TURNS, _count("calls", "calls", 96), _count("tokens", "tokens"))
    columns = (_path(name, name), *counts, COST, AGENTS, _span("time", "seconds"), *LINES)
    return ReportLayout(columns, bar="cost_usd")


LAYOUTS = {
    "daily": _period("day"),
    "weekly": _period("week"),
    "monthly": _period("month"),
    "session": ReportLayout(
        (
            _whole("session", lambda row: short_id(text(row, "session"))),
            _text("title", "title"),
            _path("project", "project", 130),
            _when("ended", "ended", 100),
            TURNS,
            _count("calls", "calls", 110),
            _count("tokens", "tokens"),
            COST,
            AGENTS,
            _span("time", "seconds"),
            ELAPSED,
        ),
        ("project", "ended", "calls", "time", "└ agents", "tokens", "turns"),
    ),
    "project": _place("project"),
    "store": _place("store"),
    "model": ReportLayout(
        (
            MODEL,
            SESSIONS,
            TURNS,
            _count("calls", "calls", 96),
            *KINDS,
            COST,
            AGENTS,
            _span("time", "seconds", 104),
            *LINES,
        ),
        bar="cost_usd",
    ),
    "tool": ReportLayout(
        (
            _text("tool", "name"),
            _count("sess", "sessions"),
            _count("calls", "calls"),
            _count("└ agents", "agent_calls"),
            _count("errors", "errors"),
            _share("rate", "error_rate"),
            _count("rejected", "rejected", 110),
            _span("time", "seconds"),
            _span("each", "seconds_each"),
            *LINES,
        ),
        ("-lines", "+lines", "each", "sess", "└ agents", "time", "rate", "errors"),
        bar="calls",
    ),
    "file": ReportLayout(
        (
            _path("file", "path"),
            _count("sess", "sessions"),
            _count("changes", "changes"),
            _count("reads", "reads"),
            _count("+lines", "added"),
            _count("-lines", "removed"),
            _when("last", "last", 110),
        ),
        ("last", "sess", "reads", "-lines", "+lines"),
    ),
    "branch": ReportLayout(
        (
            _text("branch", "branch"),
            _path("project", "project"),
            SESSIONS,
            TURNS,
            _count("tokens", "tokens", 96),
            COST,
            _dollars("└ agents", "agent_cost_usd", 96),
            _span("time", "seconds", 104),
            *LINES,
            ReportColumn("commits", _commits),
            ReportColumn("pulls", _pulls, is_number=False),
        ),
        (*("-lines", "+lines", "time", "└ agents", "tokens", "sess"), "pulls", "commits", "turns"),
    ),
    "blocks": ReportLayout(
        (
            _when("started", "started"),
            _count("messages", "messages", 96),
            _count("tokens", "tokens"),
            _count("output", "output", 110),
            COST,
            AGENTS,
            _count("tokens/h", "tokens_per_hour"),
            ReportColumn("cost/h", lambda row: _money(row, "usd_per_hour").replace("?", "")),
        ),
        ("messages", "output", "tokens/h", "└ agents", "cost/h", "tokens"),
        bar="cost_usd",
        is_timeline=True,
    ),
    "errors": ReportLayout(
        (
            _text("tool", "tool"),
            _text("command", "command"),
            _count("calls", "calls"),
            _count("errors", "errors"),
            _share("rate", "error_rate"),
            _count("rejected", "rejected", 110),
            _when("last", "last", 120),
            _text("last error", "last_error"),
        ),
        ("last", "last error", "rate", "calls"),
    ),
    "latency": ReportLayout(
        (
            _text("tool", "name"),
            _count("calls", "calls"),
            _span("p25", "p25"),
            _span("median", "p50"),
            _span("p75", "p75"),
            _span("p95", "p95"),
            _span("p99", "p99"),
            _span("slowest", "slowest"),
            _span("time", "seconds"),
        ),
        ("p99", "p25", "p75", "calls", "time", "slowest"),
        bar="seconds",
    ),
    "rereads": ReportLayout(
        (
            _path("file", "path"),
            _count("sess", "sessions"),
            _count("reads", "reads"),
            _count("re-reads", "rereads"),
            _count("unchanged", "unchanged"),
            _when("last", "last", 110),
        ),
        ("last", "sess", "unchanged", "reads"),
    ),
    "cache": ReportLayout(
        (
            _whole("day", lambda row: text(row, "day")),
            _count("messages", "messages", 96),
            _count("input", "input"),
            WRITTEN,
            _count("read", "cache_read"),
            _share("hits", "hit_rate"),
            _count("misses", "misses"),
            _count("missed", "missed_tokens"),
        ),
        ("messages", "missed", "input", "write", "read"),
        bar="cache_read",
        is_timeline=True,
    ),
}
