"""Run a search and print its hits as they are found."""

from turnlog.cli.hits import lines_of
from turnlog.cli.indexing import ON_STDERR
from turnlog.cli.output import echo_json, width
from turnlog.cli.terminal import dim, echo
from turnlog.errors import NotFound
from turnlog.index.service import SearchRequest, search_sessions
from turnlog.store.stores import AnyStores


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
    count = 0
    for count, each in enumerate(found, 1):
        if count > 1:
            echo()
        for line in lines_of(each, width(), program):
            echo(line)
    _remark(count, request, option_hint)


def _remark(count: int, request: SearchRequest, option_hint: str | None) -> None:
    """Raise NotFound if there are no hits; note on stderr that there may be more."""
    if not count:
        is_word = request.text.isalnum() and not request.is_regex
        hint = f"turnlog search --regex {request.text}" if is_word else "turnlog search --help"
        raise NotFound(f"nothing found for {request.text!r}", option_hint or hint)
    if count == request.limit:
        echo(dim(f"the best {count} sessions; --limit 0 shows all"), err=True)
