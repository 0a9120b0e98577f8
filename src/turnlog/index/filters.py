"""The filters of searches and reports, and their conversion from user input to query values."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from turnlog.errors import UsageError
from turnlog.format.timestamps import Moment, parse_since, parse_until
from turnlog.index.reports.reports import Filters
from turnlog.index.search.selection import KINDS, ROLES, Selection
from turnlog.store.paths import folder_name, is_subagent_name
from turnlog.store.session_lookup import find_session
from turnlog.store.stores import AnyStores, find_holder


class SearchFilters(TypedDict, total=False):
    """Filters for a search; an absent one excludes nothing."""

    project: str | None
    """A project's directory, or part of its path."""
    session: str | None
    """An id, a title, a path or `last`; its sub-agents are searched as well."""
    since: Moment | None
    until: Moment | None
    role: str | None
    """`user`, `assistant` or `tool`."""
    kinds: Sequence[str]
    """Kinds of texts, such as prompt, answer, thinking, input or result."""
    tool: str | None
    file: str | None
    """The path of a file that calls read or changed, or the end of it."""
    errors: bool
    """Only failed calls and API errors."""
    model: str | None
    branch: str | None
    """A git branch."""
    subagents: bool


class ReportFilters(TypedDict, total=False):
    """Filters for a report; an absent one excludes nothing."""

    since: Moment | None
    until: Moment | None
    project: str | None
    """Part of a project's directory."""
    model: str | None
    """Part of a model's name."""


def filters_of(filters: ReportFilters) -> Filters:
    """Resolve the filters of a report: dates and ages to seconds since 1970."""
    since, until = filters.get("since"), filters.get("until")
    return Filters(
        None if since is None else parse_since(since).timestamp(),
        None if until is None else parse_until(until).timestamp(),
        filters.get("project"),
        filters.get("model"),
    )


def selection_of(stores: AnyStores, filters: SearchFilters) -> Selection:
    """Resolve the filters of a search: names of sessions and projects, dates and ages."""
    since, until = filters.get("since"), filters.get("until")
    file = filters.get("file")
    folder = _folder(filters.get("project"))
    session, store = _session(stores, filters.get("session"))
    return Selection(
        kinds=_kinds(filters.get("role"), tuple(filters.get("kinds", ()))),
        project=None if folder else filters.get("project"),
        folder=folder,
        since=None if since is None else parse_since(since).timestamp(),
        until=None if until is None else parse_until(until).timestamp(),
        tool=filters.get("tool"),
        model=filters.get("model"),
        branch=filters.get("branch"),
        errors=filters.get("errors", False),
        file=file.removeprefix("./") if file else None,
        session=session,
        store=store,
        no_subagents=not filters.get("subagents", True),
    )


def _kinds(role: str | None, kinds: tuple[str, ...]) -> tuple[str, ...]:
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or (role and role not in ROLES):
        name, known = (unknown[0], KINDS) if unknown else (role, tuple(ROLES))
        raise UsageError(f"cannot search for {name}: choose from {', '.join(known)}")
    allowed = ROLES[role] if role else KINDS
    chosen = tuple(kind for kind in kinds or allowed if kind in allowed)
    if not chosen:
        raise UsageError(f"no {' or '.join(kinds)} has the role {role}", "turnlog search --help")
    return () if chosen == KINDS else chosen


def _folder(project: str | None) -> str | None:
    """Return the name of a project's folder in the store, if `project` is a directory."""
    is_directory = project and Path(project).is_dir()
    return folder_name(str(Path(project).resolve())) if project and is_directory else None


def _session(stores: AnyStores, name: str | None) -> tuple[str | None, str | None]:
    """Return the id of a session, or the path of a sub-agent's file, and its store."""
    if name is None:
        return None, None
    found = find_session(stores, name)
    holder = find_holder(stores, found.path)
    session = str(found.path) if is_subagent_name(found.path.name) else found.id
    return session, holder and str(holder.root)
