"""Run a search and print its hits as they are found."""

import sys
from collections.abc import Iterable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from turnlog.cli.hits import lines_of
from turnlog.cli.indexing import ON_STDERR
from turnlog.cli.output import echo_json, width
from turnlog.cli.suggested_commands import store_of
from turnlog.cli.terminal import dim, echo
from turnlog.errors import NotFound
from turnlog.index.search.selection import Selection
from turnlog.index.service import SearchRequest, search_sessions
from turnlog.store.stores import AnyStores, all_session_files, no_sessions

if TYPE_CHECKING:
    from turnlog.index.search.search import SessionHits
    from turnlog.index.similarity import LikeRequest


def print_hits(
    stores: AnyStores,
    request: SearchRequest,
    *,
    as_json: bool = False,
    option_hint: str | None = None,
) -> None:
    """Search stores and print the hits; suggest `option_hint` if there are none."""
    found = search_sessions(stores, request, ON_STDERR)
    if as_json:
        echo_json(list(found))
        return
    count = _print_all(found, stores)
    if not count:
        _require_sessions(stores, f"search {quote(request.text)}")
        raise NotFound(f"nothing found for {request.text!r}", option_hint or _wider(request))
    if count == request.limit:
        best = "session" if count == 1 else f"{count} sessions"
        echo(dim(f"the best {best}; --limit 0 shows all"), err=True)


def print_like(stores: AnyStores, request: "LikeRequest", *, as_json: bool) -> None:
    """Search by meaning and print the hits."""
    from turnlog.index.similarity import like_sessions

    found = like_sessions(stores, request, ON_STDERR)
    if as_json:
        echo_json(list(found))
    elif not _print_all(found, stores):
        _require_sessions(stores, f"search --like {quote(request.text)}")
        what = request.session.stem if request.session else repr(request.text)
        raise NotFound(f"nothing is similar to {what}", "turnlog search --help")


def _print_all(found: "Iterable[SessionHits]", stores: AnyStores) -> int:
    """Print hits as they are found; return the number of sessions."""
    count = 0
    for count, each in enumerate(found, 1):
        if count > 1:
            echo()
        store = store_of(stores, Path(each.path))
        for line in lines_of(each, width(), store, wraps=sys.stdout.isatty()):
            echo(line)
    return count


def _require_sessions(stores: AnyStores, command: str) -> None:
    """Raise NotFound if there is nothing to search, neither in the stores nor in the archive."""
    from turnlog.store.archive.archive import open_archive

    if not any(all_session_files(stores)) and not open_archive().names():
        raise no_sessions(stores, command)


def _wider(request: SearchRequest) -> str:
    """Return a command that may find more: without filters, within words, or by meaning."""
    text, mode = quote(request.text), " --regex" if request.is_regex else ""
    if text.startswith(("-", "'-")):
        return "turnlog search --help"
    if request.selection != Selection(store=request.selection.store):
        return f"turnlog search{mode} {text}"
    if request.is_regex:
        return "turnlog search --help"
    return f"turnlog search {'--regex' if request.text.isalnum() else '--like'} {text}"
