"""Print carrying costs as a table."""

from turnlog.cli.output import plain, width, wrap
from turnlog.cli.tables import Column, Table, with_rows
from turnlog.cli.terminal import dim, echo, style
from turnlog.render.carrying_view import CarryingRow, CarryingView
from turnlog.text import exact_money, file_size, money

READABLE = 34
"""Cells reserved for a name: columns of figures are omitted before it gets narrower."""
LEAST = 0.00005
"""The smallest cost in dollars that is not shown as zero."""


def echo_carrying(view: CarryingView, limit: int, directory: str | None) -> None:
    """Print the most expensive rows and the total; a limit of 0 prints all.

    Paths below the working directory of the session are printed relative to it.
    """
    rows = view.rows[: limit or None]
    is_call = view.by == "call"
    columns = [
        Column("size", is_number=True, expendable=3),
        Column(view.by, is_path=view.by == "file", is_filling=True, width=READABLE),
        Column("sent", is_number=True, expendable=2),
        Column("carried", is_number=True, expendable=4),
        Column("output", is_number=True, expendable=6),
        Column("cost", is_number=True),
        *([Column("turn", is_number=True, expendable=1)] if is_call else []),
        *([Column("turn cost", is_number=True, expendable=5)] if is_call else []),
    ]
    cells = [_cells(row, is_call, directory) for row in rows]
    total = ["", "total", "", "", "", exact_money(view.cost_usd), *([""] * (2 * is_call))]
    table = Table(with_rows(columns, [*cells, total]), width())
    echo(table.head())
    for each in cells:
        echo(table.row(each).rstrip())
    echo(style(table.row(total).rstrip(), "bold"))
    _echo_remarks(view, len(rows))


def _cells(row: CarryingRow, is_call: bool, directory: str | None) -> list[str]:
    figures = [
        file_size(row.bytes) if row.bytes else "",
        plain(row.name.replace(f"{directory}/", "", 1) if directory else row.name),
        f"{row.sent:,}",
        exact_money(row.carried_usd),
        exact_money(row.output_usd) if row.output_usd >= LEAST else "",
        exact_money(row.cost_usd),
    ]
    if not is_call:
        return figures
    turn_cost = money(row.turn_cost_usd) if row.turn_cost_usd is not None else ""
    return [*figures, "" if row.turn is None else str(row.turn), turn_cost]


def _echo_remarks(view: CarryingView, shown: int) -> None:
    remarks = [f"Estimated: {view.requests:,} requests, distributed by the size of what they sent."]
    if view.unpriced:
        remarks.append(f"Not in the total, as no price is known: {plain(', '.join(view.unpriced))}")
    for remark in remarks:
        for line in wrap(remark, width()):
            echo(dim(line))
    if shown < len(view.rows):
        echo(dim(f"{shown} of {len(view.rows)} rows; --limit 0 shows all"), err=True)
