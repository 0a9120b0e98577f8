"""Search by regular expression in a separate process, with a deadline.

`re` holds the GIL while it matches: `(a+)+$` on forty letters would block every other page, and
Ctrl-C, for years.
"""

import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from turnlog.errors import UsageError
from turnlog.index import service
from turnlog.index.search.search import SessionHits
from turnlog.index.service import SearchRequest
from turnlog.index.sync_policy import deferred_sync
from turnlog.store.paths import Store
from turnlog.store.stores import AnyStores, each_store

LONGEST = 10.0
"""Maximum seconds of a search."""
CHILD = "from turnlog.web.regex_search import answer_parent; answer_parent()"


class RegexQuery(NamedTuple):
    """The search that the child process runs, and the stores it searches."""

    roots: list[str]
    request: SearchRequest


class RegexAnswer(NamedTuple):
    """The sessions found, or an error with its hint."""

    found: list[SessionHits]
    error: str | None = None
    hint: str | None = None


def search_by_regex(
    stores: AnyStores, request: SearchRequest, longest: float = LONGEST
) -> list[SessionHits]:
    """Return the sessions whose texts match; raise `UsageError` if that takes too long."""
    roots = [str(store.root) for store in each_store(stores)]
    query = msgspec.msgpack.encode(RegexQuery(roots, request))
    command = [sys.executable, "-P", "-c", CHILD]
    try:
        done = subprocess.run(
            command, input=query, capture_output=True, timeout=longest, check=True
        )
    except subprocess.TimeoutExpired:
        message = f"the expression took more than {longest:g} seconds: use a simpler one"
        raise UsageError(message, "turnlog search --regex EXPRESSION") from None
    answer = msgspec.msgpack.decode(done.stdout, type=RegexAnswer)
    if answer.error:
        raise UsageError(answer.error, answer.hint)
    return answer.found


def answer_parent() -> None:
    """Read a query from stdin, and write its answer to stdout."""
    if hasattr(signal, "alarm"):
        # A parent that is killed cannot end this process, which `(a+)+$` would keep busy for years.
        # Without a handler, the signal ends it even while `re` holds the GIL.
        signal.alarm(int(LONGEST) + 2)
    query = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=RegexQuery)
    try:
        with deferred_sync():
            stores = [Store(Path(root)) for root in query.roots]
            found = service.search_sessions(stores, query.request)
            answer = RegexAnswer(list(islice(found, query.request.limit or None)))
    except UsageError as error:
        answer = RegexAnswer([], error.message, error.hint)
    sys.stdout.buffer.write(msgspec.msgpack.encode(answer))
