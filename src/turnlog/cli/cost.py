"""turnlog cost: what a session cost."""

from collections.abc import Iterator

import click

from turnlog.cli.arguments import json_option, session_argument
from turnlog.cli.output import echo_json, plain, width, wrap
from turnlog.cli.sessions import open_named
from turnlog.cli.tables import Column, echo_table
from turnlog.cli.terminal import dim, echo
from turnlog.render.costs import CostView, ModelCost, session_cost
from turnlog.store.paths import Store
from turnlog.text import exact_money

HEADS = ("input", "output", "cache write", "cache read")
EXPENDABLE = {"output": 1, "cache read": 2, "cache write": 3, "input": 4}
"""Columns to leave out where room is short, the highest first."""


@click.command("cost")
@session_argument
@json_option
@click.pass_obj
def command(store: Store, session: str, as_json: bool) -> None:
    """Print what SESSION cost, by model, its sub-agents apart."""
    view = session_cost(open_named(store, session))
    if as_json:
        echo_json(view)
    else:
        _print(view)


def _print(view: CostView) -> None:
    rows = [_row(each) for each in view.models]
    rows.append(("total", *("" for _ in HEADS), exact_money(view.cost_usd)))
    heads = ("model", *HEADS, "cost")
    echo_table(
        [
            Column(head, cells, is_number=head != "model", expendable=EXPENDABLE.get(head, 0))
            for head, *cells in zip(heads, *rows, strict=True)
        ]
    )
    _print_remarks(view)


def _row(each: ModelCost) -> tuple[str, ...]:
    usage = each.usage
    counts = (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_creation_input_tokens,
        usage.cache_read_input_tokens,
    )
    name = f"{'└ ' if each.by_subagents else ''}{plain(each.model)}"
    return (name, *(f"{count:,}" for count in counts), exact_money(each.cost_usd))


def _print_remarks(view: CostView) -> None:
    if any(each.by_subagents for each in view.models):
        echo(dim("└ by sub-agents"))
    for remark in _remarks(view):
        for line in wrap(remark, width()):
            echo(line)


def _remarks(view: CostView) -> Iterator[str]:
    if view.unpriced:
        yield f"Not in the total, for want of a price: {plain(', '.join(view.unpriced))}"
    if view.output_understated:
        yield "A lower bound: this client's version records too few output tokens."
    if view.client_cost_usd is not None:
        yield f"The client itself counted {exact_money(view.client_cost_usd)}."
