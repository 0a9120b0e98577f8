"""Run a search and print its hits as they are found."""

from turnlog.cli.hits import lines_of
from turnlog.cli.indexing import ON_STDERR
from turnlog.cli.output import echo_json, width
from turnlog.cli.terminal import dim, echo
from turnlog.errors import NotFound
from turnlog.index.service import SearchRequest, search_sessions
from turnlog.store.paths import Store


def print_hits(
    store: Store, request: SearchRequest, *, as_json: bool = False, program: str = "turnlog"
) -> None:
    """Search the sessions of a store, and print what is found; `program` opens a hit."""
    found = search_sessions(store, request, ON_STDERR)
    if as_json:
        echo_json(list(found))
        return
    count = 0
    for count, each in enumerate(found, 1):
        if count > 1:
            echo()
        for line in lines_of(each, width(), program):
            echo(line)
    _remark(count, request)


def _remark(count: int, request: SearchRequest) -> None:
    """Say that nothing was found, or that there may be more."""
    if not count:
        is_word = request.text.isalnum() and not request.is_regex
        hint = f"turnlog search --regex {request.text}" if is_word else "turnlog search --help"
        raise NotFound(f"nothing found for {request.text!r}", hint)
    if count == request.limit:
        echo(dim(f"the best {count} sessions; --limit 0 shows all"), err=True)
