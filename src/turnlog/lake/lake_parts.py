"""Parts: the immutable Parquet files of a lake, named by the SHA-256 of their content."""

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from shlex import quote
from typing import Any, NamedTuple

from turnlog.errors import Damaged, Unavailable, UsageError
from turnlog.lake.lake_schema import (
    KEYS,
    MAJOR,
    ROOT,
    SCHEMA_KEY,
    TABLE_KEY,
    TABLE_OF_UNITS,
    TABLES,
    arrow_schema,
    columns_of,
    pyarrow,
)
from turnlog.lake.lake_storage import LakeStorage

PART = re.compile(r"part-([0-9a-f]{64})\.parquet")
FOLDERS = re.compile(
    rf"{ROOT}/(\w+)/(?:day=([\w-]+)/)?machine=([\w-]+)/part-([0-9a-f]{{64}})\.parquet"
)
COMPRESSION = "zstd"
WITH_STATISTICS = ["machine", "file", "day", "write_id", "at", "quarter"]
COPY_MARK = "copy-of"
"""Name of the file that a copy of a lake has next to its tables; it names the origin."""


class PartPlace(NamedTuple):
    """The components of a part's path."""

    table: str
    day: str | None
    """None for `units`, whose parts are not split by day."""
    machine: str
    digest: str

    @property
    def path(self) -> str:
        day = "" if self.day is None else f"day={self.day}/"
        return f"{ROOT}/{self.table}/{day}machine={self.machine}/part-{self.digest}.parquet"


class ForeignFile(Unavailable):
    """A Parquet file that turnlog did not write."""


def parse_place(path: str) -> PartPlace | None:
    """Parse the path of a part; return None for any other file.

    >>> parse_place("v1/calls/day=2026-01-02/machine=ab/part-" + "0" * 64 + ".parquet").day
    '2026-01-02'
    >>> parse_place("v1/calls/day=2026-01-02/notes.parquet")
    """
    found = FOLDERS.fullmatch(path)
    return PartPlace(*found.groups()) if found else None


def encode_part(table: Any) -> bytes:
    """Return an Arrow table as Parquet."""
    sink = pyarrow().BufferOutputStream()
    options = {"compression": COMPRESSION, "store_decimal_as_integer": True}
    # Half of a small part would be a second copy of the schema, and statistics that nobody reads.
    options |= {"store_schema": False, "write_statistics": WITH_STATISTICS}
    with pyarrow("parquet").ParquetWriter(sink, table.schema, **options) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(table.schema.metadata)
    return sink.getvalue().to_pybytes()


def new_part(table: str, day: str | None, machine: str, rows: Any) -> tuple[PartPlace, bytes]:
    """Return the place and the content of a new part."""
    content = encode_part(rows)
    return PartPlace(table, day, machine, sha256(content).hexdigest()), content


def decode_part(storage: LakeStorage, path: str, content: bytes) -> Any:
    """Return the rows of a part as an Arrow table; raise if the file is damaged or foreign."""
    pa, parquet = pyarrow(), pyarrow("parquet")
    verify = f"turnlog lake verify {quote(storage.dest)}"
    try:
        file = parquet.ParquetFile(pa.BufferReader(content))
        found = file.read(use_threads=False)
    except (OSError, pa.ArrowException) as error:
        reason = "it is truncated or damaged"
        raise Damaged(f"{storage.dest}/{path} cannot be read: {reason}", verify) from error
    metadata: dict[bytes, bytes] = file.metadata.metadata or {}
    place = parse_place(path)
    # Any Parquet file may be named like a part; only turnlog's metadata has the schema and the
    # table.
    is_ours = SCHEMA_KEY in metadata and place and metadata.get(TABLE_KEY) == place.table.encode()
    if not is_ours or not place:
        message = f"{storage.dest}/{path} is not a part of the lake: turnlog did not write it"
        raise ForeignFile(message, verify)
    require_schema(f"{storage.dest}/{path}", metadata[SCHEMA_KEY].decode(errors="replace"))
    if wrong := _wrong_column(place.table, found):
        message = f"{storage.dest}/{path} is not a part of the lake: column {wrong} is not valid"
        raise ForeignFile(message, verify)
    # A flipped bit may leave a readable file with other figures.
    if sha256(content).hexdigest() != place.digest:
        raise Damaged(f"{storage.dest}/{path} does not match the hash in its name", verify)
    return found


def _wrong_column(table: str, found: Any) -> str | None:
    """Return a missing key column or a column of the wrong type; None if there is neither."""
    if table not in (*TABLES, TABLE_OF_UNITS):
        return None
    types = {field.name: field.type for field in arrow_schema(table)}
    present = {field.name: field.type for field in found.schema if field.name in types}
    lacking = (column.name for column in KEYS if column.name not in present)
    return next(lacking, None) or next(
        (name for name, kind in present.items() if kind != types[name]), None
    )


def require_schema(where: str, schema: str) -> None:
    """Raise `Unavailable` if a schema has a newer major version."""
    major = schema.partition(".")[0]
    if not major.isdigit() or int(major) > MAJOR:
        message = f"{where} was written by a newer turnlog (lake schema {schema}, not {MAJOR}.x)"
        raise Unavailable(message, "pip install --upgrade 'turnlog[lake]'")


def require_version(storage: LakeStorage) -> None:
    """Raise `Unavailable` if a newer version of turnlog has started to write another layout."""
    for name in storage.names():
        if re.fullmatch(r"v\d+", name) and int(name[1:]) > MAJOR:
            require_schema(storage.dest, name[1:])


def copied_from(storage: LakeStorage) -> str | None:
    """Return the lake that `turnlog lake pull` copied to a directory; None if it is no copy."""
    if COPY_MARK not in storage.names():
        return None
    return storage.read(COPY_MARK).decode(errors="replace").strip()


def refuse_copy(storage: LakeStorage) -> None:
    """Raise `UsageError` for a copy: the next pull would delete what was written to it."""
    origin = copied_from(storage)
    if origin is not None:
        raise UsageError(
            f"{storage.dest} is a copy of {origin}", f"turnlog lake push {quote(origin)}"
        )


def complete(table: str, found: Any) -> Any:
    """Return a table with all columns of this version of the schema; missing ones are null."""
    pa = pyarrow()
    schema = arrow_schema(table)
    arrays = [
        found.column(field.name).cast(field.type)
        if field.name in found.column_names
        else pa.nulls(found.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def units_folder(machine: str | None = None) -> str:
    """Return the folder of the units of a machine, or of all machines."""
    folder = f"{ROOT}/{TABLE_OF_UNITS}"
    return f"{folder}/machine={machine}" if machine else folder


def table_of_rows(table: str, rows: Iterable[Sequence[Any]]) -> Any:
    """Return rows in the order of the table's columns as an Arrow table."""
    schema = arrow_schema(table)
    columns = list(zip(*rows, strict=True)) or [()] * len(columns_of(table))
    arrays = [
        pyarrow().array(values, field.type) for values, field in zip(columns, schema, strict=True)
    ]
    return pyarrow().Table.from_arrays(arrays, schema=schema)
