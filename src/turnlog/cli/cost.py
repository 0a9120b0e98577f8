"""turnlog cost: print the cost of a session by model, or by what its requests carried."""

from collections.abc import Iterator
from shlex import quote
from typing import Any

import click
from msgspec.structs import replace

from turnlog.cli.arguments import (
    json_option,
    limit_option,
    output_option,
    reveal_option,
    session_argument,
)
from turnlog.cli.carrying_table import echo_carrying
from turnlog.cli.output import echo_json, plain, width, wrap
from turnlog.cli.sessions import open_named
from turnlog.cli.store_options import with_stores
from turnlog.cli.tables import Column, echo_table
from turnlog.cli.terminal import dim, echo
from turnlog.conversation.carrying_groups import GROUPINGS
from turnlog.errors import UsageError
from turnlog.render.carrying_view import carrying_view
from turnlog.render.costs import CostView, ModelCost, session_cost
from turnlog.store.catalog import describe, locate_session
from turnlog.store.stores import Stores
from turnlog.text import exact_money

SHOWN = 20
"""Rows of carrying costs by default."""
HEADS = ("input", "output", "cache write", "cache read")
EXPENDABLE = {"output": 1, "cache read": 2, "cache write": 3, "input": 4}
"""Columns to omit in narrow terminals, the highest number first."""


@click.command("cost")
@session_argument
@click.option(
    "--carrying",
    "is_carrying",
    is_flag=True,
    help="Distribute the cost over what the requests carried.",
)
@click.option(
    "--by",
    type=click.Choice(list(GROUPINGS)),
    help="Group carrying costs by call (the default), tool, file or turn.",
)
@limit_option("rows of carrying costs", None, f"; by default {SHOWN} in a table")
@output_option()
@reveal_option
@json_option
@with_stores
def command(stores: Stores, session: str, is_carrying: bool, **options: Any) -> None:
    """Print the cost of SESSION by model and sub-agents.

    Costs are tokens times list prices at the time of each message, in US dollars.

    Every request pays again for everything in its context. With --carrying, the cost of each
    request is distributed over the calls, prompts and answers that it carried: what did reading
    this file cost until the end of the session? The parts are estimates, their sum is exact.

    \b
    Examples:
      turnlog cost last
      turnlog cost last --carrying
      turnlog cost 3f2a --carrying --by file -n 5
      turnlog cost 3f2a --json | jq .cost_usd
    """
    by, limit, as_json = options["by"], options["limit"], options["as_json"]
    if not is_carrying and (by is not None or limit is not None):
        raise UsageError(
            "--by and --limit need --carrying", f"turnlog cost {quote(session)} --carrying"
        )
    opened = open_named(stores, session)
    if is_carrying:
        view = carrying_view(opened, by or "call", options["reveal"])
        if as_json:
            echo_json(replace(view, rows=view.rows[: limit or None]))
        else:
            directory = describe(locate_session(opened.path)).cwd
            echo_carrying(view, SHOWN if limit is None else limit, directory)
    elif as_json:
        echo_json(session_cost(opened))
    else:
        _print(session_cost(opened))


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
