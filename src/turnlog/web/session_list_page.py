"""The list of sessions: rows of one page, results of a search, values for the filters."""

from datetime import UTC, datetime
from itertools import islice
from typing import Any

from turnlog.conversation.live import LiveReader
from turnlog.errors import UsageError
from turnlog.format.json_values import Fields
from turnlog.format.timestamps import age, stamp_of
from turnlog.index.reports.session_list import MARK_NOTES, ListedSession, ListFilters
from turnlog.index.search.search import Hit, SessionHits
from turnlog.index.service import SearchRequest
from turnlog.index.session_query import parse_session_query, search_selection, session_filters
from turnlog.secrets import mask, mask_short, mask_value
from turnlog.text import exact_money, short_count
from turnlog.web.library import LiveIds
from turnlog.web.parameters import PageRequest, list_filters

ROWS = 100
"""Rows of a page, which then has about 40 kB."""
MOST_ROWS = 200
HITS = 30
"""Sessions that a search returns; the page asks for more on demand."""
MOST_HITS = 300


def list_rows(request: PageRequest) -> Fields:
    """Return a part of the sessions that match the filters, most recently active first."""
    offset = request.number("offset", 0, 10_000_000)
    limit = request.number("limit", ROWS, MOST_ROWS)
    page = request.library.page(list_filters(request), offset, limit)
    live = request.library.live_sessions()
    return {
        "rows": [session_row(key, session, live) for key, session in page.sessions],
        "offset": offset,
        "total": page.total,
        "generation": page.generation,
        **_index_state(request),
    }


def _index_state(request: PageRequest) -> Fields:
    refresher = request.library.refresher
    return {"is_indexing": not refresher.is_ready, "notice": refresher.notice}


def search_rows(request: PageRequest) -> Fields:
    """Return the sessions whose texts match a query in the language of `turnlog search`."""
    limit = request.number("limit", HITS, MOST_HITS)
    is_regex = request.text("regex") == "1"
    text, filters = _typed(request, is_regex)
    if not text:
        return _filtered(request, filters, limit)
    wanted = SearchRequest(
        text=text,
        is_regex=is_regex,
        selection=search_selection(filters),
        limit=limit + 1,
    )
    found = list(islice(request.library.search(wanted), limit + 1))
    rows = _listed(request, filters, found[:limit])
    return {"rows": rows, "has_more": len(found) > limit, **_index_state(request)}


def _typed(request: PageRequest, is_regex: bool) -> tuple[str, ListFilters]:
    """Return the text to search for, and the filters: those of the URL and those in the query."""
    line, filters = request.text("q") or "", list_filters(request)
    if is_regex:
        return line, filters
    parsed = parse_session_query(line)
    if not line or parsed.problems:
        raise UsageError(next(iter(parsed.problems), "nothing to search for"))
    states = {} if parsed.live is None else _live_states(request)
    typed = parsed.with_live(states)._asdict()
    given = {name: value for name, value in typed.items() if value is not None}
    return parsed.text, filters._replace(**given)


def _live_states(request: PageRequest) -> dict[str, str]:
    return {each.id: str(each.state) for each in LiveReader(request.library.stores).read()}


def _filtered(request: PageRequest, filters: ListFilters, limit: int) -> Fields:
    """Return the sessions that match a query of filters alone, without words to search for."""
    page = request.library.page(filters, 0, limit)
    live = request.library.live_sessions()
    rows: list[Fields] = [
        {**session_row(*each, live), "hits": [], "more": 0} for each in page.sessions
    ]
    return {"rows": rows, "has_more": page.total > limit, **_index_state(request)}


def filter_values(request: PageRequest) -> Fields:
    """Return the projects, branches, models, tools and tags that filters can name."""
    found = request.library.facets()
    # A filter by a masked name finds nothing, which is better than showing the secret in it.
    return mask_value({name: getattr(found, name) for name in found.__struct_fields__})


def session_row(key: str, session: ListedSession, live: LiveIds) -> Fields:
    """Return the values of a row in the list, formatted where the page shows them as they are."""
    active = datetime.fromtimestamp(session.last_active, UTC)
    return {
        "key": key,
        "title": mask(session.title or "") or session.id,
        "tag": mask_short(session.tag or ""),
        "age": age(active),
        "time": stamp_of(active),
        "project": mask_short(session.project or ""),
        "branch": mask_short(session.branch or ""),
        "models": list(map(mask_short, session.models)),
        "turns": session.turns,
        "calls": session.calls,
        "subagents": session.subagents,
        "tokens": short_count(session.tokens),
        "cost": f"{exact_money(session.cost_usd)}{session.marks}",
        "cost_note": cost_note(session),
        "is_live": (session.store, session.id) in live,
        "health": _health(session),
        "finding": session.finding and mask(session.finding),
    }


def cost_note(session: ListedSession) -> str:
    """Return an explanation of the marks of a cost; empty if it has none."""
    return "; ".join(MARK_NOTES[mark] for mark in session.marks)


def _health(session: ListedSession) -> str:
    if not session.is_checked:
        return "unchecked"
    return "broken" if session.finding else "ok"


def _listed(
    request: PageRequest, filters: ListFilters, found: list[tuple[str, SessionHits]]
) -> list[Fields]:
    """Return the rows of sessions with hits, without sessions that other filters exclude."""
    ids = {hits.id for _, hits in found}
    if filters.ids is not None:
        ids.intersection_update(filters.ids)
    # Only filters on whole sessions remain; the search has already applied the others to each text.
    others = session_filters(filters)._replace(ids=tuple(sorted(ids)))
    page = request.library.page(others, 0, 2 * MOST_HITS)
    live = request.library.live_sessions()
    by_path = {session.path: (key, session) for key, session in page.sessions}
    rows: list[Fields] = []
    for _, hits in found:
        if listed := by_path.get(hits.path):
            rows.append({**session_row(*listed, live), "hits": _hits(hits), "more": hits.more})
    return rows


def _hits(found: SessionHits) -> list[dict[str, Any]]:
    return [
        {"agent": turn.id if turn.is_subagent else None, **_hit(hit)}
        for turn in found.turns
        for hit in turn.hits
    ]


def _hit(hit: Hit) -> dict[str, Any]:
    return {
        "kind": hit.kind,
        "tool": hit.tool and mask_short(hit.tool),
        "is_error": hit.is_error,
        "line": hit.line,
        "text": hit.text,
        "marks": hit.marks,
    }
