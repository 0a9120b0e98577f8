"""The page of one session, and the JSON that its viewer requests: a head, turns, and details."""

from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote, urlencode

from msgspec import to_builtins

from turnlog.conversation.turn_blocks import BLOCK
from turnlog.edit.check.checks import check_session
from turnlog.errors import UsageError
from turnlog.format.json_values import Fields
from turnlog.index.search.search import SessionHits, TurnHits
from turnlog.render.html.find_in_session import find_labels, find_text
from turnlog.render.html.lanes import agent_page, lanes_of
from turnlog.render.html.line_views import context_at_line, lost_at, raw_line
from turnlog.render.html.prose import prose_html
from turnlog.render.html.session_pages import CLIP, MOST_ROWS, PageOptions
from turnlog.secrets import mask, mask_short, mask_value
from turnlog.store.catalog import title_of
from turnlog.web.file_times import file_at, files_at
from turnlog.web.pages import static_files
from turnlog.web.parameters import PageRequest
from turnlog.web.session_cache import OpenedSession

MOST_TURNS = 50
"""Maximum number of turns in one response."""
MOST_OUTLINED = 4 * BLOCK
MOST_LABELLED = 1_000
"""Maximum number of turns that a filter of the outline returns."""
MOST_RELATED = 10
ANY = 100_000_000
CHECKED = 64 << 20
"""Maximum bytes of a session that is checked while its page waits."""
PLACES = ("leaf", "turn", "line")
"""Parameters that say where a session is opened."""


def load_libraries() -> None:
    """Load the libraries that the first session needs, which takes a tenth of a second."""
    prose_html("*text*")
    mask("text")
    static_files()


@contextmanager
def _opened(request: PageRequest) -> Generator[OpenedSession]:
    found = request.library.find(request.path["key"])
    with request.library.sessions.use(found.store, found.path, is_early=True) as opened:
        yield opened


def session_values(request: PageRequest) -> Fields:
    """Return the values of the page that holds the viewer; raise `NotFound` for an unknown key."""
    found = request.library.find(request.path["key"])
    title = None
    # The file may have been deleted since it was found; its id is shown instead.
    with suppress(OSError):
        title = title_of(found.path)
    key = request.path["key"]
    return {"key": key, "title": mask(title or found.path.stem), "opening": _opening(request, key)}


def _opening(request: PageRequest, key: str) -> str:
    """Return the URL of the data that the viewer shows first; it loads along with the script."""
    given = {name: value for name in PLACES if (value := request.text(name))}
    query = f"?{urlencode(given)}" if given else ""
    return f"/api/sessions/{quote(key, safe='')}/opening{query}"


def head(request: PageRequest) -> Fields:
    """Return the facts, branches, outline and sub-agents of a session."""
    with _opened(request) as opened:
        return _head(request, opened)


def _head(request: PageRequest, opened: OpenedSession) -> Fields:
    found = opened.pages(request.text("leaf")).head(request.number("since", 1, ANY))
    store = str(request.library.find(request.path["key"]).store.root)
    live = request.library.live_sessions()
    # By store and id: a copy of the session in another store is not running.
    found["session"]["is_live"] = (store, opened.session.id) in live
    found["reading"] = opened.reading and opened.reading._asdict()
    return found


def reading(request: PageRequest) -> Fields:
    """Return how much of a large session was read; null when all of it is shown."""
    with _opened(request) as opened:
        return {"reading": opened.reading and opened.reading._asdict()}


def opening(request: PageRequest) -> Fields:
    """Return the head, and the turns that fill the first screen."""
    with _opened(request) as opened:
        pages = opened.pages(request.text("leaf"))
        line = request.number("line", 0, ANY)
        turn = (pages.turn_at(line) if line else None) or request.number("turn", 1, ANY)
        return {"turns": pages.screenful(turn), "head": _head(request, opened)}


def turns(request: PageRequest) -> list[Fields]:
    """Return the rows of some turns."""
    first, last = _range(request, MOST_TURNS)
    with _opened(request) as opened:
        pages = opened.pages(request.text("leaf"))
        return [pages.page(n) for n in range(max(1, first), min(last, len(pages.turns)) + 1)]


def rows(request: PageRequest) -> Fields:
    """Return a range of the rows of one turn, with whole texts if asked for."""
    first, count = _row_range(request)
    options = PageOptions(
        leaf=request.text("leaf"),
        clip=None if request.text("whole") == "1" else CLIP,
        first=first,
        count=count,
    )
    with _opened(request) as opened:
        return opened.pages(options.leaf).page(request.number("n", 1, ANY), options)


def outline(request: PageRequest) -> Fields:
    """Return the outline of some turns."""
    first, last = _range(request, MOST_OUTLINED)
    with _opened(request) as opened:
        return opened.pages(request.text("leaf")).outline(first, last)


def labelled(request: PageRequest) -> Fields:
    """Return the turns whose labels contain a text."""
    with _opened(request) as opened:
        pages = opened.pages(request.text("leaf"))
        return find_labels(pages, request.text("q") or "", MOST_LABELLED)


def raw(request: PageRequest) -> Fields:
    """Return a line of the file, masked."""
    with _opened(request) as opened:
        return raw_line(opened.session, request.line())


def context(request: PageRequest) -> Fields:
    """Return the messages that were sent to get the answer at a line."""
    with _opened(request) as opened:
        return context_at_line(opened.session, request.line())


def lost(request: PageRequest) -> Fields:
    """Return what the compaction at a line replaced, and its summary."""
    with _opened(request) as opened:
        return lost_at(opened.session, request.line())


def find(request: PageRequest) -> Fields:
    """Return the rows that contain a text."""
    with _opened(request) as opened:
        return find_text(opened.pages(request.text("leaf")), request.text("q") or "")


def agent(request: PageRequest) -> Fields:
    """Return the rows of a sub-agent."""
    first, count = _row_range(request)
    options = PageOptions(first=first, count=count)
    with _opened(request) as opened:
        return agent_page(opened.session, request.path["id"], options)


def lanes(request: PageRequest) -> list[Fields]:
    """Return when the session and each of its sub-agents were active."""
    with _opened(request) as opened:
        return lanes_of(opened.pages(request.text("leaf")))


def findings(request: PageRequest) -> list[Fields]:
    """Return the findings that affect resuming the session, each with its line."""
    with _opened(request) as opened:
        # A check reads the whole file while the page waits for it.
        if opened.session.state.size > CHECKED:
            raise UsageError("too large to check here", opened.command("check"))
        return [mask_value(to_builtins(found)) for found in check_session(opened.session)]


def related(request: PageRequest) -> list[Fields]:
    """Return the sessions on the same topic, best first, each with its most similar turn."""
    found = request.library.find(request.path["key"])
    similar = request.library.related(found.path, MOST_RELATED)
    return [_related(key, hits, hits.turns[0]) for key, hits in similar]


def _related(key: str, hits: SessionHits, turn: TurnHits) -> Fields:
    hit = turn.hits[0]
    return {
        "key": key,
        "title": hits.title or hits.id,
        "project": mask_short(hits.project or ""),
        "time": hits.last_active,
        # The lines of a sub-agent are in a file of its own.
        "line": None if turn.is_subagent else hit.line,
        "text": hit.text,
    }


def files(request: PageRequest) -> Fields:
    """Return the changed files of a session as of a line."""
    with _opened(request) as opened:
        return files_at(opened, _line_or_none(request))


def file(request: PageRequest) -> Fields:
    """Return one file as of a line, or one of its versions."""
    number = request.number("version", ANY, ANY)
    which = request.text("path") or request.number("file", ANY, ANY)
    with _opened(request) as opened:
        version = None if number == ANY else number
        return file_at(opened, which, _line_or_none(request), version)


def _line_or_none(request: PageRequest) -> int | None:
    return request.number("line", 0, ANY) or None


def _row_range(request: PageRequest) -> tuple[int, int]:
    """Return the first row and the number of rows that a request asks for."""
    first = request.number("first", 0, ANY)
    # The URL may ask for any number of rows; no response has more than the viewer ever requests.
    count = request.number("last", first + MOST_ROWS, ANY) - first
    return first, max(0, min(count, MOST_ROWS))


def _range(request: PageRequest, most: int) -> tuple[int, int]:
    first = request.number("first", 1, ANY)
    return first, min(request.number("last", first, ANY), first + most - 1)


SESSION_API: dict[str, Any] = {
    "opening": opening,
    "head": head,
    "reading": reading,
    "turns": turns,
    "rows": rows,
    "outline": outline,
    "labelled": labelled,
    "raw/{line}": raw,
    "context/{line}": context,
    "lost/{line}": lost,
    "find": find,
    "agents/{id}": agent,
    "lanes": lanes,
    "findings": findings,
    "related": related,
    "files": files,
    "file": file,
}
"""Functions by the path below `/api/sessions/{key}/`."""
ABOUT_ALL_SESSIONS = frozenset({"related"})
"""Paths whose functions need the index; the others read only the session's own file."""
