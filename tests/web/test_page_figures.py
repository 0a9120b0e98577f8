"""Figures of pages agree with the command line, and pages survive a damaged index and odd names."""

import json
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from support.build import assistant, call, nth, result, session, text, user
from support.web_server import WebServer, running_server
from turnlog.conversation.session import open_session
from turnlog.errors import NotFound
from turnlog.format.timestamps import stamp_of
from turnlog.index.connection_pool import close_pool
from turnlog.index.database import DamagedIndex, index_path
from turnlog.index.reports.session_list import ListFilters
from turnlog.index.service import describe_sessions, match_sessions, report
from turnlog.index.sync_policy import deferred_sync, refresh_index, sync_index
from turnlog.render.html.session_pages import PageOptions, SessionPages
from turnlog.store.paths import Store
from turnlog.web.cost_page import cost_page
from turnlog.web.library import Library
from turnlog.web.overview_page import overview_page
from turnlog.web.session_list_page import session_row
from turnlog.web.tools_page import tools_page

ID, OTHER = "5e551011-0000-4000-8000-000000000001", "5e551011-0000-4000-8000-000000000002"
REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected"
PUT_OFF = "The user doesn't want to take this action right now. STOP what you are doing"


def add_session(store: Store, *lines: bytes, name: str = ID) -> Path:
    path = store.projects / "-home-ada-shop" / f"{name}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(session(*lines, session_id=ID))
    return path


@pytest.fixture
def rejecting(store: Store) -> Store:
    """A session with four calls: one was good, one failed, two the user denied."""
    denied = {"tool_denial_kind": "user-rejected"}
    add_session(
        store,
        user("go"),
        assistant(call("Bash", {"command": "make"}, "a"), message_id="m1"),
        result("a", "fine"),
        assistant(call("Bash", {"command": "make"}, "b"), message_id="m2"),
        result("b", "Exit code 2", is_error=True),
        assistant(call("Bash", {"command": "make"}, "c"), message_id="m3"),
        result("c", REFUSED, is_error=True),  # as clients up to 2.0.76 record it
        assistant(call("ExitPlanMode", {"plan": "x"}, "d"), message_id="m4"),
        result("d", "no", is_error=True, **denied),
        assistant(call("Edit", {"file_path": "/a"}, "e"), message_id="m5"),
        result("e", PUT_OFF, is_error=True),
    )
    return store


def test_rejected_calls_are_no_errors_in_reports(rejecting: Store) -> None:
    rows = {row["name"]: row for row in report(rejecting, "tool").rows}
    figures = {
        name: (row["calls"], row["errors"], row["rejected"], row["error_rate"])
        for name, row in rows.items()
    }
    assert figures == {
        "Bash": (3, 1, 1, 0.5),  # of the two calls that ran, one failed
        "ExitPlanMode": (1, 0, 1, 0),
        "Edit": (1, 0, 1, 0),
    }
    (failing,) = report(rejecting, "errors").rows
    assert (failing["errors"], failing["rejected"], failing["last_error"]) == (1, 1, "Exit code 2")
    assert report(rejecting, "daily").total["errors"] == 1
    assert report(rejecting, "tool").total["rejected"] == 3


def test_rejected_calls_are_no_errors_in_pages(rejecting: Store) -> None:
    page = tools_page([rejecting], {})
    assert [(each["errors"], each["rejected"]) for each in page["errors"]] == [(1, 1)]
    (number,) = [id_ for _, id_ in match_sessions(rejecting, ListFilters()).rows]
    assert describe_sessions(rejecting, [number])[number].errors == 1
    pages = SessionPages(open_session(next(rejecting.session_files())), PageOptions())
    assert pages.head()["session"]["errors"] == 1
    rows = [row for row in pages.page(1)["rows"] if "is_rejected" in row]
    marks = [(row["is_error"], row["is_rejected"]) for row in rows]
    assert marks == [(False, False), (True, False), (False, True), (False, True), (False, True)]


def test_costs_that_are_too_low_are_marked_as_in_the_terminal(store: Store) -> None:
    old = assistant(text("a"), message_id="m1", version="2.0.76")
    unknown = assistant(text("b"), message_id="m2", message={"model": "a-new-model"})
    add_session(store, user("go"), old, unknown)
    by_month = cost_page([store], {"by": "month"})
    assert by_month["total"]["cost"].endswith("*†")
    assert by_month["table"]["rows"][0]["cells"][-2].endswith("*†")
    notes = [
        "* excludes models without a known price: a-new-model",
        "† too low: clients up to 2.1.56 recorded too little output (1 of the messages)",
    ]
    assert by_month["footnotes"] == notes
    overview = overview_page([store], {})
    assert overview["session_footnotes"] == notes
    assert overview["sessions"][0]["cost"].endswith("*†")
    is_marked = any("*†" in period["cost"] for period in overview["periods"])
    assert overview["footnotes"] == (notes if is_marked else [])
    (listed,) = describe_sessions(store, [1]).values()
    row = session_row("key", listed, set())
    assert row["cost"].endswith("*†")
    assert row["cost_note"] == (
        "excludes models without a known price; too low: too little output was recorded"
    )


def test_marks_are_explained_where_they_are(store: Store) -> None:
    old = assistant(text("a"), message_id="m1", version="2.0.76", timestamp=months_ago(4))
    add_session(store, user("go", timestamp=months_ago(4)), old)
    overview = overview_page([store], {})
    assert overview["footnotes"] == []
    assert overview["session_footnotes"][0].startswith("†")
    for number in range(12):  # as many as the overview lists
        name = f"{number:08d}{ID[8:]}"
        answer = assistant(text("a"), message_id=name, timestamp=months_ago(0))
        add_session(store, user("go", timestamp=months_ago(0)), answer, name=name)
    assert overview_page([store], {})["session_footnotes"] == []


def test_marks_of_sessions_that_are_not_listed_are_not_explained(store: Store) -> None:
    model = {"model": "a-new-model"}
    unknown = assistant(text("a"), message_id="m", message=model, timestamp=months_ago(4))
    add_session(store, user("go", timestamp=months_ago(4)), unknown, name=OTHER)
    for number in range(20):
        now = months_ago(1)
        old = assistant(text("a"), message_id=f"o{number}", version="2.0.76", timestamp=now)
        name = f"{number:08x}-0000-4000-8000-000000000000"
        add_session(store, user("go", timestamp=now), old, name=name)
    overview = overview_page([store], {})
    marks = {mark for each in overview["sessions"] for mark in "*†" if mark in each["cost"]}
    assert {note[0] for note in overview["session_footnotes"]} == marks == {"†"}


def months_ago(count: int) -> str:
    return stamp_of(datetime.now(UTC) - timedelta(days=31 * count))


def test_figures_that_are_complete_have_no_marks(store: Store) -> None:
    add_session(store, user("go"), assistant(text("a"), message_id="m1"))
    assert cost_page([store], {"by": "month"})["footnotes"] == []
    assert describe_sessions(store, [1])[1].marks == ""


@pytest.fixture
def branched(store: Store) -> Store:
    """A session in which the second prompt was replaced."""
    add_session(
        store,
        user("one"),
        assistant(text("a"), message_id="m1"),
        user("two"),
        assistant(text("b"), message_id="m2"),
        user("instead of two", parent=nth(2)),
        assistant(text("c"), message_id="m3"),
    )
    return store


@pytest.fixture
def server(branched: Store) -> Iterator[WebServer]:
    with running_server(branched.root) as running:
        yield running.log_in()


def test_turns_of_a_list_cover_all_branches_and_those_of_a_page_one(
    branched: Store, server: WebServer, page: Page
) -> None:
    assert describe_sessions(branched, [1])[1].turns == 3
    page.goto(f"{server.origin}/sessions/{ID}")
    expect(page.locator(".tl-session-facts")).to_contain_text("2 turns (this branch)")
    page.goto(f"{server.origin}/sessions")
    head = page.locator(".list-head span", has_text="turns")
    assert "on all branches" in (head.get_attribute("title") or "")
    expect(page.locator(".session-row .turns")).to_have_text("3")


def test_a_damaged_index_is_built_again_while_the_server_runs(store: Store) -> None:
    add_session(store, *(user(f"prompt {n}") for n in range(300)))
    add_session(store, user("hi"), name=OTHER)
    with running_server(store.root) as server:
        server.log_in()
        assert server.get("/sessions").status == 200
        for damage in (_overwrite, _damage_pages):
            damage(index_path(store))
            for path in ("/", "/api/sessions", "/tools", "/cost"):
                assert server.get(path).status == 200, path
            assert json.loads(server.get("/api/sessions").text)["total"] == 2


def test_a_damaged_index_is_one_line_with_a_hint(store: Store) -> None:
    add_session(store, *(user(f"prompt {n}") for n in range(300)))
    sync_index(store)
    _damage_pages(index_path(store))
    with pytest.raises(DamagedIndex) as raised:
        report(store, "session")
    assert raised.value.hint == "turnlog sync"
    assert report(store, "session").total["turns"] == 300
    _damage_pages(index_path(store))
    with deferred_sync(), pytest.raises(DamagedIndex):
        report(store, "project")  # one that was not computed before
    close_pool()
    assert refresh_index(store)


def _overwrite(path: Path) -> None:
    """Replace the content in place: open connections see it."""
    _forget_log(path)
    with path.open("r+b") as file:
        file.write(os.urandom(path.stat().st_size))


def _damage_pages(path: Path) -> None:
    """Destroy the first page of a table, so that opening the index succeeds."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'files'").fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)


def _forget_log(path: Path) -> None:
    for suffix in ("-wal", "-shm"):
        path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)


@pytest.mark.parametrize("name", [f"{OTHER}\n", f" {OTHER}", f"{OTHER}\t"])
def test_sessions_with_white_space_around_their_names_are_compared(store: Store, name: str) -> None:
    add_session(store, user("one"))
    add_session(store, user("two"), name=name)
    with running_server(store.root) as server:
        server.log_in()
        rows = json.loads(server.get("/api/sessions").text)["rows"]
        first, second = (quote(row["key"], safe="") for row in rows)
        answer = server.get(f"/compare?a={first}&b={second}")
        assert answer.status == 200
        assert "two" in answer.text


def test_calls_of_sessions_in_several_stores_are_compared(store: Store, tmp_path: Path) -> None:
    add_session(store, user("one"), assistant(call("Bash", {"command": "make"}, "a")))
    other = Store(tmp_path / "other")
    other.projects.mkdir(parents=True)
    add_session(other, user("two"), assistant(call("Grep", {"pattern": "x"}, "b")), name=OTHER)
    with running_server(store.root, other.root) as server:
        server.log_in()
        rows = json.loads(server.get("/api/sessions").text)["rows"]
        first, second = (quote(row["key"], safe="") for row in rows)
        page = server.get(f"/compare?a={first}&b={second}").text
        assert "Bash" in page
        assert "Grep" in page


def test_compared_tools_of_equal_counts_are_sorted_by_name(store: Store) -> None:
    names = [f"Tool{number}" for number in range(20)]
    calls = (assistant(call(name, {}, name), message_id=name) for name in reversed(names))
    add_session(store, user("one"), *calls)
    add_session(store, user("two"), name=OTHER)
    with running_server(store.root) as server:
        server.log_in()
        rows = json.loads(server.get("/api/sessions").text)["rows"]
        first, second = (quote(row["key"], safe="") for row in rows)
        page = server.get(f"/compare?a={first}&b={second}").text
        assert re.findall(r'<th scope="row">(Tool\d+)</th>', page) == sorted(names)


def test_marks_of_compared_costs_are_explained(store: Store) -> None:
    add_session(store, user("go"), assistant(text("a"), message_id="m1", version="2.0.76"))
    add_session(store, user("go"), name=OTHER)
    with running_server(store.root) as server:
        server.log_in()
        rows = json.loads(server.get("/api/sessions").text)["rows"]
        first, second = (quote(row["key"], safe="") for row in rows)
        page = server.get(f"/compare?a={first}&b={second}").text
        assert "Figures that differ are bold. † too low: too little output was recorded." in page
        assert "* excludes models without a known price" not in page


def test_a_page_of_several_stores_names_each_session_once(store: Store, tmp_path: Path) -> None:
    other = Store(tmp_path / "other")
    other.projects.mkdir(parents=True)
    add_session(store, user("one"))
    add_session(other, user("one"))
    library = Library([store, other])
    library.refresher.refresh_now()
    page = library.page(ListFilters(), 0, 10)
    assert len({key for key, _ in page.sessions}) == page.total == 2
    for key, listed in page.sessions:
        found = library.find(key)
        assert (str(found.path), str(found.store.root)) == (listed.path, listed.store)


def test_an_unknown_session_is_named_in_short(store: Store) -> None:
    with pytest.raises(NotFound) as raised:
        Library([store]).find("x" * 90 + "~p")
    assert f"'{'x' * 80}'" in raised.value.message
