"""Generate DDL that registers a lake's tables in BigQuery, Snowflake or ClickHouse.

The statements are generated from the schema, so they have every column. For each table, a view
`live_<table>` shows the rows that count; the table itself also has superseded rows.
"""

import re
from collections.abc import Callable, Iterable, Sequence

from turnlog.errors import UsageError
from turnlog.lake.lake_schema import (
    DATA_TABLES,
    PRECISION,
    ROOT,
    SCALE,
    TABLE_OF_UNITS,
    LakeColumn,
    columns_of,
)

Statement = Callable[[str, str, Sequence[LakeColumn]], str]
"""Returns the statement for a table, given the lake's URI and the columns."""

LIVE = """\
CREATE OR REPLACE VIEW {live} AS
SELECT t.*
FROM {table} AS t
JOIN (
    SELECT
        {columns},
        row_number() OVER (
            PARTITION BY {machine}, {file}, {day}
            ORDER BY {version} DESC, {level} DESC, {write_id} DESC
        ) AS nth
    FROM {units} WHERE {table_name} = '{name}'
) AS u ON {joined}
WHERE u.nth = 1 AND NOT u.{is_retracted};"""
"""The newest write of each file and day wins; a retraction has no rows."""
JOINED = ("machine", "file", "day", "write_id")


def warehouse_ddl(dialect: str, lake: str) -> str:
    """Return the statements for a warehouse: external tables, and views of the rows that count."""
    if dialect not in DIALECTS:
        known = ", ".join(DIALECTS)
        raise UsageError(f"no DDL for {dialect!r}: choose from {known}", "turnlog lake ddl --help")
    statement, head, quote = DIALECTS[dialect]
    uri = lake.rstrip("/")
    if "://" not in uri and dialect not in LOCAL_DIALECTS:
        message = f"{dialect} cannot read the directory {lake}: copy the lake to an object store"
        raise UsageError(message, f"turnlog lake ddl {dialect} gs://bucket/lake")
    if dialect == "snowflake":
        uri = re.sub("^gs://", "gcs://", uri)  # Snowflake's name of Google's storage
    tables = [statement(uri, each, columns_of(each)) for each in (TABLE_OF_UNITS, *DATA_TABLES)]
    views = [_live_view(each, quote) for each in DATA_TABLES]
    first = [head.format(lake=uri)] if head else []
    return "\n\n".join([*first, *tables, *views]) + "\n"


def _live_view(name: str, quote: str) -> str:
    def quoted(column: str) -> str:
        return f"{quote}{column}{quote}"

    names = "machine file day version level write_id table_name is_retracted".split()
    return LIVE.format(
        live=f"live_{name}",
        table=f"lake_{name}",
        units=f"lake_{TABLE_OF_UNITS}",
        name=name,
        columns=", ".join(map(quoted, (*JOINED, "is_retracted"))),
        joined=" AND ".join(f"u.{quoted(each)} = t.{quoted(each)}" for each in JOINED),
        **{each: quoted(each) for each in names},
    )


def _listed(rows: Iterable[str]) -> str:
    return ",\n".join(f"    {row}" for row in rows)


def _bigquery(lake: str, table: str, columns: Sequence[LakeColumn]) -> str:
    # AT, HASH and ROWS are reserved words, so all names are quoted.
    rows = _listed(f"`{each.name}` {BIGQUERY_TYPES[each.kind]}" for each in columns)
    return (
        f"CREATE OR REPLACE EXTERNAL TABLE lake_{table} (\n{rows}\n)\n"
        f"OPTIONS (format = 'PARQUET', uris = ['{lake}/{ROOT}/{table}/*.parquet']);"
    )


def _snowflake(lake: str, table: str, columns: Sequence[LakeColumn]) -> str:
    rows = _listed(
        f'"{name}" {kind} AS (value:"{name}"::{kind})'
        for name, kind in ((each.name, SNOWFLAKE_TYPES[each.kind]) for each in columns)
    )
    return (
        f"CREATE OR REPLACE EXTERNAL TABLE lake_{table} (\n{rows}\n)\n"
        f"LOCATION = @lake_stage/{ROOT}/{table}/ PATTERN = '.*[.]parquet'\n"
        "FILE_FORMAT = (TYPE = PARQUET) AUTO_REFRESH = FALSE;"
    )


def _clickhouse(lake: str, table: str, columns: Sequence[LakeColumn]) -> str:
    kinds = [f"`{each.name}` Nullable({CLICKHOUSE_TYPES[each.kind]})" for each in columns]
    parts = f"{lake}/{ROOT}/{table}/**/*.parquet"
    if "://" in lake:
        return (
            f"CREATE TABLE lake_{table} (\n{_listed(kinds)}\n)\nENGINE = S3('{parts}', 'Parquet');"
        )
    # A table can read only a single local file; patterns work in the function `file`.
    structure = ", ".join(kinds)
    return f"CREATE VIEW lake_{table} AS\nSELECT * FROM file('{parts}', 'Parquet', '{structure}');"


_DIGITS = f"{PRECISION}, {SCALE}"
BIGQUERY_TYPES = {
    "string": "STRING",
    "int64": "INT64",
    "float64": "FLOAT64",
    "bool": "BOOL",
    "decimal": f"NUMERIC({_DIGITS})",
}
SNOWFLAKE_TYPES = {
    "string": "VARCHAR",
    "int64": "NUMBER(19, 0)",
    "float64": "DOUBLE",
    "bool": "BOOLEAN",
    "decimal": f"NUMBER({_DIGITS})",
}
CLICKHOUSE_TYPES = {
    "string": "String",
    "int64": "Int64",
    "float64": "Float64",
    "bool": "Bool",
    "decimal": f"Decimal({_DIGITS})",
}

DIALECTS: dict[str, tuple[Statement, str, str]] = {
    "bigquery": (_bigquery, "", "`"),
    "snowflake": (
        _snowflake,
        "CREATE STAGE IF NOT EXISTS lake_stage URL = '{lake}' STORAGE_INTEGRATION = lake_access;",
        '"',
    ),
    "clickhouse": (_clickhouse, "", "`"),
}
"""For each dialect: the function for a table's statement, a preamble, and the quote for names."""
LOCAL_DIALECTS = frozenset({"clickhouse"})
"""Engines that read a directory as well as an object store."""
