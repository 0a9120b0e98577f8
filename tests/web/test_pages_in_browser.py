"""The pages in a real browser: accessible, quiet, and as fast as they should be."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from support.browser import AXE
from support.build import SESSION, assistant, call, line, result, session, text, user
from support.web_server import WebServer, running_server

OTHER = "0bad0000-0000-4000-8000-000000000000"
COUNT = 450
"""Sessions of the long list, in more than four pages."""
ADDRESSES = [
    "/",
    "/sessions",
    "/sessions?q=pool",
    f"/sessions/{SESSION}",
    f"/sessions/{SESSION}?line=3",
    f"/compare?a={SESSION}&b={OTHER}",
    "/compare",
    "/cost",
    "/tools",
    "/files",
    "/files?path=/home/ada/shop/a.py",
    "/live",
]
RUN_AXE = """() => axe.run(document, {resultTypes: ["violations"]}).then((found) => found.violations
  .filter((each) => each.impact === "serious" || each.impact === "critical")
  .map((each) => `${each.id}: ${each.nodes.map((node) => node.target.join(" ")).join(", ")}`))"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("home")
    folder = root / "projects" / "-home-ada-shop"
    folder.mkdir(parents=True)
    lines = [
        user("Why is the pool exhausted?"),
        assistant(text("Let me **look**."), call("Read", {"file_path": "/home/ada/shop/a.py"})),
        result("toolu_1", "def pool(): ..."),
        assistant(text("The connection is never returned."), message_id="m2"),
        user("Fix it"),
        assistant(call("Bash", {"command": "make"}, "toolu_2"), message_id="m3"),
        result("toolu_2", "failed", is_error=True),
    ]
    (folder / f"{SESSION}.jsonl").write_bytes(session(*lines))
    other = [*lines[:4], user("Explain it"), assistant(text("Well."), message_id="m4")]
    other.append(line("tag", tag="release"))
    (folder / f"{OTHER}.jsonl").write_bytes(session(*other, session_id=OTHER))
    for number in range(COUNT):
        id_ = f"{number:08x}-0000-4000-8000-000000000000"
        prompt = user(f"Session number {number}", cwd=f"/home/ada/p{number % 3}")
        (folder / f"{id_}.jsonl").write_bytes(session(prompt, session_id=id_))
    return root


@pytest.fixture(scope="module")
def server(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("TURNLOG_HOME", str(tmp_path_factory.mktemp("data")))
        with running_server(home) as running:
            yield running.log_in()


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize(("width", "scheme"), [(375, "light"), (1400, "dark"), (2560, "light")])
def test_pages_are_accessible_and_fit(
    page: Page, server: WebServer, address: str, width: int, scheme: str
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(server.origin + address)
    page.wait_for_load_state("load")
    page.wait_for_timeout(600)
    page.evaluate(AXE.read_text())
    assert page.evaluate(RUN_AXE) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("main").count() == 1


def test_the_list_scrolls_to_any_row_with_few_rows_mounted(page: Page, server: WebServer) -> None:
    page.goto(f"{server.origin}/sessions")
    expect(page.get_by_text(f"{COUNT + 2} sessions")).to_be_visible()
    for share in (0.5, 1.0, 0.2):
        page.evaluate(
            f"const l = document.getElementById('list'); l.scrollTop = l.scrollHeight * {share}"
        )
        expect(
            page.locator(".session-row .title").filter(has_text=re.compile("^…$"))
        ).to_have_count(0)
        assert 0 < page.locator(".session-row").count() <= 200


def test_filters_are_kept_in_the_address(page: Page, server: WebServer) -> None:
    page.goto(f"{server.origin}/sessions")
    page.get_by_role("button", name="Filters").click()
    page.get_by_label("Project").fill("p1")
    expect(page.locator("#count")).to_have_text("150 sessions")
    assert "project=p1" in page.url
    page.reload()
    expect(page.locator("#count")).to_have_text("150 sessions")


def test_a_search_without_matches_says_what_to_try(page: Page, server: WebServer) -> None:
    page.goto(f"{server.origin}/sessions?q=zzzzqqqq")
    expect(page.locator("#count")).to_have_text(
        "0 sessions with matches: try fewer words, prefix*, or a OR b"
    )
    page.goto(f"{server.origin}/sessions?q=zzzzqqqq&regex=1")
    expect(page.locator("#count")).to_have_text("0 sessions with matches")


def test_ages_and_costs_end_in_one_column_on_a_phone(page: Page, server: WebServer) -> None:
    page.set_viewport_size({"width": 375, "height": 760})
    page.goto(f"{server.origin}/sessions")
    expect(page.locator(".session-row").nth(3)).to_be_visible()
    page.locator(".session-row .cost").first.evaluate("cost => { cost.textContent += '†*†*'; }")
    ends = page.locator(".session-row").evaluate_all("""rows => rows.slice(0, 3).flatMap((row) =>
        [".age", ".cost"].map((name) => {
            const range = document.createRange();
            range.selectNodeContents(row.querySelector(name));
            return Math.round(range.getBoundingClientRect().right);
        }))""")
    assert len(ends) == 6
    assert len(set(ends)) == 1


def test_the_tag_of_a_session_links_to_all_sessions_with_it(page: Page, server: WebServer) -> None:
    page.goto(f"{server.origin}/sessions?q=returned")
    page.locator(f".session-row[data-key='{OTHER}'] .tag").click()
    page.wait_for_url(re.compile(r"/sessions\?tag=release$"))
    expect(page.locator("#count")).to_have_text("1 session")
    expect(page.get_by_label("Tag")).to_have_value("release")
    expect(page.locator("#tags option")).to_have_attribute("value", "release")
    expect(page.locator(".session-row .tag")).to_have_text("release")


def test_a_search_opens_the_session_at_the_match(page: Page, server: WebServer) -> None:
    page.goto(f"{server.origin}/sessions")
    page.keyboard.press("/")
    page.keyboard.type('"never returned"')
    hit = page.locator("a.hit").first
    expect(hit.locator("mark").first).to_have_text("never returned")
    hit.click()
    page.wait_for_url(re.compile(r"/sessions/.*line=4"))
    expect(page.get_by_text("The connection is never returned.")).to_be_visible()


def test_keys_move_through_the_list_and_to_other_pages(page: Page, server: WebServer) -> None:
    page.goto(f"{server.origin}/sessions")
    expect(page.locator(".session-row").first).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator(".session-row.is-selected")).to_have_attribute("aria-posinset", "2")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).not_to_be_visible()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/sessions/[0-9a-f]"))
    page.goto(f"{server.origin}/compare")
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.wait_for_url(f"{server.origin}/sessions")


def test_keys_lead_from_the_search_box_to_its_matches(page: Page, server: WebServer) -> None:
    page.goto(f"{server.origin}/sessions?q=returned")
    selected = page.locator(".session-row.is-selected")
    page.locator(".session-row").first.wait_for()
    page.keyboard.press("/")
    page.keyboard.press("ArrowDown")
    expect(selected).to_have_count(1)
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    assert page.locator("#q").input_value() == "returned"
    page.keyboard.press("k")
    expect(selected).to_have_count(1)


def test_the_selection_stays_while_sessions_are_indexed(page: Page, server: WebServer) -> None:
    asked: list[int] = []

    def still_indexing(route: Route) -> None:
        """Answer as during a long sync: another session comes in with every look at the list."""
        answer = route.fetch()
        found = answer.json()
        found |= {"is_indexing": True, "generation": f"g{len(asked)}"}
        new = [{**found["rows"][0], "key": f"new{n}"} for n in range(len(asked))]
        found |= {"rows": new + found["rows"], "total": found["total"] + len(new)}
        asked.append(len(new))
        route.fulfill(response=answer, json=found)

    page.route("**/api/sessions?*", still_indexing)
    page.goto(f"{server.origin}/sessions")
    expect(page.locator(".session-row").first).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("j")
    selected = page.locator(".session-row.is-selected")
    expect(selected).to_have_count(1)
    key = selected.get_attribute("data-key")
    before = len(asked)
    page.wait_for_function("() => document.querySelector('[data-key=new1]') !== null")
    assert len(asked) > before
    expect(selected).to_have_attribute("data-key", str(key))
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(rf"/sessions/{key}"))


def test_enter_opens_the_selection_as_soon_as_a_dialog_is_closed(
    page: Page, server: WebServer
) -> None:
    page.goto(f"{server.origin}/sessions")
    expect(page.locator(".session-row").first).to_be_visible()
    page.keyboard.press("j")
    key = page.locator(".session-row.is-selected").get_attribute("data-key")
    # Until the page is drawn again, the focus is on the button of the closed dialog.
    focused = page.evaluate(
        """() => {
            const dialog = document.getElementById("shortcuts");
            dialog.showModal();
            dialog.close();
            const event = { key: "Enter", bubbles: true, cancelable: true };
            document.activeElement.dispatchEvent(new KeyboardEvent("keydown", event));
            return document.activeElement.id;
        }"""
    )
    assert focused == "shortcuts-close"
    page.wait_for_url(re.compile(rf"/sessions/{key}"))


def test_a_page_that_waits_for_the_index_does_not_cancel_a_visit(
    page: Page, server: WebServer
) -> None:
    held: list[Route] = []

    def incomplete(route: Route) -> None:
        """Answer as while sessions are indexed for the first time."""
        answer = route.fetch()
        notice = '<p id="index-notice" data-reload>Indexing</p><main'
        route.fulfill(response=answer, body=answer.text().replace("<main", notice, 1))

    def hold(route: Route) -> None:
        held.append(route)

    page.route(f"{server.origin}/", incomplete)
    page.route("**/tools", hold)
    # The page is due to be loaded again as soon as another one is asked for.
    page.add_init_script(
        """
        const at_once = setTimeout;
        let tick = () => {};
        setTimeout = setInterval = (work, delay) => (delay ? (tick = work) : at_once(work));
        clearTimeout = clearInterval = () => (tick = () => {});
        addEventListener("beforeunload", () => at_once(() => (tick(), fetch("/api/filters"))));
        """
    )
    page.goto(f"{server.origin}/")
    with page.expect_request("**/api/filters"):
        page.evaluate("document.querySelector('nav a[href=\"/tools\"]').click()")
    while not held:
        page.wait_for_timeout(10)
    held[0].continue_()
    page.wait_for_url(f"{server.origin}/tools")


def test_the_list_stays_while_the_index_is_made(page: Page, server: WebServer) -> None:
    is_indexing = True

    def answered(route: Route) -> None:
        answer = route.fetch()
        notice = "Indexing sessions" if is_indexing else None
        found = {**answer.json(), "is_indexing": is_indexing, "notice": notice}
        route.fulfill(response=answer, json=found)

    page.route("**/api/sessions?*", answered)
    page.goto(f"{server.origin}/sessions")
    expect(page.locator("#index-notice")).to_have_text("Indexing sessions")
    page.evaluate("document.body.dataset.mark = 'the same page'")
    is_indexing = False
    expect(page.locator("#index-notice")).to_be_hidden()
    expect(page.locator("body")).to_have_attribute("data-mark", "the same page")


def test_the_list_can_be_scrolled_away_from_the_selection(page: Page, server: WebServer) -> None:
    page.goto(f"{server.origin}/sessions")
    expect(page.locator(".session-row").first).to_be_visible()
    page.keyboard.press("j")
    page.evaluate("const l = document.getElementById('list'); l.scrollTop = l.scrollHeight")
    # Its page is loaded, after which the selection is restored.
    last = page.locator(f".session-row[aria-posinset='{COUNT + 2}'] .title")
    expect(last).not_to_have_text("…")
    expect(last).to_be_in_viewport()
    assert page.evaluate("document.getElementById('list').scrollTop") > 0


def test_the_theme_is_remembered(page: Page, server: WebServer) -> None:
    page.goto(f"{server.origin}/compare")
    button = page.get_by_role("button", name="Colour theme")
    button.click()
    button.click()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    page.goto(f"{server.origin}/sessions")
    assert page.locator("html").get_attribute("data-theme") == "dark"


def test_two_sessions_are_compared_with_their_prompts_aligned(
    page: Page, server: WebServer
) -> None:
    page.goto(f"{server.origin}/sessions?project=shop")
    boxes = page.locator(".session-row input")
    expect(boxes).to_have_count(2)
    for box in boxes.all():
        box.check()
    page.get_by_role("link", name="Compare two sessions").click()
    rows = page.locator("table.aligned tbody tr")
    expect(rows.nth(0)).to_have_class("equal")
    expect(rows.nth(1)).to_have_class("differs")
    assert {"Fix it", "Explain it"} <= set(re.findall(r"\w+ it", rows.nth(1).inner_text()))


def test_an_appended_line_appears(page: Page, server: WebServer, home: Path) -> None:
    path = next(home.rglob(f"{SESSION}.jsonl"))
    page.goto(f"{server.origin}/sessions/{SESSION}")
    expect(page.get_by_text("Why is the pool exhausted?").first).to_be_visible()
    last = json.loads(path.read_bytes().splitlines()[-1])
    added = json.loads(session(user("A prompt that was just typed")).splitlines()[0])
    added |= {"uuid": "0000add0-0000-4000-8000-000000000000", "parentUuid": last["uuid"]}
    with path.open("ab") as file:
        file.write(json.dumps(added).encode() + b"\n")
    page.get_by_text("A prompt that was just typed").first.wait_for(state="attached")


def test_the_stream_resumes_after_the_last_event(server: WebServer, home: Path) -> None:
    path = next(home.rglob(f"{OTHER}.jsonl"))
    with server.connect() as connection:
        request = f"GET /api/sessions/{OTHER}/events HTTP/1.1\r\nHost: {server.host}\r\n"
        head = f"{request}Cookie: {server.cookie}\r\nLast-Event-ID: 10\r\n\r\n"
        connection.sendall(head.encode())
        received = b""
        while b"\nid: " not in received:
            received += connection.recv(4096)
    assert f"id: {path.stat().st_size}\n".encode() in received


def test_a_page_of_the_list_is_small(server: WebServer) -> None:
    assert len(server.get("/api/sessions?offset=100").body) < 80_000
