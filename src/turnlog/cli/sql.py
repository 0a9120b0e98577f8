"""turnlog sql: query the index with SQL."""

from typing import Any

import click

from turnlog.cli.arguments import (
    chosen_format,
    csv_option,
    format_option,
    json_option,
    output_option,
    reveal_switch,
)
from turnlog.cli.indexing import ON_STDERR
from turnlog.cli.output import echo_json, plain, width
from turnlog.cli.store_options import with_stores
from turnlog.cli.tables import Column, Table, echo_csv
from turnlog.cli.terminal import dim, echo, masked_value, style
from turnlog.errors import UsageError
from turnlog.index.reports.user_sql import TABLES_HINT, IndexTable, SqlResult
from turnlog.index.service import list_tables, run_sql
from turnlog.store.stores import Stores


@click.command("sql")
@click.argument("statement", required=False)
@click.option("--tables", is_flag=True, help="List tables and their columns.")
@format_option
@output_option()
@reveal_switch
@json_option
@csv_option
@with_stores
def command(stores: Stores, statement: str | None, tables: bool, **given: Any) -> None:
    """Query the index of all sessions with SQL.

    The index is a SQLite database that is opened read-only. See docs/index.md for its tables.

    \b
    Examples:
      turnlog sql --tables
      turnlog sql "SELECT tool, count(*) FROM calls GROUP BY tool ORDER BY 2 DESC"
      turnlog sql "SELECT title, turns, cost FROM sessions ORDER BY cost DESC LIMIT 5"
      turnlog sql "SELECT * FROM sessions" --csv -o sessions.csv
    """
    form = chosen_format(given)
    if not (statement or tables):
        raise UsageError("an SQL statement is missing", TABLES_HINT)
    if tables or statement is None:
        _print_tables(list_tables(stores, ON_STDERR), form == "json")
    else:
        _print(run_sql(stores, statement, ON_STDERR), form)


def _print_tables(tables: list[IndexTable], as_json: bool) -> None:
    if as_json:
        echo_json([table._asdict() for table in tables])
        return
    for table in tables:
        echo(f"{style(table.name, 'bold')}  {dim(', '.join(table.columns))}")


def _print(answer: SqlResult, form: str) -> None:
    if form == "json":
        echo_json([dict(zip(answer.columns, row, strict=True)) for row in answer.rows])
    elif form == "csv":
        echo_csv(answer.columns, answer.rows)
    else:
        columns = [_column(answer, rank) for rank in range(len(answer.columns))]
        _print_table(columns)


def _print_table(columns: list[Column]) -> None:
    table = Table(columns, width())
    for line in table.lines():
        echo(line)
    if table.left_out:
        shown = f"{len(columns) - table.left_out} of {len(columns)} columns"
        echo(dim(f"{shown} fit; --json or --csv prints all"), err=True)


def _column(answer: SqlResult, rank: int) -> Column:
    values = [masked_value(row[rank], answer.columns[rank]) for row in answer.rows]
    is_number = all(isinstance(value, int | float | None) for value in values)
    cells = [_cell(value) for value in values]
    # The first column is never omitted: a row without any would be empty.
    return Column(plain(answer.columns[rank]), cells, is_number, expendable=min(rank, 1))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) and abs(value) < 1e6 else plain(str(value))
