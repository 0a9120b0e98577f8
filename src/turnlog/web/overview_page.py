"""The overview: figures of today, this week and this month, maps, and what needs attention."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from turnlog.format.regular_files import skipping
from turnlog.format.timestamps import age
from turnlog.index.reports.reports import (
    Filters,
    Report,
    ReportRequest,
    Row,
    footnotes_of,
    marks_of,
)
from turnlog.index.reports.session_list import ListedSession
from turnlog.index.service import recent_sessions
from turnlog.index.sync_policy import synced_index
from turnlog.render.charts.heat_maps import calendar
from turnlog.render.charts.lines import sparkline
from turnlog.render.charts.report_charts import ReportChart, formatter, report_chart
from turnlog.render.charts.svg import ChartOptions, Value
from turnlog.secrets import mask
from turnlog.session_health import expiring, unresumable
from turnlog.store.catalog import SessionFile, live_sessions, locate_session
from turnlog.store.paths import Store
from turnlog.store.stores import Stores, store_argument
from turnlog.text import exact_money, money, plural, short_count
from turnlog.web.library import session_key
from turnlog.web.report_data import (
    PageLinks,
    Params,
    address,
    choice,
    reports_of,
    session_link,
    stats_command,
)

FIGURES = ("cost_usd", "tokens", "turns", "sessions")
NAMES = {"cost_usd": "Cost", "tokens": "Tokens", "turns": "Turns", "sessions": "Sessions"}
RECENT = 12
CHECKED = 4 << 20
"""Maximum bytes of sessions to check while a page waits; `turnlog check` checks all of them."""
YEAR = timedelta(weeks=53)
SHOWN_EXPIRING = 5


class _Periods(NamedTuple):
    """The starts of the periods, in local time."""

    today: datetime
    week: datetime
    month: datetime
    year: datetime


def overview_page(stores: Sequence[Store], params: Params) -> dict[str, Any]:
    """Return the values of the overview."""
    figure = choice(params, "figure", FIGURES)
    starts = _starts(datetime.now().astimezone())
    since = [Filters(since=each.timestamp()) for each in starts]
    today, week, month, year, now, hours = reports_of(
        stores,
        [
            *(ReportRequest("daily", each) for each in since),
            ReportRequest("hour", since[0]),
            ReportRequest("hour", since[3]),
        ],
    )
    links = PageLinks("/", params)
    recent = recent_sessions(stores, RECENT)
    return {
        "figure": figure,
        "figures": [(NAMES[each], links.to(figure=each), each == figure) for each in FIGURES],
        "periods": [
            _period("Today", today, _by_hour(now, figure), starts.today, figure),
            _period("This week", week, _by_day(week, starts.week, figure), starts.week, figure),
            _period(
                "This month", month, _by_day(month, starts.month, figure), starts.month, figure
            ),
        ],
        # The week may begin before the month does.
        "footnotes": footnotes_of(month) or footnotes_of(week),
        "session_footnotes": _footnotes(year, recent),
        "calendar": _calendar(year, figure),
        "week_map": _week_map(hours, figure),
        "commands": {
            "calendar": stats_command("daily", {"since": f"{starts.year:%Y-%m-%d}"}),
            "week": stats_command("hour", {"since": f"{starts.year:%Y-%m-%d}"}, "--order", figure),
        },
        "sessions": _recent(stores, recent),
        "attention": [*_broken(stores, recent), *_expiring(stores)],
    }


def _starts(now: datetime) -> _Periods:
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    monday = midnight - timedelta(days=midnight.weekday())
    return _Periods(midnight, monday, midnight.replace(day=1), monday - YEAR + timedelta(weeks=1))


def _period(
    name: str, report: Report, line: list[tuple[str, Value]], start: datetime, figure: str
) -> dict[str, Any]:
    total = report.total
    since = f"{start:%Y-%m-%d}"
    title = f"{NAMES[figure]}, {name.lower()}"
    return {
        "name": name,
        "cost": f"{money(_number(total, 'cost_usd'))}{marks_of(total)}",
        "tokens": short_count(_number(total, "tokens") or 0),
        "turns": f"{_number(total, 'turns') or 0:,.0f}",
        "sessions": f"{_number(total, 'sessions') or 0:,.0f}",
        "link": address("/sessions", since=since),
        "cost_link": address("/cost", since=since),
        "command": stats_command("daily", {"since": since}),
        "spark": sparkline(line, ChartOptions(title, show=formatter(figure))),
    }


def _number(row: Row, name: str) -> float | None:
    value = row.get(name)
    return value if isinstance(value, int | float) else None


def _by_hour(report: Report, figure: str) -> list[tuple[str, Value]]:
    values = {row["hour"]: _number(row, figure) for row in report.rows}
    return [(f"{hour:02d}:00", values.get(hour, 0)) for hour in range(24)]


def _by_day(report: Report, start: datetime, figure: str) -> list[tuple[str, Value]]:
    values = _days(report, figure)
    # Always draw a whole week: on a Monday, a single bar would fill the chart.
    days = max(7, (date.today() - start.date()).days + 1)
    names = [(start.date() + timedelta(days=n)).isoformat() for n in range(days)]
    return [(name, values.get(name, 0)) for name in names]


def _days(report: Report, figure: str) -> dict[str, Value]:
    return {str(row["day"]): _number(row, figure) for row in report.rows if row["day"]}


def _calendar(report: Report, figure: str) -> str:
    days = _days(report, figure)

    def link(day: str) -> str | None:
        # An empty day has no link, because its list would be empty.
        return address("/sessions", since=day, until=day) if days.get(day) else None

    title = f"{NAMES[figure]} by day, the last 53 weeks"
    return calendar(days, date.today(), ChartOptions(title, show=formatter(figure), link=link))


def _week_map(report: Report, figure: str) -> str:
    used = {f"{row['weekday']} {row['hour']}" for row in report.rows if row.get(figure)}

    def link(key: str) -> str | None:
        weekday, hour = key.split()
        return address("/sessions", weekday=weekday, hour=hour) if key in used else None

    title = f"{NAMES[figure]} by weekday and hour, the last 53 weeks"
    options = ChartOptions(title, show=formatter(figure), link=link)
    return report_chart(ReportChart("hour", report.rows, (), figure, options))


def _footnotes(report: Report, recent: Sequence[ListedSession]) -> list[str]:
    """Return the footnotes that explain the marks of the listed costs."""
    marks = {mark for session in recent for mark in session.marks}
    return [note for note in footnotes_of(report) if note[0] in marks]


def _recent(stores: Stores, recent: Sequence[ListedSession]) -> list[dict[str, Any]]:
    live = {(str(store.root), id_) for store in stores for id_ in live_sessions(store)}
    found = sorted(recent, key=lambda each: (_is_live(each, live), each.last_active), reverse=True)
    return [_session(stores, session, _is_live(session, live)) for session in found]


def _is_live(session: ListedSession, live: set[tuple[str, str]]) -> bool:
    return (session.store, session.id) in live


def _link(stores: Stores, path: Path, is_ambiguous: bool = False) -> str | None:
    """Return the address of a session, unambiguous even if several stores have its id."""
    return session_link(session_key(path, is_ambiguous or len(stores) > 1))


def _session(stores: Stores, session: ListedSession, is_live: bool) -> dict[str, Any]:
    return {
        "link": _link(stores, Path(session.path), session.is_ambiguous),
        "title": mask(session.title or "") or session.id,
        "project": mask(session.project or ""),
        "age": age(datetime.fromtimestamp(session.last_active, UTC)),
        "turns": session.turns,
        "cost": f"{exact_money(session.cost_usd)}{session.marks}",
        "is_live": is_live,
        "finding": session.finding,
    }


def _broken(stores: Stores, recent: Sequence[ListedSession]) -> list[Mapping[str, Any]]:
    """Return recent sessions that would not resume in full; check a few unchecked ones first."""
    found: list[Mapping[str, Any]] = []
    findings = {each.path: each.finding for each in recent if each.finding}
    findings |= _check(stores, [each.path for each in recent if not each.is_checked])
    for each in recent:
        if message := findings.get(each.path):
            title = mask(each.title or "") or each.id
            path = Path(each.path)
            command = f"turnlog check {quote(each.id[:8])}{store_argument(stores, path)}"
            link = _link(stores, path, each.is_ambiguous)
            found.append(_notice(link, title, message, command))
    return found


def _check(stores: Stores, paths: Sequence[str]) -> dict[str, str]:
    """Check sessions that were not checked yet; return the worst finding by path."""
    files: list[SessionFile] = []
    for path in paths:
        with skipping(path):
            files.append(locate_session(Path(path)))
    if not files:
        return {}
    with synced_index(stores) as index:
        return {str(each.path): message for each, message in unresumable(index, files, CHECKED)}


def _expiring(stores: Sequence[Store]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    sessions = expiring(stores)
    for session in sessions[:SHOWN_EXPIRING]:
        when = f"in {session.days:.0f} days" if session.days >= 1 else "at its next start"
        title = mask(session.title or "") or session.id
        message = f"the client deletes it {when}"
        command = f"turnlog archive{store_argument(stores, session.path)}"
        found.append(_notice(_link(stores, session.path), title, message, command))
    if len(sessions) > SHOWN_EXPIRING:
        rest = plural(len(sessions) - SHOWN_EXPIRING, "more session")
        flags = "".join(f" --store {quote(str(each.root))}" for each in stores)
        command = f"turnlog archive{flags if len(stores) > 1 else ''}"
        found.append(_notice(None, rest, "deleted within a week", command))
    return found


def _notice(link: str | None, title: str, message: str, command: str) -> Mapping[str, Any]:
    return {"link": link, "title": title, "message": message, "command": command}
