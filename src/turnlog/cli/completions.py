"""Shell completion of sessions and option values.

A shell shows nothing but completions, so skipped files are not reported.
"""

from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Literal

import click

from turnlog.errors import TurnlogError
from turnlog.format.regular_files import collect_skipped
from turnlog.store.stores import open_stores

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from turnlog.store.stores import AnyStores

FAMILIES = ("fable", "haiku", "opus", "sonnet")
MOST = 50
"""Maximum number of completions."""


def complete_session(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Complete the id of a session, with its title as help."""
    from click.shell_completion import CompletionItem

    from turnlog.cli.output import plain
    from turnlog.store.catalog import describe, list_sessions

    with collect_skipped():
        found = [each for each in list_sessions(_stores(ctx)) if each.id.startswith(incomplete)]
    return [CompletionItem(each.id, help=plain(describe(each).title)) for each in found[:MOST]]


def complete_directory(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Let the shell complete a directory."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="dir")]


def complete_project(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the directory of a project; the typed text may be any part of it."""
    from turnlog.store.catalog import describe, list_sessions

    with collect_skipped():
        # Read one session per project: the newest, whose directory is up to date.
        newest = {each.path.parent: each for each in reversed(list_sessions(_stores(ctx)))}
        directories = {describe(each).cwd for each in newest.values()}
    found = sorted(each for each in directories if each and incomplete.lower() in each.lower())
    return found[:MOST]


def complete_change(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Complete the id of a change, with its title as help."""
    from click.shell_completion import CompletionItem

    from turnlog.cli.output import plain
    from turnlog.edit.journal import open_journal

    found = [each for each in open_journal().records() if each.id.startswith(incomplete)]
    return [CompletionItem(each.id, help=plain(each.title)) for each in found[:MOST]]


def complete_tool(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a tool that occurs in the index, or that turnlog knows."""
    from turnlog.format.tools import KNOWN_TOOLS

    return _starting(incomplete, _indexed(ctx, "tool") or KNOWN_TOOLS)


def complete_model(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the id of a model that occurs in the index, or a family of models."""
    return _starting(incomplete, [*_indexed(ctx, "model"), *FAMILIES])


def complete_target(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a tracing backend."""
    from turnlog.trace.targets import PRESETS

    return _starting(incomplete, [*PRESETS, "perfetto"])


def _indexed(ctx: click.Context, column: Literal["tool", "model"]) -> list[str]:
    import sqlite3

    from turnlog.index.database import index_path
    from turnlog.index.reports.user_sql import used_names

    # A damaged or outdated index is a reason to offer less, not to print an error into a prompt.
    with suppress(TurnlogError, sqlite3.Error, OSError):
        return used_names(index_path(_stores(ctx)), column)
    return []


def _starting(incomplete: str, names: Iterable[str]) -> list[str]:
    found = (name for name in sorted(names) if name.lower().startswith(incomplete.lower()))
    return list(islice(found, MOST))


def _stores(ctx: click.Context) -> "AnyStores":
    return ctx.meta.get("turnlog.stores") or ctx.obj or open_stores()
