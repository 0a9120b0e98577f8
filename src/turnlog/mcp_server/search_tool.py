"""The tool `search`: texts of earlier sessions, best first, each with what its turn ended with."""

from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from turnlog.errors import NotFound, UsageError
from turnlog.format.timestamps import parse_since, parse_until
from turnlog.index import service
from turnlog.index.search.search import Hit, SessionHits, TurnHits
from turnlog.index.search.selection import KINDS, Selection
from turnlog.index.search.turn_outcomes import TurnOutcome
from turnlog.index.service import SearchRequest
from turnlog.index.similarity import LikeRequest, is_reference, like_sessions
from turnlog.mcp_server.answers import ToolAnswer
from turnlog.mcp_server.citations import brief, cite, local_time, parse_reference
from turnlog.mcp_server.history import History, short_id
from turnlog.web.regex_search import search_by_regex

MOST_SESSIONS = 25
PROMPT = 240
OUTCOME = 600
"""Characters of the answer that a turn ended with."""
Lines = dict[tuple[str, int], TurnOutcome]


def search(history: History, given: dict[str, Any]) -> ToolAnswer:
    """Search for words or a question."""
    text = given["query"]
    if not text.strip():
        raise UsageError("query is empty: name a word, a phrase or a question")
    numbers = history.numbers()
    limit = given.get("limit", 6)
    found: list[SessionHits] = []
    if numbers:
        selection = _selection(history, given, numbers)
        found = list(islice(_ask(history, given, selection, limit), limit))
    head = (
        f"search {text[:200]!r} in {history.scope.label}: {len(found)} of at most {limit} sessions"
    )
    if not found:
        return ToolAnswer(head, [], "Nothing found. Try `like`, other words, or `sessions`.")
    outcomes = service.outcomes_of_turns(history.stores, _lines(found))
    blocks = [_session(history, hits, outcomes) for hits in found]
    return ToolAnswer(head, blocks, 'To read on: read(ref="…") with a reference from above.')


def _ask(
    history: History, given: dict[str, Any], selection: Selection, limit: int
) -> Iterable[SessionHits]:
    text, is_regex = given["query"], given.get("regex", False)
    if given.get("like", False):
        if is_regex:
            raise UsageError("like and regex exclude each other")
        like = LikeRequest(text, _session_file(history, text), selection, limit)
        return like_sessions(history.stores, like)
    request = SearchRequest(text, is_regex, selection, limit)
    # A model's expression runs in a process of its own: `re` would block the whole server, which
    # then would not even notice that its client is gone.
    ask = search_by_regex if is_regex else service.recall_sessions
    return ask(history.stores, request)


def _session_file(history: History, text: str) -> Path | None:
    """Return the file of the session in scope that a query names; None for a question."""
    with suppress(NotFound, UsageError):
        name = parse_reference(text).session
        return history.find(name)[1] if is_reference(name) else None
    return None


def _selection(history: History, given: dict[str, Any], numbers: tuple[int, ...]) -> Selection:
    since, until = given.get("since"), given.get("until")
    session = given.get("session")
    chosen = history.find(parse_reference(session).session)[0] if session else None
    file = given.get("file")
    return Selection(
        kinds=tuple(kind for kind in given.get("kinds", ()) if kind in KINDS),
        since=parse_since(since).timestamp() if since else None,
        until=parse_until(until).timestamp() if until else None,
        tool=given.get("tool"),
        branch=given.get("branch"),
        errors=given.get("errors", False),
        file=file.removeprefix("./") if file else None,
        session=chosen,
        # A session that was named is searched even if it is the calling one.
        numbers=() if chosen else numbers,
    )


def _lines(found: list[SessionHits]) -> list[tuple[str, int]]:
    turns = ((hits, turn) for hits in found for turn in hits.turns if not turn.is_subagent)
    return [(hits.path, turn.hits[0].line) for hits, turn in turns]


def _session(history: History, hits: SessionHits, outcomes: Lines) -> str:
    title = brief(hits.title, 120) or "untitled"
    active = local_time(hits.last_active)
    lines = [f"## {short_id(hits.id)} · {title} · {hits.project or '?'} · last active {active}"]
    for turn in hits.turns:
        lines += _turn(history, hits, turn, outcomes)
    if hits.more > 0:
        lines.append(f'({hits.more} more hits: search with session="{short_id(hits.id)}")')
    return "\n".join(lines)


def _turn(history: History, hits: SessionHits, turn: TurnHits, outcomes: Lines) -> list[str]:
    first = turn.hits[0]
    number = None if turn.is_subagent else history.turn_of(hits.path, first.line)
    owner = turn.id if turn.is_subagent else hits.id
    where = cite(owner, first.line, number, first.time)
    kind = "sub-agent asked" if turn.is_subagent else "prompt"
    lines = [f"{where} {kind}: {brief(turn.prompt, PROMPT)}"] if turn.prompt else [where]
    lines += [_hit(owner, hit) for hit in turn.hits if not _is_repeated(hit, turn.prompt)]
    outcome = outcomes.get((hits.path, first.line))
    if outcome and all(hit.line != outcome.line or len(hit.text) < OUTCOME for hit in turn.hits):
        place = cite(hits.id, outcome.line, None, None)
        lines.append(f"  {place} the turn ended: {brief(outcome.text, OUTCOME)}")
    return lines


def _hit(owner: str, hit: Hit) -> str:
    what = f"{hit.tool} {hit.kind}" if hit.tool else hit.kind
    failed = " (failed)" if hit.is_error else ""
    return f"  {cite(owner, hit.line, None, None)} {what}{failed}: {brief(hit.text, 800)}"


def _is_repeated(hit: Hit, prompt: str | None) -> bool:
    """Return whether a hit is the prompt, which is shown already."""
    shown = brief(prompt, PROMPT)
    return hit.kind == "prompt" and not shown.endswith("…") and bool(shown)
