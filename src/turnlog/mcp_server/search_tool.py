"""The tool `search`: texts of earlier sessions, best first, each with its turn's last answer."""

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
from turnlog.index.similarity import LikeRequest, is_reference, is_whole_id, like_sessions
from turnlog.mcp_server.answers import ToolAnswer
from turnlog.mcp_server.citations import brief, cite, local_time, parse_reference
from turnlog.mcp_server.visible_sessions import History, short_id
from turnlog.web.regex_search import search_by_regex

PROMPT = 240
SOME_WORDS = ", none with all words; like=true searches by subject"
OUTCOME, SNIPPET = 600, 800
"""Characters shown of a turn's last answer, and of a hit."""
Lines = dict[tuple[str, int], TurnOutcome]


def search(history: History, given: dict[str, Any]) -> ToolAnswer:
    """Search for words or a question."""
    text = given["query"]
    if not text.strip():
        raise UsageError("query is empty: name a word, a phrase or a question")
    numbers = history.numbers()
    limit = given.get("limit", 6)
    found, note = list[SessionHits](), ""
    if numbers:
        found, note = _ask(history, given, _selection(history, given, numbers), limit)
    counted = f"{len(found)} of at most {limit} sessions{note}"
    head = f"search {text[:200]!r} in {history.scope.label}: {counted}"
    if not found:
        other = "" if given.get("like") else "`like`, "
        return ToolAnswer(head, [], f"Nothing found. Try {other}other words, or `sessions`.")
    # One query for all turns, instead of opening the sessions one by one.
    outcomes = service.outcomes_of_turns(history.stores, _lines(found))
    blocks = [_session(history, hits, outcomes) for hits in found]
    return ToolAnswer(head, blocks, 'To read on: read(ref="…") with a reference from above.')


def _ask(
    history: History, given: dict[str, Any], selection: Selection, limit: int
) -> tuple[list[SessionHits], str]:
    """Return the sessions that were found, and a note on how well they match."""
    text, is_regex = given["query"], given.get("regex", False)
    if given.get("like", False):
        if is_regex:
            raise UsageError("like and regex exclude each other")
        session = _session_file(history, text)
        words = whole_words(text)
        like = LikeRequest(words, session, selection, limit, hides_secrets=True)
        return list(like_sessions(history.stores, like)), ", by subject"
    if is_regex:
        request = SearchRequest(text, is_regex, selection, limit, hides_secrets=True)
        # Run a model's expression in a separate process: `re` could block the whole server, which
        # would not even notice that its client is gone.
        return list(islice(search_by_regex(history.stores, request), limit)), ""
    request = SearchRequest(whole_words(text), selection=selection, limit=limit, hides_secrets=True)
    recalled = list(islice(service.recall_sessions(history.stores, request), limit))
    note = "" if any(each.has_all_words for each in recalled) else SOME_WORDS
    return [each.hits for each in recalled], note if recalled else ""


def whole_words(text: str) -> str:
    """Turn prefixes into whole words if a query has digits, as keys do.

    Hits inside secrets are left out, but a prefix that matches part of a secret would still change
    the order of the other hits, and so confirm a guess.

    >>> whole_words("cach*"), whole_words('zk3J* OR "ghp zk3J "*')
    ('cach*', 'zk3J OR "ghp zk3J "')
    """
    return text.replace("*", "") if any(map(str.isnumeric, text)) else text


def _session_file(history: History, text: str) -> Path | None:
    """Return the file of the session that a query names, if it is in scope; None for a question."""
    try:
        name = parse_reference(text).session
    except UsageError:
        return None
    try:
        return history.find(name)[1] if is_reference(name) else None
    except NotFound:
        # A word such as `facade` may look like the start of an id, but a whole id is no question.
        if is_whole_id(name):
            raise
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
        # Recorded paths are absolute; none ends with `./src/a.py`.
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
    score = "" if hits.score is None else f" · similarity {hits.score:.2f}"
    about = f"{title} · {hits.project or '?'} · last active {active}{score}"
    lines = [f"## {short_id(hits.id)} · {about}"]
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
    outcome = None if turn.is_subagent else outcomes.get((hits.path, first.line))
    ending = brief(outcome.text, OUTCOME) if outcome else ""
    lines += [
        _hit(owner, hit)
        for hit in turn.hits
        if not _is_repeated(hit, turn.prompt)
        and not (outcome and hit.line == outcome.line and _is_within(hit.text, ending))
    ]
    if outcome:
        lines.append(f"  {cite(hits.id, outcome.line, None, None)} the turn ended: {ending}")
    return lines


def _is_within(snippet: str, ending: str) -> bool:
    """Return whether a snippet repeats part of a turn's last answer."""
    return brief(snippet, SNIPPET).strip("… ") in ending


def _hit(owner: str, hit: Hit) -> str:
    what = f"{hit.tool} {hit.kind}" if hit.tool else hit.kind
    failed = " (failed)" if hit.is_error else ""
    return f"  {cite(owner, hit.line, None, None)} {what}{failed}: {brief(hit.text, SNIPPET)}"


def _is_repeated(hit: Hit, prompt: str | None) -> bool:
    """Return whether a hit is the prompt, which is shown already."""
    shown = brief(prompt, PROMPT)
    return hit.kind == "prompt" and not shown.endswith("…") and bool(shown)
