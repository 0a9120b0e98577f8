"""List sessions from the index: which ones match some filters, and the figures of a few of them.

Both are fast for 100,000 sessions: the first reads no figures unless a filter asks for them, the
second only those of the sessions on one page.
"""

import sqlite3
from collections.abc import Sequence
from json import dumps
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from turnlog.index.known_files import LAST
from turnlog.index.reports.reports import Row, marks_of
from turnlog.index.search.selection import TOUCHED

SHORTEST = 4
"""Minimum length of an id prefix that is looked up."""
HEALTHS = ("broken", "ok", "unchecked")
"""The result of the last check of a session's file, if known."""


MARK_NOTES = {
    "*": "excludes models without a known price",
    "†": "too low: too little output was recorded",
}
"""Explanations of the marks of a session's cost."""


class ListFilters(NamedTuple):
    """Filters on sessions, including their sub-agents; None matches everything."""

    project: str | None = None
    """A substring of the working directory."""
    branch: str | None = None
    """A git branch."""
    model: str | None = None
    """A substring of the name of a model that answered."""
    since: float | None = None
    """Seconds since 1970; sessions that were active then or later."""
    until: float | None = None
    tool: str | None = None
    tag: str | None = None
    file: str | None = None
    """A file that a call read or changed: its path, or the end of it."""
    min_cost: float | None = None
    """Dollars."""
    max_cost: float | None = None
    health: str | None = None
    """One of HEALTHS."""
    hours: tuple[int, ...] | None = None
    """Active in one of these hours of the week, in local time; 0 is Monday, midnight to one."""
    ids: tuple[str, ...] | None = None
    """Only these sessions."""
    directories: tuple[str, ...] | None = None
    """Only sessions of these working directories and of directories below them."""


class Matches(NamedTuple):
    """The sessions that match some filters, most recently active first."""

    generation: int
    """A number that changes with the figures of the index."""
    rows: list[tuple[float, int]]
    """Time of the last activity of each, and its number in the index."""


class ListedSession(Struct, frozen=True):
    """A session in a list, with the figures of its sub-agents included."""

    id: str
    path: str
    store: str
    """The directory of the store that it is in."""
    title: str | None
    project: str | None
    branch: str | None
    """The git branch of the last prompt."""
    models: list[str]
    turns: int
    calls: int
    errors: int
    tokens: int
    cost_usd: float | None
    """null if no message has a price."""
    marks: str
    """Footnote marks of the cost, as in reports: `*` for unknown prices, `†` for tokens."""
    subagents: int
    started: float | None
    """Seconds since 1970, like `last_active`."""
    last_active: float
    is_checked: bool
    """False if the file has changed since its last check."""
    finding: str | None
    """The finding that keeps it from resuming in full."""
    is_ambiguous: bool
    """True if another file has the same id."""
    modified: float = 0.0
    """When the file was last written; the client's clean-up goes by this time."""
    context_tokens: int | None = None
    """Tokens of the last request and its answer; None if they are unknown."""
    context_model: str | None = None
    """The model that the last request was sent to."""
    tag: str | None = None


class CallSummary(Struct, frozen=True):
    """The calls of a session and its sub-agents."""

    tools: dict[str, int]
    """Number of calls by tool, the most used first."""
    files: dict[str, int]
    """Number of calls by file that they read or changed, the most used first."""


class Facets(Struct, frozen=True):
    """Values that the filters of a list can take."""

    projects: list[str]
    branches: list[str]
    models: list[str]
    tools: list[str]
    tags: list[str]


def find_matches(db: sqlite3.Connection, filters: ListFilters, generation: int) -> Matches:
    """Return the sessions that match, most recently active first."""
    given = {name: value for name, value in filters._asdict().items() if value is not None}
    values: dict[str, Any] = {
        **given,
        "ids": dumps(filters.ids or ()),
        "hours": dumps(filters.hours or ()),
        "directories": dumps([each.rstrip("/") for each in filters.directories or ()]),
    }
    if filters.file:
        values["file"] = filters.file.replace("\\", "/").removeprefix("./")
    tests = " AND ".join(["NOT f.is_subagent AND NOT f.is_gone", *(TESTS[name] for name in given)])
    rows = db.execute(f"SELECT {ACTIVE}, f.id FROM files f WHERE {tests} ORDER BY 1 DESC", values)
    return Matches(generation, rows.fetchall())


def recent_numbers(db: sqlite3.Connection, limit: int) -> list[int]:
    """Return the numbers of the most recently active sessions."""
    are_present = "FROM files f WHERE NOT f.is_subagent AND NOT f.is_gone"
    rows = db.execute(f"SELECT f.id {are_present} ORDER BY {ACTIVE} DESC LIMIT ?", (limit,))
    return [id_ for (id_,) in rows]


def describe_listed(db: sqlite3.Connection, ids: Sequence[int]) -> dict[int, ListedSession]:
    """Return sessions with everything that a list shows, by their numbers."""
    rows = db.execute(SESSIONS, (dumps(list(ids)),)).fetchall()
    members = _members(db, [row[0] for row in rows])
    files = dumps([file for each in members.values() for file in each])
    figures = _Figures(db, files)
    return {row[0]: _listed(row, members[row[0]], figures) for row in rows}


def session_paths(db: sqlite3.Connection, id_: str) -> list[Path]:
    """Return the files of a session or sub-agent, most recently active first.

    A prefix of an id is enough if it is unique.
    """
    rows = db.execute(f"{PATHS} = ? ORDER BY {ACTIVE} DESC", (id_,)).fetchall()
    if not rows and len(id_) >= SHORTEST:
        rows = db.execute(f"{PATHS} BETWEEN ? AND ? LIMIT 2", (id_, id_ + LAST)).fetchall()
        rows = rows if len(rows) == 1 else []
    return [Path(path) for (path,) in rows]


def summarize_calls(db: sqlite3.Connection, path: Path) -> CallSummary:
    """Return the tools and files of a session's calls."""
    tools, files = (dict(db.execute(CALLS_BY.format(name), (str(path),))) for name in CALL_NAMES)
    return CallSummary(tools, files)


def list_facets(db: sqlite3.Connection) -> Facets:
    """Return the values that occur in the index, the most frequent first."""
    return Facets(*([value for (value,) in db.execute(each)] for each in FACETS))


def _members(db: sqlite3.Connection, ids: list[int]) -> dict[int, list[int]]:
    """Return the files of each session: its own and those of its sub-agents."""
    members = {each: [each] for each in ids}
    for session, file in db.execute(MEMBERS, (dumps(ids),)):
        members[session].append(file)
    return members


class _ModelUsage(NamedTuple):
    """Tokens and cost of a model in one file."""

    model: str | None
    tokens: int
    cost: float | None
    unpriced: int
    understated: int


class _Figures:
    """Figures of some files, deduped across files."""

    def __init__(self, db: sqlite3.Connection, files: str) -> None:
        self.turns: dict[int, int] = dict(db.execute(TURNS, (files,)))
        self.branches: dict[int, str | None] = {
            file: branch for file, branch, _ in db.execute(BRANCHES, (files,))
        }
        self.calls = {file: counts for file, *counts in db.execute(CALLS, (files,))}
        self.contexts = {
            file: (tokens, model) for file, tokens, model, _ in db.execute(CONTEXTS, (files,))
        }
        self.usage: dict[int, list[_ModelUsage]] = {}
        for file, *row in db.execute(USAGE, (files,)):
            self.usage.setdefault(file, []).append(_ModelUsage(*row))


def _listed(row: tuple[Any, ...], files: list[int], figures: _Figures) -> ListedSession:
    id_, opened_by, path, store, title, project, started, active, *state = row
    checked, finding, copies, written, tag = state
    context_tokens, context_model = figures.contexts.get(id_, (None, None))
    usage = [each for file in files for each in figures.usage.get(file, ())]
    calls = [figures.calls.get(file, (0, 0)) for file in files]
    priced = [each.cost for each in usage if each.cost is not None]
    lowered: Row = {
        "unpriced": sum(each.unpriced for each in usage),
        "understated": sum(each.understated for each in usage),
    }
    is_priced = priced or not lowered["unpriced"]
    return ListedSession(
        id=opened_by,
        path=path,
        store=store,
        title=title,
        project=project,
        branch=figures.branches.get(id_),
        models=list(dict.fromkeys(each.model for each in usage if each.model)),
        turns=sum(figures.turns.get(file, 0) for file in files),
        calls=sum(count for count, _ in calls),
        errors=sum(errors for _, errors in calls),
        tokens=sum(each.tokens for each in usage),
        cost_usd=sum(priced) if is_priced else None,
        marks=marks_of(lowered),
        subagents=len(files) - 1,
        started=started,
        last_active=active,
        is_checked=bool(checked),
        finding=finding,
        is_ambiguous=copies > 1,
        modified=written,
        context_tokens=context_tokens,
        context_model=context_model,
        tag=tag,
    )


ACTIVE = "coalesce(f.ended, f.mtime_ns / 1e9)"
# The same expression as in the index `sessions_by_end`: SQLite then need not sort.
OWNER = "coalesce({0}.session, {0}.path)"
MINE = OWNER.format("f")
CHECK = (
    "SELECT {} FROM checks c WHERE c.path = f.path AND c.inode = f.inode AND c.size = f.size"
    " AND c.mtime_ns = f.mtime_ns"
)
OF_CALLS = f"SELECT {OWNER.format('g')} FROM calls JOIN files g ON g.id = calls.file WHERE"
COSTS = (
    f"SELECT {OWNER.format('g')} FROM messages m JOIN files g ON g.id = m.file WHERE m.counts = 1"
    " GROUP BY 1 HAVING total(m.cost)"
)
_LOCAL = "m.quarter * 900, 'unixepoch', 'localtime'"
IN_HOURS = (
    f"SELECT {OWNER.format('g')} FROM {{}} m JOIN files g ON g.id = m.file WHERE m.counts = 1"
    f" AND (strftime('%w', {_LOCAL}) + 6) % 7 * 24 + strftime('%H', {_LOCAL})"
    " IN (SELECT value FROM json_each(:hours))"
)
TESTS = {
    "project": "instr(lower(coalesce(f.project, f.path)), lower(:project))",
    "branch": f"{MINE} IN (SELECT {OWNER.format('g')} FROM prompts p JOIN files g ON g.id = p.file"
    " WHERE p.branch = :branch)",
    "model": f"{MINE} IN (SELECT {OWNER.format('g')} FROM messages m JOIN files g ON g.id = m.file"
    " WHERE instr(lower(m.model), lower(:model)))",
    "since": f"{ACTIVE} >= :since",
    "until": f"coalesce(f.started, {ACTIVE}) < :until",
    "tag": "lower(f.tag) = lower(:tag)",
    "tool": f"{MINE} IN ({OF_CALLS} lower(calls.tool) = lower(:tool))",
    "file": f"{MINE} IN ({OF_CALLS} {TOUCHED.replace('path', 'calls.path')})",
    "min_cost": f"{MINE} IN ({COSTS} >= :min_cost)",
    "max_cost": f"{MINE} NOT IN ({COSTS} > :max_cost)",
    "health": f"CASE :health WHEN 'broken' THEN ({CHECK.format('c.message IS NOT NULL')})"
    f" WHEN 'ok' THEN ({CHECK.format('c.message IS NULL')})"
    f" ELSE NOT EXISTS ({CHECK.format('1')}) END",
    "hours": f"{MINE} IN ({IN_HOURS.format('messages')} UNION {IN_HOURS.format('prompts')})",
    "ids": "f.opened_by IN (SELECT value FROM json_each(:ids))",
    "directories": "EXISTS (SELECT 1 FROM json_each(:directories) d WHERE f.project = d.value"
    " OR substr(f.project, 1, length(d.value) + 1) = d.value || '/')",
}
"""Conditions on a row `f` of `files`, by the filter that sets them."""
PATHS = "SELECT path FROM files f WHERE NOT is_gone AND opened_by"
SESSIONS = f"""
SELECT f.id, f.opened_by, f.path, f.store, f.title, f.project, f.started, {ACTIVE},
    EXISTS ({CHECK.format("1")}), ({CHECK.format("c.message")}),
    (SELECT count(*) FROM files g WHERE g.opened_by = f.opened_by AND NOT g.is_gone),
    f.mtime_ns / 1e9, f.tag
FROM files f WHERE f.id IN (SELECT value FROM json_each(?))
"""
MEMBERS = """
SELECT f.id, g.id FROM files f JOIN files g ON g.session = f.session AND g.is_subagent
    AND g.store = f.store
WHERE f.id IN (SELECT value FROM json_each(?))
"""
_OF_FILES = "counts = 1 AND file IN (SELECT value FROM json_each(?))"
TURNS = f"""
SELECT file, count(*) FROM prompts
WHERE {_OF_FILES} AND (model IS NOT NULL OR kind NOT IN ('command', 'bash_input')) GROUP BY file
"""
BRANCHES = """
SELECT file, branch, max(line) FROM prompts
WHERE branch IS NOT NULL AND file IN (SELECT value FROM json_each(?)) GROUP BY file
"""
CALLS = f"""
SELECT file, count(*), coalesce(sum(is_error AND NOT is_rejected), 0) FROM calls
WHERE {_OF_FILES} GROUP BY file
"""
# SQLite takes the other columns from the row with the largest line. A compaction after the last
# answer empties the context by an amount that no line states.
CONTEXTS = """
SELECT m.file, m.input + m.cache_write_5m + m.cache_write_1h + m.cache_read + m.output, m.model,
    max(m.line)
FROM messages m
WHERE m.file IN (SELECT value FROM json_each(?)) AND NOT m.is_subagent AND m.input + m.output > 0
    AND m.line > coalesce((SELECT max(c.line) FROM compactions c WHERE c.file = m.file), 0)
GROUP BY m.file
"""
CALL_NAMES = ("tool", "path")
CALLS_BY = f"""
SELECT c.{{0}}, count(*) FROM calls c JOIN files g ON g.id = c.file
WHERE c.counts = 1 AND c.{{0}} IS NOT NULL
    AND {OWNER.format("g")} = (SELECT {MINE} FROM files f WHERE f.path = ?)
GROUP BY 1 ORDER BY 2 DESC, 1
"""
USAGE = f"""
SELECT file, model, sum(input + output + cache_write_5m + cache_write_1h + cache_read), sum(cost),
    count(*) - count(cost), sum(is_understated)
FROM messages WHERE {_OF_FILES} GROUP BY file, model ORDER BY file, 3 DESC
"""
FACETS = (
    "SELECT project FROM files WHERE project IS NOT NULL AND NOT is_gone"
    " GROUP BY 1 ORDER BY count(*) DESC",
    "SELECT branch FROM prompts WHERE branch IS NOT NULL GROUP BY 1 ORDER BY count(*) DESC",
    "SELECT model FROM messages WHERE counts = 1 AND model IS NOT NULL"
    " GROUP BY 1 ORDER BY count(*) DESC",
    "SELECT tool FROM calls GROUP BY 1 ORDER BY count(*) DESC",
    "SELECT tag FROM files WHERE tag IS NOT NULL AND NOT is_gone AND NOT is_subagent"
    " GROUP BY 1 ORDER BY count(*) DESC",
)
"""Projects, branches, models, tools and tags."""
