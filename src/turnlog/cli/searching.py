"""A search, from what is wanted to what is printed."""

from typing import NamedTuple

from turnlog.cli.hits import lines_of
from turnlog.cli.indexing import asked_index
from turnlog.cli.output import echo_json, width
from turnlog.cli.terminal import dim, echo
from turnlog.errors import NotFound
from turnlog.index.search.selection import Selection
from turnlog.index.search.word_search import Begun, SearchTerms, begin, understand
from turnlog.index.speculative import Ahead
from turnlog.store.paths import Store, archive_folder

ALL_TURNS = 1000
"""Of one session, which is asked for."""
LIMIT = 10


class Asked(NamedTuple):
    """What the user types."""

    text: str
    is_regex: bool = False
    selection: Selection = Selection()
    limit: int = LIMIT
    """Of sessions; 0 for all."""
    reveal: bool = False
    """Show secrets."""
    as_json: bool = False
    program: str = "turnlog"
    """What opens a hit."""


def print_hits(store: Store, asked: Asked) -> None:
    """Search the sessions of a store, and print what is found as it is found."""
    query = understand(asked.text, asked.is_regex)
    wanted = SearchTerms(query, asked.selection, asked.limit, archive_folder())
    with asked_index(store, lambda db: None if query.pattern else begin(db, wanted)) as ahead:
        _print(ahead, wanted, asked)


def _print(ahead: Ahead[Begun | None], wanted: SearchTerms, asked: Asked) -> None:
    # What reads entries is loaded while SQLite ranks.
    from turnlog.index.search.search import ResultLimits, search

    turns = ALL_TURNS if asked.selection.session else ResultLimits().turns
    db, begun = ahead.answer()
    found = search(db, wanted, ResultLimits(turns, reveal=asked.reveal), begun)
    if asked.as_json:
        echo_json(list(found))
        return
    count = 0
    for count, each in enumerate(found, 1):
        if count > 1:
            echo()
        for line in lines_of(each, width(), asked.program):
            echo(line)
    _remark(count, asked)


def _remark(count: int, asked: Asked) -> None:
    """Say that nothing was found, or that there may be more."""
    if not count:
        is_word = asked.text.isalnum() and not asked.is_regex
        hint = f"turnlog search --regex {asked.text}" if is_word else "turnlog search --help"
        raise NotFound(f"nothing found for {asked.text!r}", hint)
    if count == asked.limit:
        echo(dim(f"the best {count} sessions; --limit 0 shows all"), err=True)
