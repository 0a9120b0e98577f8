"""The page of a session lists sessions that are about the same."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from support.build import SESSION, assistant, session, text, user
from support.mcp_peer import put
from support.web_server import WebServer, running_server

BREAD = "07e40000-0000-4000-8000-000000000002"
OVEN = "0be40000-0000-4000-8000-000000000003"
SECRET = "ghp_" + "Zk3Jq8LwN5vT2yRb7XcM1dPf6HsG9aUe4oKi"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    talks = {
        SESSION: ("Users are logged out every few minutes", "The cookie is renewed now."),
        BREAD: ("How long does bread bake?", "A loaf takes forty minutes at 220 degrees."),
        OVEN: (f"Preheat the oven for the dough {SECRET}", "It needs a quarter of an hour."),
    }
    for id_, (asked, answered) in talks.items():
        lines = session(user(asked), assistant(text(answered)), session_id=id_)
        put(tmp_path, "/home/ada/shop", lines, id_)
    return tmp_path


def test_related_sessions_come_best_first_and_masked(root: Path) -> None:
    with running_server(root) as server:
        server.log_in()
        found = json.loads(server.get(f"/api/sessions/{BREAD}/related").text)
        assert found[0]["key"] == OVEN
        assert found[0]["project"] == "/home/ada/shop"
        assert found[0]["line"] in (1, 2)
        assert BREAD not in {each["key"] for each in found}
        assert SECRET not in json.dumps(found)
        assert server.get("/api/sessions/nobody/related").status == 404


def test_a_server_that_is_down_does_not_break_the_page(root: Path) -> None:
    (root / "own").mkdir()
    endpoint = "http://127.0.0.1:9/v1/embeddings"
    (root / "own" / "config.toml").write_text(f'[semantic]\nendpoint = "{endpoint}"\nmodel = "m"\n')
    with running_server(root) as server:
        server.log_in()
        refused = server.get(f"/api/sessions/{BREAD}/related")
        assert refused.status >= 400
        assert "cannot reach" in refused.text
        assert server.get(f"/api/sessions/{BREAD}/head").status == 200


@pytest.fixture
def server(root: Path) -> Iterator[WebServer]:
    with running_server(root) as found:
        yield found.log_in()


def test_the_button_lists_them_and_each_opens_its_session(page: Page, server: WebServer) -> None:
    page.goto(f"{server.origin}/sessions/{BREAD}")
    page.get_by_role("button", name="related").click()
    link = page.get_by_role("dialog").get_by_role("link").first
    expect(link).to_contain_text("Preheat the oven")
    link.click()
    page.wait_for_url(f"**/sessions/{OVEN}*")
