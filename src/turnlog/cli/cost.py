"""turnlog cost: print the cost of a session by model."""

from collections.abc import Iterator

import click

from turnlog.cli.arguments import json_option, output_option, session_argument
from turnlog.cli.output import echo_json, plain, width, wrap
from turnlog.cli.sessions import open_named
from turnlog.cli.tables import Column, echo_table
from turnlog.cli.terminal import dim, echo
from turnlog.render.costs import CostView, ModelCost, session_cost
from turnlog.store.paths import Store
from turnlog.text import exact_money

HEADS = ("input", "output", "cache write", "cache read")
EXPENDABLE = {"output": 1, "cache read": 2, "cache write": 3, "input": 4}
"""Columns to omit in narrow terminals, the highest number first."""


@click.command("cost")
@session_argument
@output_option()
@json_option
@click.pass_obj
def command(store: Store, session: str, as_json: bool) -> None:
    """Print the cost of SESSION by model and sub-agents.

    Costs are tokens times list prices at the time of each message, in US dollars.

    \b
    Examples:
      turnlog cost last
      turnlog cost 3f2a --json | jq .cost_usd
    """
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
        yield f"Not in the total, as no price is known: {plain(', '.join(view.unpriced))}"
    if view.output_understated:
        yield "A lower bound: this client version records too few output tokens."
    if view.client_cost_usd is not None:
        yield f"The client itself counted {exact_money(view.client_cost_usd)}."
