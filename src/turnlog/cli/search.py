"""turnlog search: full-text search over all sessions."""

from itertools import pairwise
from shlex import quote
from typing import Any, cast

import click

from turnlog.cli.arguments import (
    json_option,
    limit_option,
    output_option,
    project_option,
    reveal_option,
    since_option,
    until_option,
)
from turnlog.cli.completions import complete_model, complete_session, complete_tool
from turnlog.cli.searching import print_hits, print_like
from turnlog.cli.store_options import store_option, stores_in
from turnlog.cli.suggestions import nearest, visible_options
from turnlog.cli.terminal import echo
from turnlog.errors import UsageError
from turnlog.index.filters import SearchFilters, selection_of
from turnlog.index.search.selection import KINDS, ROLES, Selection
from turnlog.index.service import LIMIT, SearchRequest
from turnlog.store.stores import Stores


class SearchCommand(click.Command):
    """A command whose words may start with a dash: `-word` excludes a word."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, expand_short_options(args))


def expand_short_options(words: list[str]) -> list[str]:
    """Replace -n and -o by their long forms where a value follows.

    click must not know the short forms: it would read `-needle`, which excludes a word, as
    `-n eedle`.

    >>> expand_short_options(["pool", "-n", "3", "-needle"])
    ['pool', '--limit', '3', '-needle']
    """
    expanded = list(words)
    for place, (word, value) in enumerate(pairwise(words)):
        if word == "-n" and value.isdecimal():
            expanded[place] = "--limit"
        elif word == "-o":
            expanded[place] = "--output"
    return expanded


@click.command(
    "search",
    cls=SearchCommand,
    context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]},
)
@click.argument("query", nargs=-1, type=click.UNPROCESSED)
@click.option("--regex", "is_regex", is_flag=True, help="Treat QUERY as a regular expression.")
@click.option(
    "--like",
    metavar="TEXT|SESSION",
    shell_complete=complete_session,
    help="Search by meaning: texts like TEXT, or like a session.",
)
@project_option
@click.option(
    "--session",
    metavar="SESSION",
    shell_complete=complete_session,
    help="Only this session and its sub-agents.",
)
@since_option("texts")
@until_option("texts")
@click.option("--role", type=click.Choice(list(ROLES)), help="Only texts written by this role.")
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(KINDS),
    multiple=True,
    help="Only texts of this kind; repeatable.",
)
@click.option(
    "--tool",
    metavar="NAME",
    shell_complete=complete_tool,
    help="Only calls of this tool and their results.",
)
@click.option("--file", metavar="PATH", help="Only calls on the file whose path ends in PATH.")
@click.option("--errors", is_flag=True, help="Only failed calls and API errors.")
@click.option(
    "--model",
    metavar="TEXT",
    shell_complete=complete_model,
    help="Only turns answered by a model whose id contains TEXT.",
)
@click.option("--branch", metavar="NAME", help="Only turns on this git branch.")
@click.option("--subagents/--no-subagents", default=True, help="Include sub-agents.")
@limit_option("sessions", LIMIT, is_long_only=True)
@output_option(is_long_only=True)
@reveal_option
@json_option
@store_option
@click.pass_context
def command(ctx: click.Context, query: tuple[str, ...], **given: Any) -> None:
    """Search prompts, answers, tool calls and results of all sessions.

    All words of QUERY must occur in a text. QUERY may contain "a phrase", a prefix*, alternatives
    (a OR b), a word to exclude (-word) and parentheses. Code such as foo.bar() or --flag is found
    as typed.

    --like searches by meaning: a question may use other words than the session, and a session
    finds similar ones.

    -n N and -o FILE are short for --limit and --output.

    \b
    Examples:
      turnlog search --like "why were people logged out" --since 2w
      turnlog search timeout OR deadline --errors --tool Bash
      turnlog search --regex 'TODO\\(\\w+\\)' --kind answer
      turnlog search migration -n 3 --json
    """
    # `-h` excludes a word, like any other word with a dash; alone, it can only be meant as help.
    if query == ("-h",):
        echo(ctx.get_help())
        return
    stores = stores_in(ctx)
    if given["like"] is not None:
        _search_like(ctx, stores, query, given)
        return
    request = SearchRequest(
        text=" ".join(query),
        is_regex=given["is_regex"],
        selection=_selection(stores, given),
        limit=given["limit"],
        reveal=given["reveal"],
    )
    print_hits(
        stores,
        request,
        as_json=given["as_json"],
        option_hint=_option_hint(ctx, query),
    )


def _search_like(
    ctx: click.Context, stores: Stores, query: tuple[str, ...], given: dict[str, Any]
) -> None:
    from turnlog.index.similarity import LikeRequest, session_named

    text = given["like"]
    if query or given["is_regex"]:
        hint = f"turnlog search --like {quote(' '.join([text, *query]))}"
        raise UsageError("--like cannot be combined with QUERY or --regex", hint)
    session = session_named(stores, text)
    request = LikeRequest(
        text=text,
        session=session,
        selection=_selection(stores, given),
        limit=given["limit"],
        reveal=given["reveal"],
    )
    print_like(stores, request, as_json=given["as_json"])


def _option_hint(ctx: click.Context, query: tuple[str, ...]) -> str | None:
    """Return a hint if a word of the query resembles an option: `--limt` is searched as code."""
    words = [word.partition("=")[0] for word in query if word.startswith("--")]
    matches = (nearest(word, visible_options(ctx)) for word in words)
    match = next(filter(None, matches), None)
    return f"turnlog search {match}" if match else None


def _selection(stores: Stores, given: dict[str, Any]) -> Selection:
    names = SearchFilters.__annotations__
    return selection_of(stores, cast(SearchFilters, {name: given[name] for name in names}))
