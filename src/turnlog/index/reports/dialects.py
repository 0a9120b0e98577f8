"""SQL dialects of SQLite, DuckDB and Spark, as named fragments of the reports' statements.

A statement names them as `{{name}}` or `{{name(arguments)}}`; everything else in it means the same
to all engines. Local times and five-hour windows come from tables in DuckDB and Spark, because no
engine has the reader's time zone, and Spark cannot recurse that deep.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

PLACE = re.compile(r"\{\{(\w+)(?:\(([^{}]*)\))?\}\}")
"""A reference to a fragment, without another reference in its arguments."""
PARAMETER = re.compile(r"(?<![:\w']):(\w+)")
CAPITALS, SMALL = "'ABCDEFGHIJKLMNOPQRSTUVWXYZ'", "'abcdefghijklmnopqrstuvwxyz'"
LOCAL = "{0}.quarter * 900, 'unixepoch', 'localtime'"
"""The start of a quarter of an hour, in the local time zone."""
MILLISECONDS = (
    "CAST(floor({0} * 1000.0 + 210866760000000.0 + 0.5) AS BIGINT)"
    " - CAST(210866760000000 AS BIGINT)"
)
"""Converts seconds to milliseconds, rounded like SQLite: it adds the Julian date of 1970 first."""
PROJECT_AND_MODEL = (
    " AND (:project IS NULL OR {{{{contains(f.project, :project)}}}})"
    " AND (:model IS NULL OR {{{{contains({0}.model, :model)}}}})"
)


class Dialect(NamedTuple):
    """The fragments and parameter syntax of an engine."""

    name: str
    fragments: Mapping[str, str]
    """Templates by name; {0} and {1} are the arguments."""
    parameter: str = ":"
    """Prefix of a parameter's name."""


_COMMON = {
    # All tools of an MCP server count as one: mcp__shop__buy and mcp__shop__sell as mcp__shop__*.
    "tool_name": "CASE WHEN substr({0}, 1, 5) = 'mcp__' AND instr(substr({0}, 7), '__') > 0"
    " THEN substr({0}, 1, instr(substr({0}, 6), '__') + 6) || '*' ELSE {0} END",
    # The filters of a report on a table joined with files `f`: by the exact time of each row, or by
    # its quarter of an hour.
    "filters": "(:since IS NULL OR {0}.at >= :since) AND (:until IS NULL OR {0}.at < :until)"
    + PROJECT_AND_MODEL,
    "quarter_filters": "(:since IS NULL OR {0}.quarter * 900 > :since - 900)"
    " AND (:until IS NULL OR {0}.quarter * 900 < :until)" + PROJECT_AND_MODEL,
}
SQLITE = Dialect(
    "sqlite",
    {
        **_COMMON,
        "iso_time": "strftime('%Y-%m-%dT%H:%M:%SZ', {0}, 'unixepoch')",
        "iso_milliseconds": "strftime('%Y-%m-%dT%H:%M:%fZ', {0}, 'unixepoch')",
        "day": f"date({LOCAL})",
        "week": f"date({LOCAL}, 'weekday 0', '-6 days')",  # named by its Monday
        "month": f"strftime('%Y-%m', {LOCAL})",
        "weekday": f"(strftime('%w', {LOCAL}) + 6) % 7",  # 0 is Monday
        "hour": f"CAST(strftime('%H', {LOCAL}) AS INTEGER)",
        "local_times": "",
        "contains": "instr(lower({0}), lower({1})) > 0",
        "same": "{0} IS {1}",
        "joined": "group_concat({0}, ' ')",
        "materialized": "MATERIALIZED",
        "program": "program({0}.command)",
    },
)
_LAKE = {
    **_COMMON,
    "day": "q.day",
    "week": "q.week",
    "month": "q.month",
    "weekday": "q.weekday",
    "hour": "q.hour",
    "local_times": "LEFT JOIN quarters q ON q.quarter = {0}.quarter",
    # `lower` of SQLite leaves letters outside of ASCII alone.
    "contains": f"instr(translate({{0}}, {CAPITALS}, {SMALL}),"
    f" translate({{1}}, {CAPITALS}, {SMALL})) > 0",
    "same": "{0} IS NOT DISTINCT FROM {1}",
    "program": "{0}.program",
    "window_tables": "WITH",
    # The rows of a table that belong to the write that won.
    "live": "JOIN winners w ON w.table_name = '{0}' AND w.machine = t.machine AND w.file = t.file"
    " AND w.day = t.day AND w.write_id = t.write_id",
    # Keys that occur more than once. Hashes of keys take a fraction of the memory of keys: with
    # 100 million of them, only keys whose hash occurs more than once are compared.
    "repeated": "SELECT key AS copied_key FROM {0} WHERE {{{{hash(key)}}}} IN (SELECT hashed"
    " FROM (SELECT {{{{hash(key)}}}} AS hashed FROM {0}) GROUP BY hashed HAVING count(*) > 1)"
    " GROUP BY key HAVING count(*) > 1",
    # Rows whose key occurs more than once, numbered for each key; the first one counts.
    "ranked_copies": "SELECT t.*, row_number() OVER (PARTITION BY t.key"
    " ORDER BY t.is_copy, f.opened_by, f.path, t.machine, t.line) AS nth FROM live_{0} t"
    " JOIN copied_{0} c ON c.copied_key = t.key JOIN files f ON f.id = t.file_id",
    "price": "CAST(CAST({0} AS DECIMAL(14, 0)) * {1} AS DECIMAL(18, 6))",
    "dollars": "({0}) * CAST(0.000001 AS DECIMAL(7, 6))",
}
DUCKDB = Dialect(
    "duckdb",
    {
        **_LAKE,
        "iso_time": f"strftime(make_timestamp_ms({MILLISECONDS}), '%Y-%m-%dT%H:%M:%SZ')",
        "iso_milliseconds": f"strftime(make_timestamp_ms({MILLISECONDS}), '%Y-%m-%dT%H:%M:%S.%gZ')",
        "joined": "string_agg({0}, ' ')",
        "first_known": "first_value({0} IGNORE NULLS)",
        "hash": "hash({0})",
        "view": "TEMP VIEW",
        "table": "TEMP TABLE",
        "materialized": "MATERIALIZED",
    },
    "$",
)
SPARK = Dialect(
    "spark",
    {
        **_LAKE,
        "iso_time": f"date_format(timestamp_millis({MILLISECONDS}), \"yyyy-MM-dd'T'HH:mm:ss'Z'\")",
        "iso_milliseconds": f"date_format(timestamp_millis({MILLISECONDS}),"
        " \"yyyy-MM-dd'T'HH:mm:ss.SSS'Z'\")",
        "joined": "array_join(collect_list({0}), ' ')",
        "first_known": "first_value({0}, true)",
        "hash": "xxhash64({0})",
        "view": "OR REPLACE TEMPORARY VIEW",
        "table": "OR REPLACE TEMPORARY VIEW",
        "materialized": "",
    },
)


def translate(statement: str, dialect: Dialect = SQLITE) -> str:
    """Translate a portable statement into the dialect of an engine.

    >>> translate("SELECT {{joined(url)}} FROM pulls WHERE line > :line", DUCKDB)
    "SELECT string_agg(url, ' ') FROM pulls WHERE line > $line"
    """
    found = _expand(statement, dialect)
    if dialect.parameter == ":":
        return found
    return PARAMETER.sub(rf"{dialect.parameter}\1", found)


def parameters_of(statement: str, dialect: Dialect) -> set[str]:
    """Return the names of a portable statement's parameters.

    >>> parameters_of("SELECT 1 FROM pulls WHERE {{contains(url, :url)}}", DUCKDB)
    {'url'}
    """
    return set(PARAMETER.findall(_expand(statement, dialect)))


@cache
def read_sql(name: str) -> str:
    """Return the portable statement in a SQL file, without comments."""
    return strip_comments(Path(__file__).with_name(f"{name}.sql").read_text("utf-8"))


def strip_comments(text: str) -> str:
    """Return statements without comments, which may contain text that looks like a parameter."""
    return re.sub(r"--[^\n]*", "", text)


def _expand(statement: str, dialect: Dialect) -> str:
    """Replace all references to fragments in a statement, including nested ones."""
    found, count = statement, 1
    while count:
        found, count = PLACE.subn(lambda place: _fragment(dialect, place), found)
    return found


def _fragment(dialect: Dialect, place: re.Match[str]) -> str:
    name, arguments = place[1], place[2] or ""
    template = dialect.fragments.get(name)
    if template is None:  # a file with common table expressions
        return read_sql(name)
    count = 1 + ("{1}" in template)
    return template.format(*arguments.split(", ", count - 1))
