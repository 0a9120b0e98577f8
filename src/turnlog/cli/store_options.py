"""The stores that a command reads: the --store option, and commands that take several stores."""

from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from turnlog.cli.completions import complete_directory
from turnlog.cli.suggested_commands import choose
from turnlog.store.stores import distinct, open_stores, store_at

if TYPE_CHECKING:
    from turnlog.store.stores import Stores

STORES, CHOSEN = "turnlog.stores", "turnlog.chosen_stores"
"""Keys in `Context.meta`: the stores that a command reads, and those that --store named."""

FILLING = ("unbundle",)
"""Commands whose store may be a new directory."""


def stores_in(ctx: click.Context) -> "Stores":
    """Return the stores of a command line.

    They are opened when a command asks for them: a command that uses the first one only, such as a
    hook, does not report that another one is missing.
    """
    if STORES not in ctx.meta:
        ctx.meta[STORES] = open_stores()
    return ctx.meta[STORES]


def has_chosen_stores(ctx: click.Context) -> bool:
    """Return whether the command line names stores with --store."""
    return CHOSEN in ctx.meta


def use_stores(ctx: click.Context, stores: "Stores") -> None:
    """Set the stores of a command; a command that uses a single store gets the first."""
    ctx.meta[STORES], ctx.obj = stores, stores[0]


def _add_stores(ctx: click.Context, param: click.Parameter, folders: tuple[str, ...]) -> None:
    """Use the stores that --store names instead of the default ones; each option adds one."""
    if folders:
        # Before a command, its name is not known yet: the root command checks the rest.
        may_be_new = ctx.parent is None or ctx.command.name in FILLING
        named = (store_at(folder, may_be_new) for folder in folders)
        chosen = [*ctx.meta.get(CHOSEN, ()), *named]
        ctx.meta[CHOSEN] = distinct(chosen)
        use_stores(ctx, ctx.meta[CHOSEN])
        choose(word for each in ctx.meta[CHOSEN] for word in ("--store", str(each.root)))


# Eager, because `-o` refuses to overwrite sessions and has to know all stores.
store_option = click.option(
    "--store",
    metavar="DIR",
    multiple=True,
    is_eager=True,
    expose_value=False,
    callback=_add_stores,
    shell_complete=complete_directory,
    help="Use this configuration directory instead of ~/.claude; repeatable.",
)


def pass_stores(function: Any) -> Any:
    """Pass the stores of the command line as the first argument of a command."""

    @click.pass_context
    @wraps(function)
    def call(ctx: click.Context, *args: Any, **given: Any) -> Any:
        return ctx.invoke(function, stores_in(ctx), *args, **given)

    return call


def with_stores(function: Any) -> Any:
    """Add --store to a command, and pass its stores as the first argument."""
    return store_option(pass_stores(function))
