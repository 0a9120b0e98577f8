"""Query the index; commands and library users call these functions.

They accept one store or several. Several stores share one index, in which a message that two of
them contain counts once. Every function brings the index up to date first, except within
`sync_policy.deferred_sync`.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from turnlog.errors import UsageError
from turnlog.index.search.selection import Selection
from turnlog.index.search.word_search import Begun, SearchTerms, begin, parse_search
from turnlog.index.sync_policy import SILENT, Feedback, speculative_index, synced_index
from turnlog.store.paths import archive_folder
from turnlog.store.stores import AnyStores

if TYPE_CHECKING:
    from pathlib import Path

    from turnlog.index.reports.failures import FailedCall, FailureQuery
    from turnlog.index.reports.reports import Filters, Report, ReportRequest
    from turnlog.index.reports.session_list import (
        CallSummary,
        Facets,
        ListedSession,
        ListFilters,
        Matches,
    )
    from turnlog.index.reports.user_sql import IndexTable, SqlResult
    from turnlog.index.search.relaxed_search import RecalledSession
    from turnlog.index.search.search import SessionHits
    from turnlog.index.search.turn_outcomes import LineOf, TurnOutcome

ALL_TURNS = 1000
"""Turns shown when the search is limited to one session."""
FILE_CALLS = 500
"""Calls on one file that are returned by default."""
SHELLS = ("Bash", "PowerShell")
LIMIT = 10
"""Default number of sessions in a search result."""


class SearchRequest(NamedTuple):
    """A search as the user asked for it."""

    text: str
    is_regex: bool = False
    selection: Selection = Selection()
    limit: int = LIMIT
    """Maximum number of sessions; 0 for all."""
    reveal: bool = False
    """Show secrets instead of masking them."""
    hides_secrets: bool = False
    """Search the masked texts, so that no hit confirms a part of a secret."""


def search_sessions(
    stores: AnyStores, request: SearchRequest, feedback: Feedback = SILENT
) -> "Iterator[SessionHits]":
    """Search the texts of all sessions; yield the best sessions first, as they are found."""
    query = parse_search(request.text, request.is_regex)
    terms = SearchTerms(query, request.selection, request.limit, archive_folder())

    def ask(db: sqlite3.Connection) -> Begun | None:
        return None if query.pattern else begin(db, terms)

    with speculative_index(stores, ask, feedback) as speculative:
        # Import the modules that decode entries while SQLite ranks in its own thread.
        from turnlog.index.search.search import ResultLimits, search

        turns = ALL_TURNS if request.selection.session else ResultLimits().turns
        db, begun = speculative.answer()
        shown = ResultLimits(turns, reveal=request.reveal, hides_secrets=request.hides_secrets)
        yield from search(db, terms, shown, begun)


def recall_sessions(
    stores: AnyStores, request: SearchRequest, feedback: Feedback = SILENT
) -> "Iterator[RecalledSession]":
    """Search for a question: sessions with all of its words first, then those with some."""
    from turnlog.index.search.relaxed_search import search_relaxed
    from turnlog.index.search.search import ResultLimits

    query = parse_search(request.text, request.is_regex)
    terms = SearchTerms(query, request.selection, request.limit, archive_folder())
    with synced_index(stores, words=True, feedback=feedback) as index:
        shown = ResultLimits(reveal=request.reveal, hides_secrets=request.hides_secrets)
        yield from search_relaxed(index.db, terms, request.text, shown)


def outcomes_of_turns(
    stores: AnyStores, lines: "Sequence[LineOf]", feedback: Feedback = SILENT
) -> "dict[LineOf, TurnOutcome]":
    """Return the last answer, masked, of the turn that each line of a session file belongs to."""
    from turnlog.index.search.turn_outcomes import turn_outcomes

    with synced_index(stores, words=True, feedback=feedback) as index:
        return turn_outcomes(index.db, lines, archive_folder())


def outcome_of_session(
    stores: AnyStores, path: "Path", feedback: Feedback = SILENT
) -> "TurnOutcome | None":
    """Return the last answer of a session, masked."""
    from turnlog.index.search.turn_outcomes import last_outcome

    with synced_index(stores, words=True, feedback=feedback) as index:
        return last_outcome(index.db, str(path), archive_folder())


def failures(
    stores: AnyStores, query: "FailureQuery", feedback: Feedback = SILENT
) -> "list[FailedCall]":
    """Return failed calls like a command or a message, each with the calls that fixed it."""
    from turnlog.index.reports.failures import find_failures

    with synced_index(stores, words=True, feedback=feedback) as index:
        return find_failures(index.db, query, archive_folder())


def report(
    stores: AnyStores,
    name: str,
    filters: "Filters | None" = None,
    *,
    by: tuple[str, ...] = (),
    feedback: Feedback = SILENT,
) -> "Report":
    """Compute a report over all sessions, each message, prompt and call counted once.

    `by` groups its rows by further dimensions, such as project and model.
    """
    from turnlog.index.reports.report_cache import cached_report
    from turnlog.index.reports.reports import CARRYING, EVERYTHING, OF_WORK, REPORTS

    if name == CARRYING:
        return _carrying_report(stores, filters or EVERYTHING, by, feedback)
    if name not in REPORTS:
        known = ", ".join([*REPORTS, CARRYING])
        raise UsageError(f"no report {name}: choose from {known}", "turnlog stats")
    with synced_index(stores, feedback=feedback, work_only=name in OF_WORK) as index:
        return cached_report(index.db, name, filters or EVERYTHING, by)


def report_on_sessions(
    stores: AnyStores, request: "ReportRequest", numbers: Sequence[int], feedback: Feedback = SILENT
) -> "Report":
    """Compute a report over some sessions, given by their numbers, and their sub-agents."""
    from turnlog.index.reports.reports import run_report
    from turnlog.index.session_scope import only_sessions

    with synced_index(stores, feedback=feedback) as index, only_sessions(index.db, numbers):
        return run_report(index.db, request.name, request.filters, by=request.by)


def _carrying_report(
    stores: AnyStores, filters: "Filters", by: tuple[str, ...], feedback: Feedback
) -> "Report":
    from turnlog.index.reports.carrying_report import carrying_report
    from turnlog.index.reports.report_cache import cached_answer
    from turnlog.index.reports.reports import CARRYING, Report

    with synced_index(stores, feedback=feedback) as index, feedback.progress() as progress:
        found = cached_answer(
            index,
            [CARRYING, filters, by],
            lambda: carrying_report(index, filters, by, progress),
        )
    return Report(*found)


def carrying_tree(
    stores: AnyStores,
    filters: "Filters | None" = None,
    least: float = 0.0005,
    feedback: Feedback = SILENT,
) -> dict[str, Any]:
    """Return the carrying costs of all sessions as a tree for a flame graph.

    Its levels are project, session, turn, tool and file; parts whose share of the total is below
    `least` are merged.
    """
    from turnlog.index.reports.carrying_report import nest_costs
    from turnlog.index.reports.report_cache import cached_answer
    from turnlog.index.reports.reports import EVERYTHING

    chosen = filters or EVERYTHING
    with synced_index(stores, feedback=feedback) as index, feedback.progress() as progress:
        return cached_answer(
            index,
            ["carrying tree", chosen, least],
            lambda: nest_costs(index, chosen, progress, least),
        )


def list_calls(
    stores: AnyStores, filters: "Filters | None" = None, feedback: Feedback = SILENT
) -> "Report":
    """Return every tool call as a row, without copies, the oldest first."""
    from turnlog.index.reports.reports import EVERYTHING, run_report

    with synced_index(stores, feedback=feedback) as index:
        return run_report(index.db, "calls", filters or EVERYTHING)


def file_calls(
    stores: AnyStores, path: str, limit: int = FILE_CALLS, feedback: Feedback = SILENT
) -> "Report":
    """Return the calls that read or changed one file, in all sessions, the newest first."""
    from turnlog.index.reports.reports import run_query_file

    with synced_index(stores, feedback=feedback) as index:
        return run_query_file(index.db, "file_calls", {"path": path, "limit": limit})


def sessions_touching(
    stores: AnyStores, path: str, ending: str, feedback: Feedback = SILENT
) -> "dict[str, list[Path]]":
    """Return the files of the sessions that read or changed a file, by the file's path.

    If none names `path`, all files whose paths end with `ending` count.
    """
    from turnlog.index.known_files import sessions_with_path

    with synced_index(stores, feedback=feedback) as index:
        return sessions_with_path(index.db, path, ending)


def sessions_running(stores: AnyStores, path: str, feedback: Feedback = SILENT) -> "list[Path]":
    """Return the files of the sessions with shell commands that mention a file by its name."""
    from pathlib import Path

    # Search for the file's name only: a command may run in any directory, or change it first.
    name = path.replace("\\", "/").rstrip("/").rpartition("/")[2].replace('"', " ")
    found: dict[str, None] = {}
    for tool in SHELLS if name.strip() else ():
        selection = Selection(kinds=("input",), tool=tool)
        request = SearchRequest(f'"{name}"', selection=selection, limit=0)
        found |= dict.fromkeys(hits.path for hits in search_sessions(stores, request, feedback))
    return [Path(path) for path in found]


def report_batch(
    stores: AnyStores, requests: "Sequence[ReportRequest]", feedback: Feedback = SILENT
) -> "list[Report]":
    """Compute several reports on one state of the index, which is brought up to date once."""
    from turnlog.index.reports.report_cache import cached_report

    with synced_index(stores, feedback=feedback) as index:
        return [cached_report(index.db, *request) for request in requests]


def run_sql(stores: AnyStores, statement: str, feedback: Feedback = SILENT) -> "SqlResult":
    """Run one SQL query on the index, which is opened read-only."""
    from turnlog.index.reports.user_sql import run_query

    # Indexing words takes most of a sync, and only statements that name these tables need them.
    words = any(name in statement.lower() for name in ("docs", "words"))
    with synced_index(stores, words=words, feedback=feedback) as index:
        return run_query(index.path, statement)


def list_tables(stores: AnyStores, feedback: Feedback = SILENT) -> "list[IndexTable]":
    """Return the tables and views that `run_sql` can query."""
    from turnlog.index.reports.user_sql import tables_of

    with synced_index(stores, feedback=feedback) as index:
        return tables_of(index.path)


def match_sessions(stores: AnyStores, filters: "ListFilters") -> "Matches":
    """Return which sessions match some filters, most recently active first."""
    from turnlog.index.ingest.change_check import generation
    from turnlog.index.reports.session_list import find_matches

    with synced_index(stores) as index:
        return find_matches(index.db, filters, generation(index.db))


def describe_sessions(stores: AnyStores, numbers: "Sequence[int]") -> "dict[int, ListedSession]":
    """Return the figures of sessions that `match_sessions` found, by their numbers."""
    from turnlog.index.reports.session_list import describe_listed

    with synced_index(stores) as index:
        return describe_listed(index.db, numbers)


def recent_sessions(stores: AnyStores, limit: int) -> "list[ListedSession]":
    """Return the figures of the most recently active sessions, the latest first."""
    from turnlog.index.reports.session_list import describe_listed, recent_numbers

    with synced_index(stores) as index:
        numbers = recent_numbers(index.db, limit)
        found = describe_listed(index.db, numbers)
        return [found[number] for number in numbers if number in found]


def call_summary(stores: AnyStores, path: "Path") -> "CallSummary":
    """Return the tools and files of the calls of a session, given by its file."""
    from turnlog.index.reports.session_list import summarize_calls

    with synced_index(stores) as index:
        return summarize_calls(index.db, path)


def facets(stores: AnyStores) -> "Facets":
    """Return the values that the filters of a session list can take."""
    from turnlog.index.reports.session_list import list_facets

    with synced_index(stores) as index:
        return list_facets(index.db)


def find_paths(stores: AnyStores, id_: str) -> "list[Path]":
    """Return the files of the session or sub-agent with an id; several if it was copied."""
    from turnlog.index.reports.session_list import session_paths

    with synced_index(stores) as index:
        return session_paths(index.db, id_)


def session_of(stores: AnyStores, path: "Path") -> str | None:
    """Return the id of the session that a file, such as a sub-agent's, belongs to."""
    from turnlog.index.session_scope import owner_of_file

    with synced_index(stores) as index:
        return owner_of_file(index.db, path)


def session_of_call(stores: AnyStores, call_id: str) -> str | None:
    """Return the id of the session that made a call."""
    from turnlog.index.session_scope import owner_of_call

    with synced_index(stores) as index:
        return owner_of_call(index.db, call_id)


def index_generation(stores: AnyStores) -> int:
    """Return a number that changes when the figures of the index do."""
    from turnlog.index.ingest.change_check import generation

    with synced_index(stores) as index:
        return generation(index.db)
