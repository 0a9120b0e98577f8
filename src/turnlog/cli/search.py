"""turnlog search: full text over all sessions."""

from pathlib import Path
from typing import Any

import click

from turnlog.cli.arguments import Since, Until, json_option, reveal_option
from turnlog.cli.searching import print_hits
from turnlog.cli.terminal import echo
from turnlog.errors import UsageError
from turnlog.index.search.selection import KINDS, ROLES, Selection
from turnlog.index.service import LIMIT, SearchRequest
from turnlog.store.paths import Store, folder_name


@click.command(
    "search", context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]}
)
@click.argument("query", nargs=-1, type=click.UNPROCESSED)
@click.option("--regex", "is_regex", is_flag=True, help="QUERY is a regular expression.")
@click.option("--project", metavar="TEXT", help="Only projects whose directory contains TEXT.")
@click.option("--session", metavar="SESSION", help="Only this session and its sub-agents.")
@click.option("--since", type=Since(), help="Only what is of a date or an age (3d, 12h) or newer.")
@click.option("--until", type=Until(), help="Only what is of this date or age, or older.")
@click.option("--role", type=click.Choice(list(ROLES)), help="Only what one of them wrote.")
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Only such texts.")
@click.option("--tool", metavar="NAME", help="Only calls of this tool and their results.")
@click.option("--file", metavar="PATH", help="Only calls on this file: its path, or the end of it.")
@click.option("--errors", is_flag=True, help="Only calls that failed, and errors of the API.")
@click.option("--model", metavar="NAME", help="Only turns that a model answered.")
@click.option("--branch", metavar="NAME", help="Only turns on this git branch.")
@click.option("--subagents/--no-subagents", default=True, help="Search sub-agents as well.")
@click.option(
    "--limit", type=click.IntRange(0), default=LIMIT, show_default=True, help="0 for all."
)
@reveal_option
@json_option
@click.pass_context
def command(ctx: click.Context, query: tuple[str, ...], **given: Any) -> None:
    """Search what was asked, said and done in all sessions.

    All words of QUERY must occur in a text. "a phrase", prefix*, a OR b, -word, (a b) OR c; code
    such as foo.bar() or --flag is found as it is typed.
    """
    if query == ("-h",):
        echo(ctx.get_help())
        return
    store: Store = ctx.obj
    request = SearchRequest(
        text=" ".join(query),
        is_regex=given["is_regex"],
        selection=_selection(store, given),
        limit=given["limit"],
        reveal=given["reveal"],
    )
    program = "turnlog --samples" if _is_of_samples(ctx) else "turnlog"
    print_hits(store, request, as_json=given["as_json"], program=program)


def _selection(store: Store, given: dict[str, Any]) -> Selection:
    since, until = given["since"], given["until"]
    return Selection(
        kinds=_kinds(given["role"], given["kinds"]),
        **_project(given["project"]),
        since=since.timestamp() if since else None,
        until=until.timestamp() if until else None,
        tool=given["tool"],
        model=given["model"],
        branch=given["branch"],
        errors=given["errors"],
        file=given["file"] and given["file"].removeprefix("./"),
        session=_session(store, given["session"]),
        no_subagents=not given["subagents"],
    )


def _kinds(role: str | None, kinds: tuple[str, ...]) -> tuple[str, ...]:
    allowed = ROLES[role] if role else KINDS
    chosen = tuple(kind for kind in kinds or allowed if kind in allowed)
    if not chosen:
        raise UsageError(f"no {' or '.join(kinds)} is of the role {role}", "turnlog search --help")
    return () if chosen == KINDS else chosen


def _project(text: str | None) -> dict[str, str | None]:
    """A directory, or part of one."""
    if text and Path(text).is_dir():
        return {"folder": folder_name(str(Path(text).resolve()))}
    return {"project": text}


def _session(store: Store, text: str | None) -> str | None:
    """The id of a session; a sub-agent goes by its path."""
    if text is None:
        return None
    from turnlog.store.session_lookup import find_session

    found = find_session(store, text)
    return str(found.path) if found.path.name.startswith("agent-") else found.id


def _is_of_samples(ctx: click.Context) -> bool:
    return ctx.parent is not None and bool(ctx.parent.params.get("samples"))
