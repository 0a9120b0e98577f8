"""Parse one line into a text to search for and filters: `login project:shop cost:>1 since:3d`.

The picker and the web app's list of sessions share this grammar. Everything that is not a filter is
a query in the syntax of `turnlog search`. Any input is valid, because it is parsed on every
keystroke: a filter whose value makes no sense yet excludes nothing and is reported.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from turnlog.errors import UsageError
from turnlog.format.timestamps import parse_since, parse_until
from turnlog.index.reports.session_list import HEALTHS, ListFilters
from turnlog.index.search.selection import Selection

_FILTER = re.compile(r'(?<!\S)(?P<name>[a-z]+):(?P<value>"[^"]*"?|[^\s"]*)(?!\S)', re.IGNORECASE)
_QUOTED = re.compile(r'(?<!\S)-?"[^"]*"?\*?')
_COST = re.compile(r"(?P<sign>>=?|<=?|=)?\$?(?P<least>\d*\.?\d+)(?:\.\.\$?(?P<most>\d*\.?\d+))?")
_WORD_END = re.compile(r"[^\W_]\Z")
OPERATORS = ("AND", "OR", "NOT")
ANY_STATE = ("", "yes", "true", "any")
"""Values of `live:` that select every session that is open in a client."""


class SessionQuery(NamedTuple):
    """A parsed line."""

    text: str = ""
    """Words to search for; empty to list sessions."""
    filters: ListFilters = ListFilters()
    live: str | None = None
    """Part of a state such as `idle`; empty for any state, None without the filter."""
    problems: tuple[str, ...] = ()
    """Filters that were ignored, and why."""

    def with_live(self, states: Mapping[str, str]) -> ListFilters:
        """Return the filters with `live:` resolved to the ids of sessions in `states`."""
        if self.live is None:
            return self.filters
        words = self.live
        ids = (id_ for id_, state in states.items() if words in ANY_STATE or words in state.lower())
        return self.filters._replace(ids=tuple(sorted(ids)))


def parse_session_query(line: str) -> SessionQuery:
    """Parse a line; filters may be anywhere in it, except within quotes.

    >>> parsed = parse_session_query('login project:shop cost:>1 health:broken')
    >>> parsed.text, parsed.filters.project, parsed.filters.min_cost, parsed.filters.health
    ('login', 'shop', 1.0, 'broken')
    """
    quoted = [found.span() for found in _QUOTED.finditer(line)]
    chosen: dict[str, Any] = {}
    problems: list[str] = []
    kept, end = "", 0
    for found in _FILTER.finditer(line):
        name, value = found["name"].lower(), found["value"].strip('"').strip()
        # `"see project:shop"` is text to search for.
        is_quoted = any(start < found.start() < stop for start, stop in quoted)
        if name not in FILTERS or is_quoted:
            continue
        kept += line[end : found.start()]
        end = found.end()
        try:
            # A filter that is still being typed has no value yet, and must not hide every session.
            chosen |= FILTERS[name](value) if value or name == "live" else {}
        except (UsageError, ValueError) as error:
            problems.append(f"{name}: {error}")
    live = chosen.pop("live", None)
    text = " ".join((kept + line[end:]).split()) if end else line.strip()
    return SessionQuery(text, ListFilters(**chosen), live, tuple(problems))


def search_selection(filters: ListFilters, numbers: tuple[int, ...] = ()) -> Selection:
    """Return those filters of a list that also apply to texts.

    Unlike `selection_of`, this does not resolve names of directories and sessions: a URL must not
    make a server look at paths.
    """
    return Selection(
        project=filters.project,
        since=filters.since,
        until=filters.until,
        tool=filters.tool,
        model=filters.model,
        branch=filters.branch,
        file=filters.file,
        numbers=numbers,
    )


def session_filters(filters: ListFilters) -> ListFilters:
    """Return those filters of a list that apply to sessions as a whole, and not to texts."""
    return ListFilters(
        min_cost=filters.min_cost,
        max_cost=filters.max_cost,
        health=filters.health,
        tag=filters.tag,
        hours=filters.hours,
        ids=filters.ids,
        directories=filters.directories,
    )


def with_last_prefix(text: str) -> str:
    """Return a query whose last word, which is still being typed, matches as a prefix.

    >>> with_last_prefix("fix log"), with_last_prefix('"fix lo'), with_last_prefix("fix OR")
    ('fix log*', '"fix lo"*', 'fix OR')
    """
    if text.count('"') % 2:
        return f'{text}"*' if _WORD_END.search(text) else text
    last = text.split()[-1:]
    return f"{text}*" if _WORD_END.search(text) and last[0] not in OPERATORS else text


def _named(name: str) -> Callable[[str], dict[str, Any]]:
    return lambda value: {name: value}


def _cost(value: str) -> dict[str, float]:
    found = _COST.fullmatch(value)
    if not found:
        raise ValueError(f"{value!r} is not an amount such as >1 or 1..5")
    least, most, sign = float(found["least"]), found["most"], found["sign"] or ">"
    if most:
        return {"min_cost": least, "max_cost": float(most)}
    return {"max_cost": least} if sign.startswith("<") else {"min_cost": least}


def _health(value: str) -> dict[str, str]:
    found = next((each for each in HEALTHS if each.startswith(value.lower())), None)
    if found is None:
        raise ValueError(f"choose from {', '.join(HEALTHS)}")
    return {"health": found}


FILTERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "project": _named("project"),
    "branch": _named("branch"),
    "model": _named("model"),
    "since": lambda value: {"since": parse_since(value).timestamp()},
    "until": lambda value: {"until": parse_until(value).timestamp()},
    "tag": _named("tag"),
    "tool": _named("tool"),
    "file": _named("file"),
    "cost": _cost,
    "health": _health,
    "live": lambda value: {"live": value.lower()},
}
"""Parses the value of each filter into fields of `ListFilters`."""
