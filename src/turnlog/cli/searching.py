"""Run a search and print its hits as they are found."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from turnlog.cli.hits import lines_of
from turnlog.cli.indexing import ON_STDERR
from turnlog.cli.output import echo_json, width
from turnlog.cli.terminal import dim, echo
from turnlog.errors import NotFound
from turnlog.index.service import SearchRequest, search_sessions
from turnlog.store.stores import AnyStores

if TYPE_CHECKING:
    from turnlog.index.search.search import SessionHits
    from turnlog.index.similarity import LikeRequest


def print_hits(
    stores: AnyStores,
    request: SearchRequest,
    *,
    as_json: bool = False,
    program: str = "turnlog",
    option_hint: str | None = None,
) -> None:
    """Search stores and print the hits; `program` is the command that opens one.

    `option_hint` is the command to suggest if nothing is found.
    """
    found = search_sessions(stores, request, ON_STDERR)
    if as_json:
        echo_json(list(found))
        return
    _remark(_print_all(found, program), request, option_hint)


def print_like(stores: AnyStores, request: "LikeRequest", *, as_json: bool, program: str) -> None:
    """Search by meaning and print the hits."""
    from turnlog.index.similarity import like_sessions

    found = like_sessions(stores, request, ON_STDERR)
    if as_json:
        echo_json(list(found))
    elif not _print_all(found, program):
        what = request.session.stem if request.session else repr(request.text)
        raise NotFound(f"nothing is like {what}", "turnlog search --help")


def _print_all(found: "Iterable[SessionHits]", program: str) -> int:
    """Print hits as they are found; return of how many sessions."""
    count = 0
    for count, each in enumerate(found, 1):
        if count > 1:
            echo()
        for line in lines_of(each, width(), program):
            echo(line)
    return count


def _remark(count: int, request: SearchRequest, option_hint: str | None) -> None:
    """Raise NotFound if there are no hits; note on stderr that there may be more."""
    if not count:
        is_word = request.text.isalnum() and not request.is_regex
        hint = f"turnlog search --regex {request.text}" if is_word else "turnlog search --help"
        raise NotFound(f"nothing found for {request.text!r}", option_hint or hint)
    if count == request.limit:
        echo(dim(f"the best {count} sessions; --limit 0 shows all"), err=True)
