"""DDL for warehouses: it has every column, and the documentation shows what the command prints."""

import re
from pathlib import Path

import pytest

from turnlog.errors import UsageError
from turnlog.lake.lake_schema import DATA_TABLES, TABLE_OF_UNITS, columns_of
from turnlog.lake.warehouse_ddl import DIALECTS, warehouse_ddl

DOCS = Path(__file__).parent.parent.parent / "docs" / "lake.md"
PLACES = {
    "bigquery": "gs://team/lake",
    "snowflake": "s3://team/lake",
    "clickhouse": "s3://team/lake",
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_table_has_all_columns_and_a_view(dialect: str) -> None:
    text = warehouse_ddl(dialect, PLACES[dialect])
    quote = DIALECTS[dialect][2]
    for table in (TABLE_OF_UNITS, *DATA_TABLES):
        (statement,) = re.findall(rf"CREATE [A-Z ]*TABLE lake_{table} \(.*?;", text, re.DOTALL)
        names = re.findall(rf"^    {quote}(\w+){quote} ", statement, re.MULTILINE)
        assert names == [column.name for column in columns_of(table)]
        assert f"/v1/{table}/" in statement
    for table in DATA_TABLES:
        assert f"VIEW live_{table} AS" in text


def test_a_local_lake_is_read_by_clickhouse() -> None:
    assert "file('/srv/lake/v1/turns/**/*.parquet', 'Parquet'," in warehouse_ddl(
        "clickhouse", "/srv/lake/"
    )


def test_the_documentation_shows_what_is_printed() -> None:
    blocks = re.findall(r"```sql\n(CREATE .*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    printed = "".join(warehouse_ddl(dialect, place) for dialect, place in PLACES.items())
    statements = [each for block in blocks for each in block.strip().split("\n\n")]
    assert len(statements) >= len(DIALECTS)
    for statement in statements:
        assert statement in printed


def test_an_unknown_dialect_is_an_error() -> None:
    with pytest.raises(UsageError, match="no DDL for 'oracle'"):
        warehouse_ddl("oracle", "s3://team/lake")


@pytest.mark.parametrize("dialect", ["bigquery", "snowflake"])
def test_a_directory_is_refused_by_warehouses_that_cannot_read_it(dialect: str) -> None:
    with pytest.raises(UsageError, match=f"{dialect} cannot read the directory /srv/lake"):
        warehouse_ddl(dialect, "/srv/lake")


def test_snowflake_has_its_own_scheme_for_google() -> None:
    assert "URL = 'gcs://team/lake'" in warehouse_ddl("snowflake", "gs://team/lake")
