"""Parse the parameters of a URL into filters; raise `UsageError` for an invalid value."""

from collections.abc import Mapping
from typing import NamedTuple

from turnlog.errors import UsageError
from turnlog.format.timestamps import parse_since, parse_until
from turnlog.index.reports.session_list import HEALTHS, ListFilters
from turnlog.web.library import Library

LONGEST = 1000
"""Maximum characters of a parameter."""
STATES = ("live",)
WEEKDAYS = tuple(map(str, range(7)))
"""0 is Monday."""
HOURS = tuple(map(str, range(24)))


class PageRequest(NamedTuple):
    """The parameters of a request for a page or an API call."""

    library: Library
    query: Mapping[str, str]
    path: Mapping[str, str]
    """Parts of the path: `key`, `line`, `id`."""

    def text(self, name: str) -> str | None:
        """Return a parameter; None if it is absent or empty."""
        value = self.key(name)
        return value.strip() or None if value else None

    def key(self, name: str) -> str | None:
        """Return a parameter without stripping it: the key of a session may end in a newline."""
        value = self.query.get(name, "")
        if len(value) > LONGEST:
            raise UsageError(f"{name} is longer than {LONGEST} characters")
        return value or None

    def number(self, name: str, default: int, most: int) -> int:
        """Return a parameter as a whole number, at most `most`; `default` if it is missing."""
        value = self.text(name)
        if value is None:
            return default
        # isdecimal alone accepts digits of other scripts.
        if not (value.isascii() and value.isdecimal()):
            raise UsageError(f"{name} is not a whole number: {value[:20]!r}")
        return min(int(value[:18]), most)

    def line(self) -> int:
        """Return the line number in the path."""
        value = self.path["line"]
        if not (value.isascii() and value.isdecimal()):
            raise UsageError(f"not a line number: {value[:20]!r}")
        return int(value[:18])


def list_filters(request: PageRequest) -> ListFilters:
    """Return the filters of the session list."""
    since, until = request.text("since"), request.text("until")
    ids = None
    if _choice(request, "state", STATES):
        ids = tuple(sorted({id_ for _, id_ in request.library.live_sessions()}))
    return ListFilters(
        project=request.text("project"),
        branch=request.text("branch"),
        model=request.text("model"),
        since=parse_since(since).timestamp() if since else None,
        until=parse_until(until).timestamp() if until else None,
        tool=request.text("tool"),
        tag=request.text("tag"),
        file=request.text("file"),
        min_cost=_dollars(request, "min_cost"),
        max_cost=_dollars(request, "max_cost"),
        health=_choice(request, "health", HEALTHS),
        hours=_hours(request),
        ids=ids,
    )


def _hours(request: PageRequest) -> tuple[int, ...] | None:
    """Return the hours of the week that a weekday and an hour select; None for all."""
    weekday, hour = _choice(request, "weekday", WEEKDAYS), _choice(request, "hour", HOURS)
    if weekday is None and hour is None:
        return None
    days = range(7) if weekday is None else (int(weekday),)
    return tuple(
        day * 24 + each for day in days for each in (range(24) if hour is None else (int(hour),))
    )


def _choice(request: PageRequest, name: str, choices: tuple[str, ...]) -> str | None:
    value = request.text(name)
    if value is not None and value not in choices:
        raise UsageError(f"{name} is one of {', '.join(choices)}, not {value[:20]!r}")
    return value


def _dollars(request: PageRequest, name: str) -> float | None:
    value = request.text(name)
    if value is None:
        return None
    try:
        amount = float(value.removeprefix("$"))
    except ValueError:
        amount = -1.0
    if not 0 <= amount < 1e12:  # excludes nan and inf
        raise UsageError(f"{name} is not an amount of dollars: {value[:20]!r}")
    return amount
