"""Files as of a message, in a real browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from support.browser import AXE
from support.build import SESSION, assistant, session, text, user
from support.file_calls import Calls, full_path
from support.web_server import WebServer, running_server

TOKEN = "ghp_" + "Ab3dEf6hIj9lMn2pQr5tUv8xYz1bCd4fGh7j"
HOSTILE = '<img src=x onerror="document.title=1">\n</pre><script>document.title=2</script>\n'
RUN_AXE = """() => axe.run(document, {resultTypes: ["violations"]}).then((found) => found.violations
  .filter((each) => each.impact === "serious" || each.impact === "critical")
  .map((each) => each.id))"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    home = tmp_path_factory.mktemp("home")
    folder = home / "projects" / "-home-ada-shop"
    folder.mkdir(parents=True)
    calls = Calls()
    first = f"{HOSTILE}key = '{TOKEN}'\n"
    lines = [
        user("Write it"),
        *calls.write("a.py", first),
        assistant(text("done")),
        user("Change it"),
        *calls.edit("a.py", "key", "KEY\u202e", first),
        *calls.write("b.py", "other\n"),
        assistant(text("done")),
    ]
    (folder / f"{SESSION}.jsonl").write_bytes(session(*lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("TURNLOG_HOME", str(tmp_path_factory.mktemp("data")))
        with running_server(home) as running:
            yield running.log_in()


def test_the_inspector_shows_files_as_of_the_selected_message(
    page: Page, server: WebServer
) -> None:
    page.set_viewport_size({"width": 1500, "height": 900})
    page.goto(f"{server.origin}/sessions/{SESSION}?line=2")
    inspector = page.locator(".tl-inspector")
    inspector.get_by_role("tab", name="Files").click()
    content = inspector.locator(".tl-file-content")
    expect(content).to_contain_text("[github-token:")
    assert "<img src=x" in content.inner_text()
    assert TOKEN not in page.content()
    assert inspector.locator("strong.tl-exact").inner_text() == "exact"
    slider = inspector.get_by_role("slider", name="time")
    assert (slider.get_attribute("max"), slider.input_value()) == ("1", "0")
    slider.focus()
    page.keyboard.press("ArrowRight")
    expect(content).to_contain_text("KEY<U+202E>")
    expect(inspector.get_by_text("2 of 2 · turn 2 · Edit")).to_be_visible()
    inspector.get_by_role("button", name="diff").click()
    expect(inspector.locator(".tl-diff .tl-removed")).to_contain_text("key")
    inspector.get_by_role("button", name="as of this message").click()
    expect(slider).to_have_value("0")
    assert page.title() not in ("1", "2")
    page.evaluate(Path(AXE).read_text())
    assert page.evaluate(RUN_AXE) == []


def test_another_file_is_chosen(page: Page, server: WebServer) -> None:
    page.set_viewport_size({"width": 1500, "height": 900})
    page.goto(f"{server.origin}/sessions/{SESSION}?line=8")
    inspector = page.locator(".tl-inspector")
    inspector.get_by_role("tab", name="Files").click()
    content = inspector.locator(".tl-file-content")
    expect(content).to_have_text("other\n")
    menu = inspector.get_by_role("combobox", name="file")
    assert menu.inner_text().splitlines()[0].startswith("a.py (")
    menu.select_option(index=0)
    expect(content).to_contain_text("KEY<U+202E>")


def test_the_page_of_a_file_has_a_slider_over_all_calls(page: Page, server: WebServer) -> None:
    page.goto(f"{server.origin}/files?path={full_path('a.py')}")
    shown = page.locator("#file-time")
    expect(shown.locator("pre")).to_contain_text("KEY<U+202E>")
    shown.get_by_role("slider", name="time").fill("0")
    expect(shown.locator("pre")).to_contain_text("key = ")
    expect(shown.locator("output")).to_contain_text("1 of 2 · Write")
    assert TOKEN not in page.content()
    assert page.title() not in ("1", "2")


@pytest.mark.parametrize(
    "query", ["file?file=99", "file?path=/etc/passwd", "file", "file?file=x", "files?line=999999"]
)
def test_a_file_that_the_session_does_not_name_is_not_found(server: WebServer, query: str) -> None:
    answer = server.get(f"/api/sessions/{SESSION}/{query}")
    assert answer.status in (400, 404)
    assert b"root:" not in answer.body
