"""The viewer in a real browser, under the strict policy of the web app."""

import json
import re
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from support.browser import AXE
from support.build import (
    SESSION,
    assistant,
    call,
    compaction,
    encode,
    image,
    moment,
    nth,
    result,
    session,
    text,
    thinking,
    user,
)
from support.long_session import LARGE, LongSession
from support.viewer_server import Backend, SessionBackend, serve_viewer
from turnlog.conversation.session import open_session
from turnlog.render.html.session_pages import SessionPages

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg"
    "=="
)
TURNS = 50_000
MOST_ROWS = 200
SCROLL = """(share) => {
    const { scrollHeight, clientHeight } = viewer.scroller;
    viewer.scroller.scrollTop = share * (scrollHeight - clientHeight);
}"""
IS_TURN_IN_THE_MIDDLE = "document.elementFromPoint(720, 500).closest('.tl-turn') !== null"
TWO_FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
UNFOLD = "document.querySelectorAll('.tl-unfold[aria-expanded=false]').forEach((b) => b.click())"


@contextmanager
def shown(browser: Browser, backend: Backend, query: str = "", **settings: Any) -> Generator[Page]:
    """Show the viewer; any error, refused request or violation of the policy fails the test."""
    faults: list[str] = []
    with ExitStack() as stack:
        address = stack.enter_context(serve_viewer(backend))
        wide: Any = {"viewport": {"width": 1440, "height": 900}}
        context = browser.new_context(**wide | settings)
        stack.callback(context.close)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: faults.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("requestfailed", lambda request: faults.append(request.url))
        page.on(
            "request",
            lambda it: None if it.url.startswith((address, "data:")) else faults.append(it.url),
        )
        page.goto(address + query)
        page.evaluate("viewer.ready")
        yield page
        assert faults == []


def rich_session(folder: Path) -> SessionBackend:
    """A session with everything that the viewer shows."""
    path = folder / f"{SESSION}.jsonl"
    todos = [{"content": "look", "status": "completed"}, {"content": "fix", "status": "pending"}]
    edit = {"file_path": "shop.py", "old_string": "a = 1", "new_string": "a = 2\nb = 3"}
    used = {"usage": {"input_tokens": 5000, "output_tokens": 70}, "model": "claude-opus-5"}
    lines = [
        user([text("please look"), image(PIXEL)]),
        assistant(thinking("I should look first."), message_id="m1", message=used),
        assistant(
            text("**Looking** at it.\n\n| a | b |\n|--|--|\n| 1 | 2 |"),
            message_id="m1",
            message=used,
        ),
        assistant(
            call("Bash", {"command": "grep -n total shop.py"}, "A"), message_id="m1", message=used
        ),
        result("A", "3: total = 0\n4: total += 1"),
        assistant(
            call("Agent", {"prompt": "look", "description": "Look around"}, "T"), message=used
        ),
        result("T", "seen"),
        user("make it better"),
        assistant(call("TodoWrite", {"todos": todos}, "B"), call("Edit", edit, "C"), message=used),
        result("B"),
        result("C"),
        assistant(call("Bash", {"command": "make test"}, "D"), message=used),
        result("D", "boom: 1 failed", is_error=True),
        assistant(text("Done, but a test fails."), message=used),
        *compaction("So far: the shop was made better."),
        user("the old way", parent=nth(16)),
        user("the new way", parent=nth(16)),
        assistant(text("As you like."), message=used),
    ]
    path.write_bytes(session(*lines))
    agent = folder / SESSION / "subagents" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    many = [
        each
        for n in range(40)
        for each in (assistant(call("Bash", {"command": f"ls {n}"}, f"s{n}")), result(f"s{n}"))
    ]
    agent.write_bytes(
        session(user("look"), *many, assistant(text("seen by the sub-agent")), agent_id="a1")
    )
    agent.with_suffix(".meta.json").write_bytes(
        encode({"toolUseId": "T", "description": "Look around"})
    )
    return SessionBackend(open_session(path))


@pytest.fixture
def rich(tmp_path: Path) -> SessionBackend:
    return rich_session(tmp_path)


def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds; the policy refuses the browser's own waiting."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.03)


def selected_line(page: Page) -> str | None:
    found = page.locator(".tl-turn > .tl-selected")
    return found.get_attribute("data-line") if found.count() else None


def count_rows(page: Page) -> int:
    return page.locator(".tl-row").count()


def top_turn(page: Page) -> int:
    """The number of the turn at the top of the transcript."""
    return page.evaluate("viewer.transcript.currentTurn() + 1")


def test_the_rows_on_the_page_are_those_of_the_session(
    browser: Browser, rich: SessionBackend
) -> None:
    pages = SessionPages(rich.session)
    rows = [row for turn in pages.turns for row in pages.page(turn.n)["rows"]]
    with shown(browser, rich) as page:
        found = page.locator(".tl-turn > .tl-row")
        kinds = found.evaluate_all("rows => rows.map(row => row.className.split(' ')[1].slice(3))")
        assert kinds == [row["type"] for row in rows]
        lines = found.evaluate_all("rows => rows.map(row => row.dataset.line ?? null)")
        assert lines == [str(row["line"]) if row.get("line") else None for row in rows]
        prompts = page.locator(".tl-prompt .tl-text").all_inner_texts()
        assert prompts == [row["text"] for row in rows if row["type"] == "prompt"]
        assert page.locator(".tl-answer").first.inner_text().endswith("1\t2")
        for name, row in (("grep", rows[3]),):
            line = page.locator(".tl-call", has_text=name)
            line.locator(".tl-unfold").first.click()
            shown_texts = line.locator("pre").all_text_contents()
            assert shown_texts == [row["input"]["command"], row["result"]]


def test_calls_show_status_diffs_lists_and_images(browser: Browser, rich: SessionBackend) -> None:
    with shown(browser, rich) as page:
        assert page.locator(".tl-diff .tl-added").all_text_contents() == ["+a = 2\n", "+b = 3\n"]
        assert page.locator(".tl-diff .tl-removed").all_text_contents() == ["-a = 1\n"]
        assert page.locator(".tl-todos li").all_inner_texts() == ["☑ look", "☐ fix"]
        failed = page.locator(".tl-call.tl-failed")
        assert failed.locator(".tl-dot").get_attribute("aria-label") == "failed"
        assert "boom: 1 failed" in failed.inner_text()
        assert page.locator(".tl-prompt img").evaluate("image => image.naturalWidth") == 1
        assert page.locator(".tl-answer table td").all_inner_texts() == ["1", "2"]


def test_the_inspector_tells_about_the_selected_message(
    browser: Browser, rich: SessionBackend
) -> None:
    rich.findings = [
        {
            "kind": "open-call",
            "severity": "loss",
            "line": 12,
            "message": "a call is open",
            "fix": "turnlog edit x --repair",
            "count": 1,
        }
    ]
    with shown(browser, rich, "?line=3") as page:
        inspector = page.locator(".tl-inspector")
        marked = page.locator(".tl-found")
        marked.wait_for()
        assert marked.inner_text() == "loss: a call is open"
        assert page.get_by_role("button", name="1 finding").is_visible()
        assert page.locator(".tl-selected").get_attribute("data-line") == "3"
        for told in (
            "claude-opus-5",
            "5k of 1M",
            f"turnlog show {SESSION} --line 3",
            "claude --resume",
        ):
            inspector.get_by_text(told).first.wait_for()
        resume = f"cd /home/ada/shop && claude --resume {SESSION}"
        assert inspector.get_by_text("claude --resume").inner_text() == resume
        page.keyboard.press("r")
        inspector.get_by_role("heading", name="line 3").wait_for()
        assert '"model": "claude-opus-5"' in inspector.locator("pre").inner_text()
        page.keyboard.press("x")
        inspector.get_by_text("1 message with 2 blocks").wait_for()
        assert "please look" in inspector.locator(".tl-context").inner_text()
        inspector.get_by_role("tab", name="Check").click()
        inspector.get_by_text("a call is open").wait_for()
        inspector.get_by_role("button", name="line 12").click()
        until(lambda: selected_line(page) == "12")


def test_keys_move_between_turns_errors_and_edits(browser: Browser, rich: SessionBackend) -> None:
    moves = "j 1 j 8 j 18 k 8 e 12 E 12 p 1 d 9 n 18".split()
    with shown(browser, rich) as page:
        for key, line in zip(moves[::2], moves[1::2], strict=True):
            page.keyboard.press(key)
            page.locator(f".tl-selected[data-line='{line}']").wait_for()
        assert "line=18" in page.url
        page.keyboard.press("o")
        assert page.locator(".tl-outline").is_hidden()
        page.keyboard.press("?")
        assert page.get_by_role("dialog").get_by_text("next error").is_visible()
        page.keyboard.press("Escape")
        assert page.get_by_role("dialog").count() == 0
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.type") == "search"
        page.keyboard.type("jjj")
        expect(page.get_by_role("searchbox")).to_have_value("jjj")
        assert page.locator(".tl-selected").get_attribute("data-line") == "18"


def test_find_goes_through_the_matches(browser: Browser, rich: SessionBackend) -> None:
    with shown(browser, rich) as page:
        page.keyboard.press("/")
        page.keyboard.type("total = 0")
        page.keyboard.press("Enter")
        page.locator(".tl-find-count", has_text="1 of 1").wait_for()
        assert "3: total = 0" in page.locator(".tl-selected pre").last.inner_text()
        assert page.evaluate("CSS.highlights.get('tl-find').size") == 1
        assert page.locator(".tl-marker").count() == 1
        page.keyboard.press("Control+A")
        page.keyboard.type("better")
        page.keyboard.press("Enter")
        page.locator(".tl-find-count", has_text="1 of 2").wait_for()
        page.keyboard.press("Enter")
        page.locator(".tl-find-count", has_text="2 of 2").wait_for()
        page.keyboard.press("Control+A")
        page.keyboard.type("nowhere")
        page.keyboard.press("Enter")
        page.locator(".tl-find-count", has_text="no match").wait_for()


def test_a_file_without_a_server_is_searched_in_the_page(
    browser: Browser, rich: SessionBackend
) -> None:
    with shown(browser, rich) as page:
        found = page.evaluate("viewer.find.text = 'TOTAL', viewer.find.searchHere('TOTAL')")
        assert [(each["turn"], each["row"], each["field"]) for each in found["matches"]] == [
            (1, 3, "title")
        ]


def test_the_branch_switcher_shows_another_branch(browser: Browser, rich: SessionBackend) -> None:
    with shown(browser, rich) as page:
        assert page.get_by_text("the new way", exact=True).first.is_visible()
        names = page.get_by_label("branch").locator("option").all_text_contents()
        assert names == ["○ line 17: the old way", "● line 18: the new way"]
        page.get_by_label("branch").select_option(nth(17))
        page.locator(".tl-prompt", has_text="the old way").wait_for()
        assert page.locator(".tl-prompt", has_text="the new way").count() == 0
        assert f"leaf={nth(17)}" in page.url
        page.wait_for_load_state("networkidle")  # a request that is cut off counts as a fault
        page.reload()
        page.locator(".tl-prompt", has_text="the old way").wait_for()


def test_back_returns_to_the_branch_before(browser: Browser, rich: SessionBackend) -> None:
    with shown(browser, rich) as page:
        select = page.locator(".tl-branches select")
        first = select.input_value()
        other = next(
            value
            for value in select.locator("option").evaluate_all("all => all.map((it) => it.value)")
            if value != first
        )
        select.select_option(other)
        until(lambda: f"leaf={other}" in page.url)
        until(lambda: select.input_value() == other)
        page.go_back()
        until(lambda: select.input_value() == first)
        page.go_forward()
        until(lambda: select.input_value() == other)


def test_a_search_is_kept_in_the_address(browser: Browser, rich: SessionBackend) -> None:
    with shown(browser, rich) as page:
        page.keyboard.press("/")
        page.keyboard.type("total")
        page.keyboard.press("Enter")
        expect(page.locator(".tl-find-count")).to_have_text(re.compile("^1 of "))
        assert "find=total" in page.url
        line = selected_line(page)
        page.wait_for_load_state("networkidle")  # a request that is cut off counts as a fault
        page.reload()
        expect(page.locator(".tl-find-count")).to_have_text(re.compile("^1 of "))
        until(lambda: selected_line(page) == line)
        page.locator(".tl-find input").press("Escape")
        until(lambda: "find=" not in page.url)


def test_a_link_to_a_line_of_another_branch_opens_that_branch(
    browser: Browser, rich: SessionBackend
) -> None:
    with shown(browser, rich, "?line=17") as page:
        page.locator(".tl-selected", has_text="the old way").wait_for()
        assert selected_line(page) == "17"


def test_the_cost_says_what_it_leaves_out(browser: Browser, rich: SessionBackend) -> None:
    with shown(browser, rich) as page:
        facts = page.locator(".tl-session-facts")
        facts.get_by_text("(this branch, without sub-agents)").wait_for()


def test_a_compaction_shows_what_was_lost(browser: Browser, rich: SessionBackend) -> None:
    with shown(browser, rich) as page:
        page.get_by_role("button", name="what was lost").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_text("So far: the shop was made better.").wait_for()
        assert "please look" in dialog.locator(".tl-context").inner_text()


def test_a_sub_agent_is_unfolded_in_pages_and_drawn_as_a_lane(
    browser: Browser, rich: SessionBackend
) -> None:
    with shown(browser, rich) as page:
        box = page.locator(".tl-agent")
        box.get_by_role("button", name="Look around").click()
        box.get_by_text("1–30 of 43 rows").wait_for()
        box.get_by_role("button", name="next").click()
        box.get_by_text("seen by the sub-agent").wait_for()
        page.keyboard.press("t")
        lanes = page.get_by_role("region", name="timeline").get_by_role("listitem")
        lanes.nth(1).wait_for()
        assert lanes.count() == 2
        # The facts have the width they need in any font, and the bars share an axis.
        for name, side in ((".tl-lane-facts", "left"), (".tl-lane-bars", "right")):
            found = lanes.locator(name).evaluate_all(
                "(all, side) => all.map((each) => [each.getBoundingClientRect()[side], "
                "each.scrollWidth - each.clientWidth])",
                side,
            )
            assert found[0] == found[1]
            assert found[0][1] <= 0
        lanes.nth(1).get_by_role("button").click()
        until(lambda: selected_line(page) == "6")


def test_a_turn_is_copied_as_markdown(browser: Browser, rich: SessionBackend) -> None:
    permissions = ["clipboard-read", "clipboard-write"]
    with shown(browser, rich, permissions=permissions) as page:
        page.keyboard.press("j")
        page.keyboard.press("m")
        page.get_by_text("copied as Markdown").wait_for(state="attached")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith("## 1. Prompt\n\nplease look\n\n**Looking** at it.")
        assert "**Bash** `grep -n total shop.py` (2 lines)" in copied


def test_a_live_session_grows_without_moving_the_reader(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(
        session(*(each for n in range(60) for each in (user(f"q{n}"), assistant(text(f"a{n}")))))
    )
    with shown(browser, SessionBackend(open_session(path))) as page:
        page.evaluate("viewer.transcript.goToTurn(20)")
        page.locator(".tl-prompt", has_text="q20").wait_for()
        before = page.locator("[data-turn='21']").bounding_box()
        with path.open("ab") as file:
            file.write(
                session(
                    *(user("x") for _ in range(120)), user("new one", parent=nth(120))
                ).splitlines(keepends=True)[-1]
            )
        page.evaluate("grow()")
        page.get_by_role("button", name="new rows").wait_for()
        assert page.locator("[data-turn='21']").bounding_box() == before
        page.keyboard.press("End")
        page.locator(".tl-prompt", has_text="new one").wait_for()
        with path.open("ab") as file:
            file.write(
                session(
                    *(user("x") for _ in range(121)), user("newest", parent=nth(121))
                ).splitlines(keepends=True)[-1]
            )
        page.evaluate("grow()")
        page.locator(".tl-prompt", has_text="newest").wait_for()


def test_all_parts_of_the_page_show_the_same_figures_of_a_live_session(
    browser: Browser, tmp_path: Path
) -> None:
    folder = tmp_path / SESSION / "subagents"
    folder.mkdir(parents=True)
    (folder / "agent-a1.jsonl").write_bytes(session(user("look"), agent_id="a1"))
    used = {"usage": {"output_tokens": 1000}, "model": "claude-opus-5"}
    lines = [user("q1"), assistant(text("a1"), message=used), user("q2", timestamp=moment(3))]
    for n in range(4):
        lines += [assistant(call("Bash", {"command": "x"}, f"c{n}"), message=used)]
        lines += [result(f"c{n}", "boom", is_error=True)]
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(session(*lines[:5]))
    with shown(browser, SessionBackend(open_session(path))) as page:

        def grow(count: int) -> None:
            path.write_bytes(session(*lines[:count]))
            page.evaluate("grow()")

        def figure(name: str) -> Locator:
            return page.locator(".tl-inspector dt", has_text=name).locator("+ dd")

        head = page.locator(".tl-head")
        page.keyboard.press("t")
        for count, cost in ((5, "$0.05"), (7, "$0.075")):
            grow(count)
            expect(head.locator(".tl-session-facts")).to_contain_text(cost)
            expect(figure("cost")).to_contain_text(cost)
            expect(page.locator(".tl-lane-facts").first).to_contain_text(cost)
        expect(head.locator(".tl-jumps")).to_contain_text("2 errors")
        expect(figure("errors")).to_have_text("2")
        # A selected row stays selected when others are inserted before it.
        page.locator(".tl-end").last.click()
        head.get_by_role("button", name="error").focus()
        for count, cost in ((9, "$0.075"), (11, "$0.1")):
            grow(count)
            expect(page.locator(".tl-selected")).to_contain_text(cost)
            expect(figure("cost")).to_contain_text(cost)
        expect(page.locator(".tl-selected.tl-end")).to_be_visible()
        expect(head.get_by_role("button", name="4 errors")).to_be_focused()


def test_long_texts_are_clamped_until_asked_for(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(
        session(
            user("q"),
            assistant(call("Bash", {"command": "x"}, "A")),
            result("A", "long\n" * 40_000),
        )
    )
    with shown(browser, SessionBackend(open_session(path))) as page:
        page.locator(".tl-call .tl-unfold").click()
        output = page.locator(".tl-call pre").last
        assert len(output.text_content() or "") < 51_000
        output.get_by_role("button", name="show all").click()
        until(lambda: len(output.text_content() or "") == 200_000)


def test_prompts_are_marked_with_unusual_rounds_and_kinds(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / f"{SESSION}.jsonl"
    opened = [text("<ide_opened_file>cart.py</ide_opened_file>"), text("go on")]
    later = user(opened, timestamp="2026-11-15T07:00:00.000Z")
    path.write_bytes(session(user("q1"), assistant(text("a1")), user("q2"), later))
    with shown(browser, SessionBackend(open_session(path))) as page:
        prompts = page.locator(".tl-prompt").all()
        marks = [each.locator(".tl-mark").all_text_contents() for each in prompts]
        assert marks == [["new session"], [], ["resume", "ide opened file"]]


def test_colours_of_output_are_shown_and_other_sequences_spelled_out(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / f"{SESSION}.jsonl"
    printed = "\x1b[1;31mred\x1b[0m plain \x1b[38;5;9mrest\x1b[2J"
    path.write_bytes(session(user("q"), assistant(call("Bash", {}, "A")), result("A", printed)))
    with shown(browser, SessionBackend(open_session(path))) as page:
        page.locator(".tl-call .tl-unfold").click()
        output = page.locator(".tl-call pre").last
        assert output.text_content() == "red plain rest<ESC>[2J"
        assert output.locator(".tl-ansi-red.tl-ansi-bold").all_text_contents() == ["red"]


def test_a_session_of_fifty_thousand_turns_is_scrolled_anywhere(browser: Browser) -> None:
    backend = LongSession(TURNS)
    with shown(browser, backend) as page:
        track = page.locator(".tl-track").evaluate("track => track.clientHeight")
        assert 1_000_000 < track <= 8_000_000
        for share in (0, 0.001, 0.25, 0.5, 0.777, 0.999, 1):
            page.evaluate(SCROLL, share)
            until(lambda: page.evaluate(IS_TURN_IN_THE_MIDDLE))
            until(lambda share=share: abs(top_turn(page) / TURNS - share) < 0.02)
            until(lambda: count_rows(page) > 0)
            assert count_rows(page) <= MOST_ROWS
        page.locator(".tl-prompt", has_text=f"prompt of turn {TURNS}").wait_for()
        assert page.locator(".tl-outline-turn").count() < 60
        assert (
            page.locator(".tl-outline-turn[aria-current]")
            .inner_text()
            .startswith(str(top_turn(page)))
        )


def test_small_steps_of_the_wheel_move_by_pixels_although_the_track_is_capped(
    browser: Browser,
) -> None:
    with shown(browser, LongSession(TURNS)) as page:
        page.evaluate("viewer.transcript.goToTurn(30_000)")
        page.locator(".tl-prompt", has_text="prompt of turn 30001").wait_for()
        page.mouse.move(720, 500)
        seen = [top_turn(page)]
        for _ in range(30):
            page.mouse.wheel(0, 100)
            page.evaluate(TWO_FRAMES)
            assert count_rows(page) <= MOST_ROWS
            seen.append(top_turn(page))
        assert {later - earlier for earlier, later in pairwise(seen)} <= {0, 1}
        assert seen[-1] - seen[0] > 5


def test_a_turn_of_many_rows_is_folded_and_mounted_in_parts(browser: Browser) -> None:
    with shown(browser, LongSession(2 * LARGE), f"?turn={LARGE}") as page:
        turn = page.locator(f"[data-turn='{LARGE}']")
        turn.get_by_text(f"answer of turn {LARGE}").wait_for()
        assert turn.locator(".tl-row").count() == 3
        turn.get_by_role("button", name="unfold 500 rows").click()
        page.get_by_text("call 30 of turn 500").wait_for()
        page.mouse.move(720, 500)
        for _ in range(80):
            page.mouse.wheel(0, 400)
            page.evaluate(TWO_FRAMES)
            assert count_rows(page) <= MOST_ROWS
            if page.get_by_text("call 450 of turn 500").count():
                break
        assert page.get_by_text("call 450 of turn 500").count() == 1


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("?line=800000", "prompt of turn 40000"),
        ("#line=800000", "prompt of turn 40000"),
        ("?turn=7", "prompt of turn 7"),
    ],
)
def test_a_deep_link_opens_at_its_place(browser: Browser, query: str, told: str) -> None:
    with shown(browser, LongSession(TURNS), query) as page:
        page.locator(".tl-prompt", has_text=told).first.wait_for()
        place = page.locator(".tl-prompt", has_text=told).first.bounding_box()
        assert place
        assert place["y"] < 700


def test_the_outline_is_filtered(browser: Browser) -> None:
    with shown(browser, LongSession(3000)) as page:
        page.get_by_label("filter turns").fill("turn 2999")
        until(lambda: page.locator(".tl-outline-turn").count() == 1)
        page.locator(".tl-outline-turn").click()
        page.locator(".tl-prompt", has_text="prompt of turn 2999").wait_for()


HOSTILE = (
    "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
    "<svg onload='window.hacked = 1'></svg>[a](javascript:window.hacked=1)"
    "![p](https://example.com/p.png) \u202egnp.exe\u202c \x1b[31mred\x1b[0m \x1b]0;t\x07"
    "</textarea></pre></style><style>*{display:none}</style>"
)


def hostile_session(folder: Path) -> SessionBackend:
    """A session with markup in every field that reaches the page."""
    path = folder / f"{SESSION}.jsonl"
    edit = {"file_path": HOSTILE, "old_string": HOSTILE, "new_string": HOSTILE * 2}
    lines = [
        user(HOSTILE, cwd=HOSTILE, git_branch=HOSTILE, permission_mode=HOSTILE),
        assistant(thinking(HOSTILE), text(HOSTILE), message={"model": HOSTILE}, version=HOSTILE),
        assistant(call(HOSTILE, {HOSTILE: HOSTILE}, "A"), call("Edit", edit, "B")),
        result("A", HOSTILE, is_error=True),
        result("B", HOSTILE),
        assistant(call("TodoWrite", {"todos": [{"content": HOSTILE, "status": HOSTILE}]}, "C")),
        assistant(call("ExitPlanMode", {"plan": HOSTILE}, "D")),
        assistant(call("Agent", {"prompt": "x", "description": HOSTILE}, "T")),
        result("T", [image(PIXEL, 'image/svg+xml"onload="window.hacked=1'), text(HOSTILE)]),
        user([image(HOSTILE), text(HOSTILE)], uuid="u1"),
        user(HOSTILE),
        *compaction(HOSTILE, compact_metadata={"trigger": HOSTILE, "preTokens": 1}),
        user(HOSTILE, logical_parent_uuid="u1"),
        encode({"type": "custom-title", "customTitle": HOSTILE}),
        encode({"type": HOSTILE, "uuid": HOSTILE}),
    ]
    path.write_bytes(session(*lines))
    agent = folder / SESSION / "subagents" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_bytes(session(user(HOSTILE), assistant(text(HOSTILE)), agent_id="a1"))
    agent.with_suffix(".meta.json").write_bytes(encode({"toolUseId": "T", "description": HOSTILE}))
    backend = SessionBackend(open_session(path))
    backend.findings = [
        {
            "kind": HOSTILE,
            "severity": "loss",
            "line": 1,
            "message": HOSTILE,
            "fix": HOSTILE,
            "count": 2,
        }
    ]
    return backend


def test_hostile_content_is_inert_everywhere(browser: Browser, tmp_path: Path) -> None:
    with shown(browser, hostile_session(tmp_path)) as page:
        page.evaluate(UNFOLD)
        page.keyboard.press("j")
        for tab in page.get_by_role("tab").all():
            tab.click()
            page.wait_for_timeout(100)
        page.keyboard.press("t")
        page.evaluate("text => viewer.find.search(text)", HOSTILE)
        page.keyboard.press("c")
        page.get_by_role("button", name="what was lost").first.click()
        page.wait_for_timeout(300)
        assert page.evaluate("window.hacked") is None
        assert (
            page.locator("#viewer :is(script, style, iframe, object, embed, form, base)").count()
            == 0
        )
        assert page.locator("#viewer svg:not(.tl-fill-chart, .tl-lane-bars)").count() == 0
        assert page.locator("#viewer img").count() == 0
        links = page.locator("#viewer a").evaluate_all(
            "links => links.map(link => link.getAttribute('href'))"
        )
        assert [link for link in links if not link.startswith("/?")] == []
        shown_text = page.locator("#viewer").evaluate("viewer => viewer.textContent")
        assert not {"\u202e", "\x1b", "\x07"} & set(shown_text)
        assert "<U+202E>gnp.exe" in shown_text


REFUSED = """(run) => {
    try { new Map([
        ["html", () => document.body.insertAdjacentHTML("beforeend", "<b>x</b>")],
        ["policy", () => trustedTypes.createPolicy("turnlog", {})],
        ["script", () => setTimeout("window.hacked = 1")],
    ]).get(run)() } catch (error) { return error.name }
}"""


@pytest.mark.parametrize("run", ["html", "policy", "script"])
def test_the_policy_refuses_html_from_elsewhere(
    browser: Browser, rich: SessionBackend, run: str
) -> None:
    with serve_viewer(rich) as address:
        page = browser.new_page()
        page.goto(address)
        page.evaluate("viewer.ready")
        assert page.evaluate(REFUSED, run) in ("TypeError", "EvalError")
        page.close()


def test_the_inspector_is_not_empty_when_it_is_opened_on_a_phone(
    browser: Browser, rich: SessionBackend
) -> None:
    with shown(browser, rich, "?line=3", viewport={"width": 375, "height": 760}) as page:
        page.get_by_role("button", name="inspector").click()
        page.locator(".tl-inspector").get_by_text(f"turnlog show {SESSION} --line 3").wait_for()


def test_the_inspector_names_the_fullest_context_and_costs_that_are_too_low(
    browser: Browser, rich: SessionBackend, tmp_path: Path
) -> None:
    with shown(browser, rich) as page:
        inspector = page.locator(".tl-inspector")
        expect(inspector.get_by_text("5k (1%)")).to_be_visible()
        assert page.get_by_text("†").count() == 0
        expect(inspector.locator(".tl-fill-chart")).to_contain_text("100% of the window")
    used = {"usage": {"input_tokens": 150_000, "output_tokens": 70}, "model": "claude-opus-4-5"}
    path = tmp_path / "one" / f"{SESSION}.jsonl"
    path.parent.mkdir()
    path.write_bytes(session(user("go"), assistant(text("done"), message=used, version="2.0.76")))
    with shown(browser, SessionBackend(open_session(path))) as page:
        inspector = page.locator(".tl-inspector")
        expect(inspector.get_by_text("† too low: clients up to 2.1.56")).to_be_visible()
        expect(page.locator(".tl-session-facts").get_by_text("†")).to_be_visible()
        expect(inspector.get_by_text("150k (75%)")).to_be_visible()
        # One turn is no line.
        assert inspector.locator(".tl-fill-chart").count() == 0


def test_the_facts_of_a_turn_are_not_cut_on_a_phone(browser: Browser, rich: SessionBackend) -> None:
    with shown(browser, rich, viewport={"width": 375, "height": 760}) as page:
        head = page.locator(".tl-turn-head").first
        head.wait_for()
        # As in a turn of many calls, some of which failed.
        head.locator(".tl-turn-facts").evaluate(
            "facts => { facts.textContent = '122 calls · 17 edits 12 errors'; }"
        )
        facts = "facts => facts.scrollWidth - facts.clientWidth"
        assert head.locator(".tl-turn-facts").evaluate(facts) <= 0
        lines = "time => time.getClientRects().length"
        assert head.locator("time").evaluate(lines) == 1
        inside = (
            "head => [...head.children].every((each) => each.getBoundingClientRect().right <= 375)"
        )
        assert head.evaluate(inside)


def test_a_phone_shows_figures_the_chosen_branch_and_calls_on_one_line(
    browser: Browser, rich: SessionBackend
) -> None:
    with shown(browser, rich, viewport={"width": 375, "height": 760}) as page:
        facts = page.locator(".tl-session-facts")
        # As in a folder far from the root, which leaves no room after it.
        places = facts.locator(".tl-places")
        places.locator("span").first.evaluate(
            "each => { each.textContent = '/home/ada'.repeat(20); }"
        )
        # As in a wide font.
        facts.evaluate("facts => { facts.style.letterSpacing = '2px'; }")
        assert places.evaluate("each => each.clientHeight") < 30
        bottom = facts.evaluate("facts => facts.getBoundingClientRect().bottom")
        cost = facts.get_by_text("$").evaluate("each => each.getBoundingClientRect().bottom")
        assert cost <= bottom + 1
        assert page.locator(".tl-branches .tl-select").evaluate("each => each.clientWidth") >= 96
        call = page.locator(".tl-call .tl-unfold").first
        call.locator(".tl-outcome").evaluate(
            "each => { each.textContent = 'denied (user-rejected)'; }"
        )
        call.locator(".tl-facts").evaluate("each => { each.textContent = '9.9s'; }")
        tops = "row => [...row.children].map((each) => each.getBoundingClientRect().bottom)"
        bottoms = call.evaluate(tops)
        assert max(bottoms) - min(bottoms) < 20


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1440])
def test_no_serious_findings_of_axe(
    browser: Browser, rich: SessionBackend, scheme: Any, width: int
) -> None:
    with serve_viewer(rich) as address:
        # axe is injected, which the policy would refuse.
        size: Any = {"width": width, "height": 800}
        context = browser.new_context(viewport=size, color_scheme=scheme, bypass_csp=True)
        page = context.new_page()
        page.goto(f"{address}?line=12")
        page.evaluate("viewer.ready")
        page.locator(".tl-call .tl-unfold").first.click()
        if width > 1000:
            page.keyboard.press("t")
        page.add_script_tag(path=AXE)
        found = page.evaluate("axe.run()")
        serious = [
            each for each in found["violations"] if each["impact"] in ("serious", "critical")
        ]
        assert [(each["id"], each["nodes"][0]["html"]) for each in serious] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        context.close()


def test_the_rows_json_is_what_the_page_was_given(browser: Browser, rich: SessionBackend) -> None:
    pages = SessionPages(rich.session)
    with shown(browser, rich) as page:
        kept = page.evaluate("[...viewer.store.pages.values()].sort((a, b) => a.n - b.n)")
        assert kept == json.loads(json.dumps([pages.page(turn.n) for turn in pages.turns]))
