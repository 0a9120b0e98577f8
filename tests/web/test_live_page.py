"""The live page: events over real HTTP, and rows in a real browser."""

import json
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from support.browser import AXE
from support.build import Fields, assistant, call, result, text, user
from support.live_store import RunningSession, running_sessions
from support.web_server import WebServer, running_server

MARKUP = "<img src=x onerror=alert(1)>"
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
USAGE: Fields = {
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 5, "cache_read_input_tokens": 400_000, "output_tokens": 100},
}
RUN_AXE = """() => axe.run(document, {resultTypes: ["violations"]}).then((found) => found.violations
  .filter((each) => each.impact === "serious" || each.impact === "critical")
  .map((each) => each.id))"""


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[list[RunningSession]]:
    with running_sessions(tmp_path / "store", 2) as running:
        yield running


@pytest.fixture
def server(
    sessions: list[RunningSession], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[WebServer]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "data"))
    with running_server(sessions[0].store.root) as running:
        yield running.log_in()


@contextmanager
def events(server: WebServer) -> Generator[Iterator[Any]]:
    """The events of the page as they arrive."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("GET", "/api/live/events", headers={"Cookie": server.cookie or ""})
    response = connection.getresponse()
    assert response.getheader("content-type", "").startswith("text/event-stream")
    lines = iter(response.readline, b"")
    try:
        yield (json.loads(line[6:]) for line in lines if line.startswith(b"data: "))
    finally:
        connection.close()


def test_events_need_the_cookie(server: WebServer) -> None:
    assert server.ask("/api/live/events").status == 401
    assert server.ask("/live").status == 401


def test_an_event_follows_each_change(server: WebServer, sessions: list[RunningSession]) -> None:
    first, _ = sessions
    first.report("busy")
    first.write(user("Fix the login"), assistant(call("Bash"), message=USAGE))
    with events(server) as arriving:
        row = next(arriving)["sessions"][0]
        assert (row["state"], row["source"], row["title"]) == (
            "working",
            "reported",
            "Fix the login",
        )
        assert (row["pid"], row["key"], row["fill"]) == (first.pid, first.id, 0.400105)
        assert "path" not in row
        first.report("waiting", "permission prompt")
        changed = next(arriving)
    assert changed["sessions"][0]["state"] == "waiting for permission"
    assert "1 waiting for permission" in changed["summary"]


def test_a_writing_client_causes_at_most_two_events_per_second(
    server: WebServer, sessions: list[RunningSession]
) -> None:
    first, _ = sessions
    first.report("busy")
    with events(server) as arriving:
        next(arriving)
        started, count = time.monotonic(), 0
        while time.monotonic() - started < 3:
            for _ in range(20):
                first.write(user("more"), assistant(text("yes"), message=USAGE))
            next(arriving)
            count += 1
        lasted = time.monotonic() - started
    assert count <= 2 * lasted + 1


def test_secrets_in_titles_are_masked(server: WebServer, sessions: list[RunningSession]) -> None:
    first, _ = sessions
    first.register(name=SECRET, nameSource="user")
    first.describe_agent("a1", description=f"Use {SECRET}")
    first.write(user(f"Use {SECRET}"))
    first.write(user("go"), agent="a1")
    with events(server) as arriving:
        found = next(arriving)
    assert len(found["sessions"][0]["agents"]) == 1
    assert SECRET not in json.dumps(found)


def test_a_line_changes_the_page(
    page: Page, server: WebServer, sessions: list[RunningSession]
) -> None:
    first, second = sessions
    first.register()
    first.write(user("Fix the login"), assistant(call("Read"), message=USAGE))
    second.report("idle", ago=2000)
    second.write(user("Old work"), assistant(text("done"), message=USAGE), ago=2000)
    page.goto(f"{server.origin}/live")
    row = page.locator(f"tr[data-id='{first.id}']")
    expect(row.locator(".state")).to_have_text("working")
    expect(page.locator(f"tr[data-id='{second.id}'] .state")).to_have_text("idle")
    first.write(
        result("toolu_1"), assistant(text("Done."), message=USAGE | {"stop_reason": "end_turn"})
    )
    expect(row.locator(".state")).to_have_text("waiting for input")
    expect(row.locator(".state-source")).to_have_text("inferred")
    second.kill()
    expect(page.locator("#live-rows tr")).to_have_count(1)
    row.get_by_role("link", name="Fix the login").click()
    expect(page).to_have_url(f"{server.origin}/sessions/{first.id}")


def test_sub_agents_are_lanes_below_their_session(
    page: Page, server: WebServer, sessions: list[RunningSession]
) -> None:
    first, _ = sessions
    first.report("busy")
    first.write(user(MARKUP), assistant(call("Agent"), message=USAGE))
    first.describe_agent("a1", description=MARKUP)
    first.write(user("look"), assistant(call("Read"), message=USAGE), agent="a1")
    page.goto(f"{server.origin}/live")
    rows = page.locator("#live-rows tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_have_class("agent")
    expect(rows.nth(1).locator(".lane-title")).to_have_text(MARKUP)
    expect(rows.locator("svg.live-lane .tl-lane-work").first).to_be_visible()
    expect(rows.nth(0)).to_contain_text("40%")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 2560])
def test_the_page_is_accessible(
    page: Page, server: WebServer, sessions: list[RunningSession], scheme: Any, width: int
) -> None:
    first, second = sessions
    first.report("waiting", "permission prompt")
    first.write(user("Fix the login"), assistant(call("Bash"), message=USAGE))
    second.report("idle")
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"{server.origin}/live")
    expect(page.locator("#live-rows tr")).to_have_count(2)
    expect(page).to_have_title("(1) Live · turnlog")
    expect(page.locator("#announcer")).to_have_text("Fix the login is waiting for permission")
    page.evaluate(AXE.read_text("utf-8"))
    assert page.evaluate(RUN_AXE) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_hidden_page_stops_listening(
    page: Page, server: WebServer, sessions: list[RunningSession]
) -> None:
    first, _ = sessions
    first.report("busy")
    page.goto(f"{server.origin}/live")
    state = page.locator(f"tr[data-id='{first.id}'] .state")
    expect(state).to_have_text("working")
    _set_hidden(page, is_hidden=True)
    first.report("waiting", "permission prompt")
    page.wait_for_timeout(1500)
    expect(state).to_have_text("working")
    _set_hidden(page, is_hidden=False)
    expect(state).to_have_text("waiting for permission")


def _set_hidden(page: Page, is_hidden: bool) -> None:
    page.evaluate(
        """(value) => {
          Object.defineProperty(document, "hidden", {value, configurable: true});
          document.dispatchEvent(new Event("visibilitychange"));
        }""",
        is_hidden,
    )
