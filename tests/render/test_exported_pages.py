"""Exported pages in a real browser, opened from disk without a network."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from conversation.conftest import Opened
from support.browser import AXE
from support.build import assistant, call, line, nth, result, text, user
from turnlog.conversation.session import Session, open_session
from turnlog.render.depth import Depth
from turnlog.render.export import ExportOptions, export_session
from turnlog.render.html.encryption import derive_key

ROOT = Path(__file__).parents[2]
SAMPLES = sorted((ROOT / "src/turnlog/samples/projects").rglob("*.jsonl"))
WIDE = {"width": 1440, "height": 900}
SECRET = "ghp_x7QaR2mN8vK4pL9sT3wY6zB1cD5eF0gH2jK4"
ATTACK = "<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>"
LINK = "[x](javascript:document.title='hacked') ![x](https://evil.example/pixel.png)"


@dataclass
class Visit:
    """A page that was opened, and what its browser reported."""

    page: Page
    reports: list[str] = field(default_factory=list[str])


@contextmanager
def opened_page(browser: Browser, path: Path, **choices: Any) -> Generator[Visit]:
    """Open a file in a browser without a network; nothing may be reported or requested."""
    context = browser.new_context(offline=True, **choices)
    page = context.new_page()
    visit = Visit(page)
    page.on("console", lambda message: visit.reports.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: visit.reports.append(f"error: {error}"))
    page.on("request", lambda request: visit.reports.append(f"request: {request.url}"))
    address = path.absolute().as_uri()
    page.goto(address)
    yield visit
    # Violations of the policy appear on the console as well.
    own = [report for report in visit.reports if report.removeprefix("request: ") != address]
    assert own == []
    context.close()


def exported(session: Session, folder: Path, **choices: Any) -> Path:
    path = folder / "x.html"
    export_session(session, path, ExportOptions(**choices))
    return path


def shown_text(page: Page) -> str:
    page.wait_for_selector(".tl-transcript .tl-row")
    return page.inner_text("body")


def hostile(opened: Opened) -> Session:
    return opened(
        user(f"{ATTACK} </script><script>1</script>"),
        assistant(text(f"{ATTACK}\n\n{LINK}\n\n<svg onload=alert(1)>"), message_id="m1"),
        assistant(
            call(f"Bash{ATTACK}", {"command": ATTACK, ATTACK: "</script>"}, "A"), message_id="m1"
        ),
        result("A", f"{ATTACK}\x1b[31mred\u202e", is_error=True),
        assistant(call("Write", {"file_path": f"/x/{ATTACK}", "content": ATTACK}, "B")),
        result("B", "ok"),
        line("custom-title", custom_title=ATTACK),
    )


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem[:8])
def test_samples_are_shown_from_disk(browser: Browser, path: Path, tmp_path: Path) -> None:
    session = open_session(path)
    with opened_page(browser, exported(session, tmp_path)) as visit:
        assert session.turns
        assert session.id in shown_text(visit.page)


def test_the_outline_of_a_long_session_is_read_block_by_block(
    browser: Browser, opened: Opened, tmp_path: Path
) -> None:
    session = opened(*(user(f"question {n}") for n in range(1, 701)))
    with opened_page(browser, exported(session, tmp_path)) as visit:
        page = visit.page
        page.wait_for_selector(".tl-transcript .tl-row")
        page.keyboard.press("End")
        page.locator(".tl-prompt", has_text="question 700").wait_for()
        page.locator(".tl-outline-label", has_text="question 700").wait_for()
        page.get_by_placeholder("filter turns").fill("question 55")
        page.locator(".tl-outline-label", has_text="question 559").wait_for()
        assert page.locator(".tl-outline-turn").count() == 11


def test_a_page_offers_only_what_it_contains(browser: Browser, tmp_path: Path) -> None:
    with opened_page(browser, exported(open_session(SAMPLES[0]), tmp_path)) as visit:
        visit.page.wait_for_selector(".tl-transcript .tl-row")
        assert visit.page.locator("[role=tab]").all_text_contents() == ["Message"]


@pytest.mark.parametrize("depth", Depth)
def test_every_depth_is_shown(browser: Browser, depth: Depth, tmp_path: Path) -> None:
    session = open_session(SAMPLES[0])
    with opened_page(browser, exported(session, tmp_path, depth=depth)) as visit:
        assert shown_text(visit.page)
        calls = visit.page.locator(".tl-call").count()
        assert (calls > 0) == (depth in (Depth.CALLS, Depth.FULL))


def test_hostile_content_is_inert(browser: Browser, opened: Opened, tmp_path: Path) -> None:
    session = hostile(opened)
    for is_static in (False, True):
        with opened_page(browser, exported(session, tmp_path, is_static=is_static)) as visit:
            page = visit.page
            page.wait_for_selector("summary" if is_static else ".tl-transcript .tl-row")
            for control in page.locator("summary, .tl-call button").all():
                control.click()
            assert page.title() != "hacked"
            assert page.locator("img, svg[onload], [onerror], a[href^='javascript']").count() == 0
            assert "onerror" in page.inner_text("body")


def test_the_policy_stops_what_gets_through(
    browser: Browser, opened: Opened, tmp_path: Path
) -> None:
    path = exported(opened(user("hi"), assistant(text("hello"))), tmp_path)
    inside = "<script>document.title='hacked'</script><img src=https://evil.example/x onerror=1>"
    path.write_text(path.read_text().replace('<main id="viewer">', f'{inside}<main id="viewer">'))
    context = browser.new_context(offline=True)
    page = context.new_page()
    reports: list[str] = []
    page.on("console", lambda message: reports.append(message.text))
    page.goto(path.absolute().as_uri())
    page.wait_for_selector(".tl-transcript .tl-row")
    assert "hacked" not in page.title()
    assert sum("Content Security Policy" in report for report in reports) >= 2
    blocked = "() => { document.body.innerHTML = '<b>x</b>' }"
    with pytest.raises(Exception, match="TrustedHTML"):
        page.evaluate(blocked)
    context.close()


def test_the_page_says_how_many_secrets_are_masked(
    browser: Browser, opened: Opened, tmp_path: Path
) -> None:
    session = opened(user(f"use {SECRET}"), assistant(text(f"not {SECRET}")))
    with opened_page(browser, exported(session, tmp_path)) as visit:
        found = shown_text(visit.page)
        assert "2 secrets are masked" in found
        assert "ghp_" not in found


def test_a_password_opens_an_encrypted_page(browser: Browser, tmp_path: Path) -> None:
    session = open_session(SAMPLES[0])
    path = exported(session, tmp_path, key=derive_key("correct horse", iterations=1000))
    with opened_page(browser, path) as visit:
        page = visit.page
        assert page.title() == "Encrypted session · turnlog"
        page.fill("#password", "wrong")
        page.keyboard.press("Enter")
        page.wait_for_function("document.querySelector('[role=alert]').textContent")
        assert "password is wrong" in page.inner_text("[role=alert]")
        assert page.locator(".tl-row").count() == 0
        page.fill("#password", "correct horse")
        page.click("text=Open")
        assert session.id in shown_text(page)
        assert page.title() != "Encrypted session · turnlog"


def test_a_page_without_scripts_is_readable_without_them(browser: Browser, tmp_path: Path) -> None:
    session = open_session(SAMPLES[0])
    path = exported(session, tmp_path, is_static=True)
    with opened_page(browser, path, java_script_enabled=False) as visit:
        found = visit.page.inner_text("body")
        assert session.id in found
        assert visit.page.locator("section").count() == len(session.turns)
        details = visit.page.locator("details").first
        details.locator("summary").first.click()
        assert details.locator("pre").first.is_visible()


def test_the_inspector_of_an_exported_page_offers_no_commands(
    browser: Browser, opened: Opened, tmp_path: Path
) -> None:
    session = opened(user("q1"), assistant(text("a1")))
    with opened_page(browser, exported(session, tmp_path), viewport=WIDE) as visit:
        inspector = visit.page.locator(".tl-inspector")
        inspector.get_by_text(session.id).wait_for()
        assert inspector.locator(".tl-command").count() == 0
        visit.page.locator(".tl-answer").click()
        inspector.get_by_text("cache read").wait_for()
        assert inspector.locator(".tl-command").count() == 0
        assert "/home/ada" not in shown_text(visit.page)


def test_branches_and_sub_agents_are_in_the_file(
    browser: Browser, opened: Opened, tmp_path: Path
) -> None:
    session = opened(
        user("q1"),
        assistant(text("a1")),
        user("q2"),
        assistant(text("old answer")),
        user("q3", parent=nth(2)),
        assistant(text("new answer")),
    )
    with opened_page(browser, exported(session, tmp_path)) as visit:
        page = visit.page
        assert "new answer" in shown_text(page)
        page.select_option("select[aria-label=branch]", index=0)
        page.wait_for_selector("text=old answer")
        assert "new answer" not in page.inner_text(".tl-transcript")


def test_a_turn_alone_is_shown(browser: Browser, opened: Opened, tmp_path: Path) -> None:
    session = opened(user("first"), assistant(text("one")), user("second"), assistant(text("two")))
    with opened_page(browser, exported(session, tmp_path, turn=2)) as visit:
        found = shown_text(visit.page)
        assert "two" in found
        assert "one" not in visit.page.inner_text(".tl-transcript")


def test_search_finds_text_in_any_chunk(browser: Browser, opened: Opened, tmp_path: Path) -> None:
    filler = "lorem ipsum " * 8000
    entries = [
        entry
        for n in range(12)
        for entry in (
            user(f"question {n}"),
            assistant(
                text(
                    f"{filler} needle{n}",
                ),
                message_id=f"m{n}",
            ),
        )
    ]
    with opened_page(browser, exported(opened(*entries), tmp_path)) as visit:
        page = visit.page
        shown_text(page)
        page.fill(".tl-find input", "needle11")
        page.keyboard.press("Enter")
        # A function to wait for would be evaluated from a string, which the page's policy forbids.
        expect(page.locator(".tl-find")).to_contain_text("1 of 1")


def test_pages_have_no_serious_accessibility_findings(browser: Browser, tmp_path: Path) -> None:
    session = open_session(SAMPLES[0])
    for is_static in (False, True):
        path = exported(session, tmp_path, is_static=is_static)
        context = browser.new_context(offline=True, bypass_csp=True)
        page = context.new_page()
        page.goto(path.absolute().as_uri())
        page.wait_for_selector("summary" if is_static else ".tl-transcript .tl-row")
        page.add_script_tag(content=AXE.read_text("utf-8"))
        found = page.evaluate("axe.run()")
        serious = [
            each for each in found["violations"] if each["impact"] in ("serious", "critical")
        ]
        assert json.dumps([each["id"] for each in serious]) == "[]"
        context.close()
