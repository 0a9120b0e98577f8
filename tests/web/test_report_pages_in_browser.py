"""The report pages in a real browser: no violations, zooming, keys, themes, widths."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from support.browser import AXE
from support.build import SESSION, assistant, call, result, session, user
from turnlog.render.charts.svg import text_width

PATHS = ["/", "/cost", "/cost?by=session&plan=100&carrying=1", "/tools", "/files"]
NAME = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with thirty days of work, and names that are markup."""
    root = tmp_path_factory.mktemp("web")
    folder = root / "projects" / "-home-ada"
    folder.mkdir(parents=True)
    lines: list[bytes] = []
    for n in range(30):
        at: dict[str, Any] = {
            "timestamp": f"2026-10-{n + 1:02d}T09:00:00.000Z",
            "cwd": f"/home/ada/{NAME}",
        }
        usage = {"output_tokens": 1000 * (n + 1), "cache_read_input_tokens": 5000}
        body = {"model": "claude-opus-5", "usage": usage}
        given = {"file_path": f"/home/ada/{NAME}/a.py"}
        lines += [
            user(f"{NAME} {n}", **at),
            assistant(call("Read", given, f"r{n}"), message_id=f"m{n}", message=body, **at),
            result(f"r{n}", "x", **at),
            assistant(call(NAME, {}, f"t{n}"), message_id=f"n{n}", message=body, **at),
            result(f"t{n}", NAME, is_error=True, **at),
        ]
    (folder / f"{SESSION}.jsonl").write_bytes(session(*lines))
    (root / "settings.json").write_text('{"cleanupPeriodDays": 1}')
    return root


@pytest.fixture(scope="module")
def address(root: Path) -> Iterator[str]:
    """The one-time URL of a running server."""
    command = [sys.executable, "-m", "turnlog", "web", "--no-open", "--store", str(root)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(timeout=10)
        process.stdout.close()


@pytest.fixture(scope="module")
def visitor(browser: Browser, address: str) -> Iterator[BrowserContext]:
    """A browser that has used the one-time URL; every error in a page fails the test."""
    context = browser.new_context()
    context.set_default_timeout(20_000)
    page = context.new_page()
    page.goto(address)
    page.close()
    yield context
    context.close()


@pytest.fixture
def page(visitor: BrowserContext) -> Iterator[Page]:
    page = visitor.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("requestfailed", lambda request: problems.append(request.url))
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    yield page
    page.close()
    assert problems == []


def origin(address: str) -> str:
    return address[: address.index("/open")]


def axe(page: Page) -> list[Any]:
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    return [(each["id"], each["nodes"][0]["html"]) for each in found]


@pytest.mark.parametrize("path", PATHS)
def test_pages_have_no_violations_and_no_accessibility_findings(
    page: Page, address: str, path: str
) -> None:
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # pyright: ignore[reportArgumentType]
        page.goto(origin(address) + path)
        expect(page.locator("svg.tl-chart").first).to_be_visible()
        assert page.locator("img").count() == 0
        assert axe(page) == []


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("width", [375, 2560])
def test_pages_fit_the_screen(page: Page, address: str, path: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(origin(address) + path)
    expect(page.locator("svg.tl-chart").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [375, 1280])
def test_a_long_title_does_not_push_the_cost_out_of_view(
    page: Page, address: str, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"{origin(address)}/")
    row = page.locator(".recent tbody tr").first
    row.locator("a").evaluate("link => { link.textContent = 'x'.repeat(400); }")
    cost = row.locator("td").nth(4).bounding_box()
    assert cost
    assert cost["x"] + cost["width"] <= width


def test_the_page_leaves_the_dialogs_of_the_viewer_alone(page: Page, address: str) -> None:
    page.goto(f"{origin(address)}/")
    made = "Object.assign(document.createElement('dialog'), {className: 'tl-dialog'})"
    style = f"getComputedStyle(document.body.appendChild({made})).maxWidth"
    assert "560px" not in page.evaluate(style)


def test_a_cell_of_the_flame_graph_leads_back_to_the_graph(page: Page, address: str) -> None:
    page.goto(f"{origin(address)}/cost")
    page.get_by_text("Compute the carrying cost").click()
    page.locator("svg.tl-flame a").first.click()
    page.wait_for_url("**project=**")
    assert page.url.endswith("#carrying")
    expect(page.locator("svg.tl-flame")).to_be_in_viewport()


@pytest.mark.parametrize("width", [375, 1280])
def test_labels_of_the_flame_graph_are_cut_with_an_ellipsis(
    page: Page, address: str, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"{origin(address)}/cost?carrying=1")
    expect(page.locator("svg.tl-flame")).to_be_visible()
    labels = page.locator("svg.tl-flame foreignObject div")
    assert {"ellipsis hidden"} == set(
        labels.evaluate_all(
            """labels => labels.map(getComputedStyle)
                .map((style) => `${style.textOverflow} ${style.overflowX}`)"""
        )
    )
    # What a font makes too wide or too high stays inside of its cell.
    inside = """labels => labels.map((label) => [label, label.parentElement.previousElementSibling])
        .map(([label, cell]) => [label.getBoundingClientRect(), cell.getBoundingClientRect()])
        .map(([label, cell]) => label.left >= cell.left && label.right <= cell.right
            && label.top >= cell.top && label.bottom <= cell.bottom + 1)"""
    assert all(labels.evaluate_all(inside))
    cut = "labels => labels.filter((label) => label.scrollWidth > label.clientWidth).length"
    assert 0 < labels.evaluate_all(cut) < labels.count()


def test_no_font_is_wider_than_the_charts_reckon_with(page: Page, address: str) -> None:
    page.goto(f"{origin(address)}/tools")
    measure = """(characters) => {
        const context = document.createElement("canvas").getContext("2d");
        const { fontFamily } = getComputedStyle(document.querySelector("svg.tl-chart text"));
        context.font = `100px ${fontFamily}`;
        return characters.map((each) => [each, context.measureText(each).width]);
    }"""
    characters = [*map(chr, range(32, 127)), "…", "—", "日"]
    widths = page.evaluate(measure, characters)
    assert [each for each, width in widths if width > text_width(each, 100)] == []


def test_the_navigation_takes_two_rows_on_a_phone(page: Page, address: str) -> None:
    page.set_viewport_size({"width": 375, "height": 800})
    page.goto(f"{origin(address)}/")
    tops = page.evaluate(
        "[...document.querySelectorAll('.top-bar nav a')].map((a) => a.getBoundingClientRect().top)"
    )
    assert len(set(tops)) == 1
    bar = page.locator(".top-bar").bounding_box()
    assert bar
    assert bar["height"] <= 80


def test_dragging_over_bars_zooms(page: Page, address: str) -> None:
    page.goto(f"{origin(address)}/cost?by=day&split=none")
    chart = page.locator("[data-zoom] svg.tl-bars")
    first = chart.locator('[data-key="2026-10-10"]').bounding_box()
    last = chart.locator('[data-key="2026-10-20"]').bounding_box()
    assert first
    assert last
    page.mouse.move(first["x"] + 1, first["y"])
    page.mouse.down()
    page.mouse.move(last["x"] + 1, last["y"] - 5, steps=4)
    page.mouse.up()
    page.wait_for_url("**/cost?*since=*")
    assert "since=2026-10-10&until=2026-10-20" in page.url
    keys = page.locator("[data-zoom] svg.tl-bars [data-key]")
    days = [keys.nth(n).get_attribute("data-key") for n in range(keys.count())]
    assert (days[0], days[-1], len(days)) == ("2026-10-10", "2026-10-20", 11)


@pytest.mark.parametrize(
    ("unit", "first", "last", "query"),
    [
        ("day", "2026-10-01", "2026-10-03", "since=2026-10-01&until=2026-10-03"),
        ("week", "2026-10-05", "2026-10-26", "since=2026-10-05&until=2026-11-01"),
        ("month", "2026-01", "2026-02", "since=2026-01-01&until=2026-02-28"),
        (
            "block",
            "2026-10-05T20:00:00Z",
            "2026-10-05T20:00:00Z",
            "since=2026-10-05T20%3A00%3A00Z&until=2026-10-06T01%3A00%3A00.000Z",
        ),
    ],
)
def test_a_zoom_includes_the_whole_last_period(
    page: Page, address: str, unit: str, first: str, last: str, query: str
) -> None:
    page.goto(origin(address) + "/cost?by=day")
    script = "async (given) => (await import('/viewer/charts.js')).zoomAddress(...given)"
    found = page.evaluate(script, [f"{origin(address)}/cost?by=day&since=7d", unit, first, last])
    assert found == f"{origin(address)}/cost?by=day&{query}"
    answer = page.goto(found)
    assert answer
    assert answer.status == 200


def test_a_tooltip_shows_the_mark_below_the_pointer_and_the_focused_one(
    page: Page, address: str
) -> None:
    page.goto(origin(address) + "/?figure=turns")
    tip = page.locator(".tl-tip")
    page.locator('.tl-calendar [data-key="2026-10-15"]').hover()
    expect(tip).to_have_text("2026-10-15: 1")
    link = page.locator(".tl-calendar a").last
    link.focus()
    expect(tip).to_have_text("2026-10-30: 1")
    page.keyboard.press("ArrowLeft")
    expect(tip).to_have_text("2026-10-29: 1")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "2026-10-29: 1"


def test_the_maps_of_the_overview_filter_sessions(page: Page, address: str) -> None:
    page.goto(origin(address) + "/")
    assert page.locator(".tl-calendar a").last.get_attribute("href") == (
        "/sessions?since=2026-10-30&until=2026-10-30"
    )
    target = page.locator(".tl-week a").first.get_attribute("href")
    assert target
    assert target.startswith("/sessions?weekday=")
    page.goto(origin(address) + target)
    expect(page.locator("#count")).to_contain_text("1")


def test_filters_change_the_address(page: Page, address: str) -> None:
    page.goto(origin(address) + "/tools?order=errors")
    page.get_by_label("since").fill("2026-10-05")
    page.get_by_role("button", name="Apply").click()
    page.wait_for_url("**/tools?order=errors&since=2026-10-05")


def test_a_table_is_downloaded_as_csv(visitor: BrowserContext, address: str) -> None:
    page = visitor.new_page()
    page.goto(origin(address) + "/cost?by=model")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download CSV").click()
    assert download.value.suggested_filename == "turnlog-cost.csv"
    assert Path(download.value.path()).read_text().startswith("model,sessions,")
    page.close()


def test_a_date_that_is_none_is_explained(visitor: BrowserContext, address: str) -> None:
    page = visitor.new_page()
    answer = page.goto(origin(address) + "/cost?since=soon")
    assert answer
    assert answer.status == 400
    expect(page.locator("main")).to_contain_text("'soon' is not a date")
    page.close()
