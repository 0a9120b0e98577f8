"""Searches by regular expression in the web app: a slow one must not stop the server."""

import threading
import time
from pathlib import Path
from urllib.parse import quote

import pytest

from support.build import SESSION, assistant, session, text, user
from support.web_server import WebServer, running_server
from turnlog.errors import UsageError
from turnlog.index.service import SearchRequest, search_sessions
from turnlog.store.paths import Store
from turnlog.web.regex_search import search_by_regex

SLOW = "(a+)+$"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "projects" / "-home-ada" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(session(user("a" * 40 + "!"), assistant(text("id 4711"))))
    return Store(tmp_path)


def test_the_child_finds_what_the_index_finds(store: Store) -> None:
    request = SearchRequest(r"id \d+", is_regex=True)
    found = list(search_sessions(store, request))
    assert [each.id for each in found] == [SESSION]
    assert search_by_regex(store, request) == found


def test_an_invalid_expression_is_a_usage_error(store: Store) -> None:
    request = SearchRequest("(", is_regex=True)
    with pytest.raises(UsageError) as expected:
        list(search_sessions(store, request))
    with pytest.raises(UsageError, match="unterminated") as found:
        search_by_regex(store, request)
    assert found.value.line == expected.value.line


def test_an_endless_expression_is_given_up(store: Store) -> None:
    list(search_sessions(store, SearchRequest("id")))  # brings the index up to date
    with pytest.raises(UsageError, match="took more than 2 seconds"):
        search_by_regex(store, SearchRequest(SLOW, is_regex=True), longest=2.0)


def test_other_pages_answer_while_an_expression_is_matched(store: Store) -> None:
    with running_server(store.root) as server:
        server.log_in()
        assert server.get("/api/search?q=id").status == 200
        slow = threading.Thread(target=ask_slowly, args=(server,))
        slow.start()
        time.sleep(1)
        started = time.monotonic()
        assert server.get("/api/sessions").status == 200
        assert time.monotonic() - started < 5
        assert slow.is_alive()
        slow.join()


def ask_slowly(server: WebServer) -> None:
    assert server.get(f"/api/search?regex=1&q={quote(SLOW)}").status == 400
