"""The first requests of a session's page: one for head and rows, and one script."""

import json
import re
from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest
from starlette.testclient import TestClient

from support.build import SESSION, assistant, session, text, user
from support.planted import write
from support.web_server import WebServer, running_server
from turnlog.store.paths import Store
from turnlog.web.app import Protection, create_app
from turnlog.web.library import Library, session_key
from turnlog.web.login import Access
from turnlog.web.refresher import Refresher
from turnlog.web.request_guards import origins_of

TURNS = 700


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    home = tmp_path_factory.mktemp("home")
    folder = home / "projects" / "-home-ada-shop"
    folder.mkdir(parents=True)
    lines = [
        entry
        for n in range(1, TURNS + 1)
        for entry in (user(f"question {n}"), assistant(text("answer"), message_id=f"m{n}"))
    ]
    (folder / f"{SESSION}.jsonl").write_bytes(session(*lines))
    write(
        folder / SESSION / "subagents" / "agent-a1.jsonl",
        session(user("look"), assistant(text("seen")), agent_id="a1"),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        with running_server(home) as running:
            yield running.log_in()


def ask(server: WebServer, path: str) -> Any:
    """The JSON of an answer about the session."""
    return json.loads(server.get(f"/api/sessions/{SESSION}/{path}").body)


@pytest.mark.parametrize(
    ("query", "turn"), [("", 1), ("?turn=650", 650), ("?line=801", 401), ("?turn=9999", TURNS)]
)
def test_a_session_opens_with_the_turns_of_its_place(
    server: WebServer, query: str, turn: int
) -> None:
    found = ask(server, f"opening{query}")
    assert found["turns"][0]["n"] == turn
    assert len(found["turns"]) <= 8
    assert found["head"]["session"]["turns"] == TURNS


def test_the_head_of_a_long_session_is_short(server: WebServer) -> None:
    head = ask(server, "head")
    assert len(head["outline"]["label"]) == head["blocks"]["size"] == 256
    assert head["blocks"]["line"] == [1, 513, 1025]
    assert ask(server, "head?since=699")["outline"]["n"] == [699, 700]
    part = ask(server, "outline?first=300&last=302")
    assert part["label"] == ["question 300", "question 301", "question 302"]
    assert len(ask(server, "outline?first=1&last=700")["n"]) == 700
    matches = ask(server, "labelled?q=question%2070")["matches"]
    assert [match["turn"] for match in matches] == [70, 700]


def test_rows_of_a_sub_agent_are_requested_in_ranges(server: WebServer) -> None:
    found = ask(server, "agents/a1?first=1&last=2")
    assert [row["text"] for row in found["rows"]] == ["seen"]


def test_the_page_requests_what_its_script_will_ask_for(server: WebServer) -> None:
    page = server.get(f"/sessions/{SESSION}?line=5&leaf=").text
    preloaded = re.search(r'<link rel="preload" as="fetch" [^>]*href="([^"]+)"', page)
    assert preloaded
    assert f'data-opening="{preloaded[1]}"' in page
    assert server.get(preloaded[1]).status == 200
    assert preloaded[1].endswith("/opening?line=5")


def test_browsers_keep_files_whose_address_names_their_content(server: WebServer) -> None:
    page = server.get(f"/sessions/{SESSION}").text
    script = re.search(r'src="(/viewer/web_page\.js\?v=\w+)"', page)
    assert script
    answer = server.get(script[1])
    assert "immutable" in answer.headers["cache-control"]
    assert "import " not in answer.text
    for address in (script[1].partition("?")[0], script[1] + "0"):
        assert server.get(address).headers["cache-control"] == "no-cache"
    data = server.get(f"/api/sessions/{SESSION}/opening").headers
    assert data["cache-control"] == "no-store"


@pytest.mark.parametrize("is_ambiguous", [False, True])
def test_a_session_opens_before_the_first_index_is_made(store: Store, is_ambiguous: bool) -> None:
    path = store.projects / "-home-ada-shop" / f"{SESSION}.jsonl"
    path.parent.mkdir()
    path.write_bytes(session(user("question"), assistant(text("answer"))))
    may_end = Event()
    refresher = Refresher([store], lambda stores: may_end.wait(60))
    app = create_app(Library([store], refresher), Protection(origins_of(80), Access(80), ()))
    client = TestClient(app, "http://127.0.0.1")
    key = session_key(path, is_ambiguous)
    try:
        assert client.get(f"/sessions/{key}").status_code == 200
        opened = client.get(f"/api/sessions/{key}/opening").json()
        assert opened["turns"][0]["rows"][0]["text"] == "question"
        assert not refresher.is_ready
    finally:
        may_end.set()
