"""Command lines that are run as they are typed; all others are parsed first.

What parses takes a quarter of a status line's time to load.
"""

import os
from collections.abc import Callable

from turnlog.format.regular_files import collect_skipped
from turnlog.store.paths import open_store

COMPLETE = "_TURNLOG_COMPLETE"
"""Set by the script that `turnlog completion` prints."""


def direct(arguments: list[str]) -> Callable[[], None] | None:
    """What a command line does, if that can be told without parsing it."""
    if COMPLETE in os.environ:
        return None
    match arguments:
        case ["statusline"]:
            return _print_status
        case ["search", _, *_] if not any(word.startswith("-") for word in arguments):
            return lambda: _search(arguments[1:])
        case _:
            return None


def _print_status() -> None:
    from turnlog.cli.status import print_status

    # A status line is shown on every prompt: files it had to skip are for other commands to report.
    with collect_skipped():
        print_status(open_store())


def _search(words: list[str]) -> None:
    from turnlog.cli.searching import print_hits
    from turnlog.index.service import SearchRequest

    print_hits(open_store(), SearchRequest(" ".join(words)))
