"""The tables of a lake: their columns, types and meaning, and which need the user's consent.

A column may be added within a major version; readers fill missing ones with null. `MAJOR` is part
of every path, and readers refuse a newer one.
"""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import cache
from importlib import import_module
from math import isfinite
from typing import Any, NamedTuple

MAJOR = 1
"""Increment when readers of the previous version would compute something wrong."""
MINOR = 1
"""Increment when a column or a table is added."""
ROOT = f"v{MAJOR}"
"""The folder of all tables."""
SCHEMA_KEY = b"turnlog.lake.schema"
"""Key of `MAJOR.MINOR` in the metadata of every part."""
TABLE_KEY = b"turnlog.lake.table"
"""Key of the table's name in the metadata of every part."""
NO_DAY = "none"
"""The day of rows without a time."""

PATHS, COMMANDS, TEXTS = "paths", "commands", "texts"
CONSENTS = (PATHS, COMMANDS, TEXTS)
"""Groups of columns that are pushed only with consent, such as `--with paths`."""

# Decimals, because the sum of floats depends on the order in which an engine adds up its rows.
PRECISION, SCALE = 18, 6
"""Digits of a cost in microdollars, and how many of them follow the decimal point."""


class LakeColumn(NamedTuple):
    """A column of a table."""

    name: str
    kind: str
    """string, int64, float64, bool or decimal."""
    meaning: str
    needs: str | None = None
    """The consent that it needs; without it, the column is null."""


def _columns(text: str, needs: str | None = None) -> tuple[LakeColumn, ...]:
    """Parse lines of name, kind and meaning.

    >>> _columns("line int64 Line in the file.")[0].meaning
    'Line in the file.'
    """
    rows = (line.split(maxsplit=2) for line in text.strip().splitlines())
    return tuple(LakeColumn(name, kind, meaning, needs) for name, kind, meaning in rows)


KEYS = _columns("""
machine string Id of the machine that pushed the row.
file string Id of the session file on that machine.
day string UTC day of the row, or none.
write_id string The write that the row belongs to; see `units`.
""")
"""Columns of every table but `units`."""

PLACE = _columns("""
line int64 Line in the file, from 1.
at float64 Seconds since 1970.
quarter int64 Quarters of an hour since 1970.
""")

OWN = "is_copy bool True if the entry was first written in another session."

TABLES: dict[str, tuple[LakeColumn, ...]] = {
    "sessions": _columns("""
opened_by string Id that opens the file: of the session or the sub-agent.
session string Id of the session it belongs to.
is_subagent bool True for the file of a sub-agent.
is_gone bool True if the file is only in the archive.
user string Name or keyed hash of the user.
host string Name of the machine.
project string Name of the working directory, or its keyed hash; the whole path with paths.
project_key string Keyed hash of the working directory.
path_key string Keyed hash of the file's path.
store_key string Keyed hash of the store's path.
started float64 Time of the first entry.
ended float64 Time of the last entry.
size int64 Bytes of the file.
""")
    + _columns("path string Path of the file.\nstore string Path of the store.", PATHS)
    + _columns("title string Title of the session.\nslug string The client's nickname.", TEXTS),
    "turns": PLACE
    + _columns(f"""
key string Keyed hash that all copies of the prompt share.
kind string typed, queued, command and so on.
ended float64 Last time of an answer or a result.
branch string Git branch.
model string The model that answered first.
working float64 Seconds that the client measured.
permission_mode string Permission mode of the client.
{OWN}
""")
    + _columns("text string Start of the prompt, with secrets masked.", TEXTS),
    # Rates beside the cost: copies of a message may have different counts. A report takes the
    # largest count of each kind, and prices the difference at these rates.
    "messages": PLACE
    + _columns(f"""
turn_line int64 Line of the prompt that it answers.
key string The API's id of the message.
request string The API's id of the request.
model string Model.
branch string Git branch.
version string Version of the client.
stop_reason string Why the model stopped.
{OWN}
is_subagent bool True for messages of a sub-agent.
is_understated bool True if the client may have recorded too few output tokens.
input int64 Input tokens.
output int64 Output tokens.
cache_write_5m int64 Tokens cached for five minutes.
cache_write_1h int64 Tokens cached for an hour.
cache_read int64 Tokens read from the cache.
searches int64 Web searches.
cache_created int64 Tokens cached in total, as recorded in the file.
created_5m int64 Tokens cached for five minutes as recorded in the file; null if it is not.
created_1h int64 Tokens cached for an hour as recorded in the file; null if it is not.
rate_input decimal Microdollars per input token; null if the model has no price.
rate_output decimal Microdollars per output token.
rate_cache_write_5m decimal Microdollars per token cached for five minutes.
rate_cache_write_1h decimal Microdollars per token cached for an hour.
rate_cache_read decimal Microdollars per token read from the cache.
rate_search decimal Microdollars per web search.
cost decimal Microdollars by the figures of this file.
"""),
    "calls": PLACE
    + _columns(f"""
turn_line int64 Line of the prompt that it belongs to.
key string Id of the tool_use.
tool string Name of the tool.
branch string Git branch.
model string Model.
path_key string Keyed hash of the file that it read or changed.
program_key string Keyed hash of the program that it ran.
result_line int64 Line of the result.
ended float64 Time of the result.
is_error bool True if it failed; null without a result.
is_rejected bool True if the user denied it.
added int64 Lines added.
removed int64 Lines removed.
{OWN}
is_subagent bool True for calls of a sub-agent.
""")
    + _columns("path string The file that it read or changed.", PATHS)
    + _columns("command string Start of the command.\nprogram string Its program.", COMMANDS)
    + _columns("error string Start of the error, with secrets masked.", TEXTS),
    "pulls": _columns("""
line int64 Line in the file.
number int64 Number of the pull request.
url_key string Keyed hash of its URL.
""")
    + _columns("url string URL.\nrepository string Owner and name.", PATHS),
    "commits": PLACE + _columns("branch string Git branch.\nhash string Start of its hash."),
    "compactions": PLACE
    + _columns("trigger string manual or auto.\npre_tokens int64 Tokens of the context before."),
    "findings": _columns("is_serious bool True if the session would not resume in full.")
    + _columns("message string The worst finding, with secrets masked.", TEXTS),
    "texts": PLACE
    + _columns("role string user or assistant.\nkind string prompt, answer, thinking, result, …")
    + _columns("tool string Tool of an input or a result.\nkey string Id of message or call.")
    + _columns("text string The text, with secrets masked.", TEXTS),
}
"""The columns of each table, without those of `KEYS`."""

UNITS = _columns("""
machine string Id of the machine.
table_name string The table.
file string Id of the session file.
day string UTC day, or none.
version int64 Larger than all versions that the machine wrote before.
level int64 0 for a push, more for each compaction.
write_id string The write_id of the unit's rows.
part string SHA-256 in the name of the part that has them; null if retracted.
rows int64 Number of rows.
sha256 string Digest of the rows.
is_retracted bool True if the unit has no rows any more.
store string Keyed hash of the store, by a key of the machine.
written float64 Time of the write.
schema string Major and minor version that wrote it.
names_key string Fingerprint of the key of hashed names.
user string Name or keyed hash of the user.
host string Name of the machine.
""")
"""The table that says which rows are live: for each table, file and day of a machine, the row with
the highest (version, level, write_id) wins, and only rows with its write_id count."""

DATA_TABLES = tuple(TABLES)
TABLE_OF_UNITS = "units"


def columns_of(table: str) -> tuple[LakeColumn, ...]:
    """Return all columns of a table, in order."""
    return UNITS if table == TABLE_OF_UNITS else KEYS + TABLES[table]


@cache
def arrow_schema(table: str) -> Any:
    """Return the pyarrow schema of a table, with the version in its metadata."""
    pa = pyarrow()
    kinds = {
        "string": pa.string(),
        "int64": pa.int64(),
        "float64": pa.float64(),
        "bool": pa.bool_(),
        "decimal": pa.decimal128(PRECISION, SCALE),
    }
    fields = [pa.field(column.name, kinds[column.kind]) for column in columns_of(table)]
    return pa.schema(fields, {SCHEMA_KEY: f"{MAJOR}.{MINOR}".encode(), TABLE_KEY: table.encode()})


@cache
def pyarrow(name: str = "") -> Any:
    """Import pyarrow or one of its modules when it is first needed: it is large and optional."""
    return import_module(f"pyarrow.{name}" if name else "pyarrow")


def plain_rows(rows: Iterable[Iterable[Any]]) -> Iterator[tuple[Any, ...]]:
    """Yield an engine's rows as SQLite would return them: decimals become floats.

    Figures that are not finite become null: anyone who may write to a lake can push an infinite
    time.
    """
    for row in rows:
        yield tuple(_plain(each) for each in row)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    return None if isinstance(value, float) and not isfinite(value) else value
