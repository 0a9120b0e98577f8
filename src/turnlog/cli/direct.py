"""Run simple command lines without importing click.

Importing click would take a quarter of the time of a status line.
"""

import os
from collections.abc import Callable

from turnlog.format.regular_files import collect_skipped
from turnlog.store.stores import open_stores

COMPLETE = "_TURNLOG_COMPLETE"
"""Set by the script that `turnlog completion` prints."""


def direct(arguments: list[str]) -> Callable[[], None] | None:
    """Return the function for a command line without options; None if click must parse it."""
    if COMPLETE in os.environ:
        return None
    match arguments:
        case ["statusline"]:
            return _print_status
        case ["search", _, *_] if not any(word.startswith("-") for word in arguments):
            return lambda: _search(arguments[1:])
        case ["search", "--like", text] if not text.startswith("-"):
            return lambda: _search_like(text)
        case _:
            return None


def _print_status() -> None:
    from turnlog.cli.status import print_status

    # A status line is drawn for every prompt, and must not repeat warnings about skipped files:
    # other commands print them.
    with collect_skipped():
        print_status(open_stores())


def _search(words: list[str]) -> None:
    from turnlog.cli.searching import print_hits
    from turnlog.index.service import SearchRequest

    print_hits(open_stores(), SearchRequest(" ".join(words)))


def _search_like(text: str) -> None:
    from turnlog.cli.searching import print_like
    from turnlog.index.similarity import LikeRequest, session_named

    stores = open_stores()
    request = LikeRequest(text, session_named(stores, text))
    print_like(stores, request, as_json=False)
