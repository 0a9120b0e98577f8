"""Export the transcripts of a lake for the scanners of inspect_scout.

inspect_scout reads a folder of Parquet files; this writes one from a view of the lake.
"""

from pathlib import Path
from shlex import join, quote
from typing import Any, NamedTuple

from turnlog.errors import Conflict, NotFound
from turnlog.format.atomic import write_atomic
from turnlog.lake.duckdb_engine import DuckdbEngine
from turnlog.lake.lake_parts import encode_part, require_version
from turnlog.lake.lake_schema import TABLE_OF_UNITS, arrow_schema, pyarrow
from turnlog.lake.lake_storage import open_storage
from turnlog.lake.live_units import (
    all_winners,
    list_unit_parts,
    live_parts,
    read_unit_parts,
)

TABLES = ("sessions", "messages", "texts")
FILE = "transcripts.parquet"


class ScoutExport(NamedTuple):
    """The result of an export."""

    path: str
    transcripts: int
    messages: int
    """Messages with texts; 0 if the lake has no texts."""


def view_statements() -> list[str]:
    """Return the statements that define `scout_transcripts`, for DuckDB."""
    text = Path(__file__).with_name("scout_view.sql").read_text("utf-8")
    code = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    return [each for each in map(str.strip, code.split(";")) if each]


def export_scout(dest: str, folder: Path, *, again: bool = False) -> ScoutExport:
    """Write the sessions of a lake as transcripts; raise `Conflict` if the file already exists."""
    path = folder / FILE
    if path.exists() and not again:
        hint = join(["turnlog", "lake", "scout", dest, str(folder), "--again"])
        raise Conflict(f"{path} exists", hint)
    table = _transcripts(dest)
    if not table.num_rows:
        raise NotFound(f"{dest} has no sessions", f"turnlog lake status {quote(dest)}")
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(path, encode_part(table))
    # Quotes inside of texts are escaped, so only messages themselves match.
    counts = [value.count('"role":') for value in table.column("messages").to_pylist()]
    return ScoutExport(str(path), table.num_rows, sum(counts))


def _transcripts(dest: str) -> Any:
    """Return the transcripts of a lake as an Arrow table."""
    storage = open_storage(dest)
    require_version(storage)
    engine = DuckdbEngine(storage)
    try:
        live = live_parts(all_winners(storage).values())
        for table in TABLES:
            if paths := list(live.get(table, {})):
                engine.attach(table, paths)
            else:
                engine.define(f"lake_{table}", arrow_schema(table).empty_table())
        units = [rows for _, rows in read_unit_parts(storage, list_unit_parts(storage))]
        empty = arrow_schema(TABLE_OF_UNITS).empty_table()
        engine.define(f"lake_{TABLE_OF_UNITS}", pyarrow().concat_tables([empty, *units]))
        for statement in view_statements():
            engine.db.execute(statement)
        query = "SELECT * FROM scout_transcripts ORDER BY transcript_id"
        return engine.db.sql(query).to_arrow_table()
    finally:
        engine.close()
