"""Sessions that attack the page: every field of every entry, in a real browser."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Browser, Page

from support.build import (
    SESSION,
    assistant,
    call,
    image,
    line,
    result,
    result_block,
    session,
    text,
    user,
)
from support.page_watch import PageWatch
from support.planted_fields import Planter, plant_everywhere
from support.web_server import WebServer, running_server
from turnlog.store.paths import Store

ESC = "\x1b[31m"
BIDI = "\u202e"
OTHER = "0bad0000-0000-4000-8000-000000000000"
PAGES = (
    "/",
    "/sessions",
    "/sessions?q=needle",
    f"/sessions/{SESSION}",
    f"/sessions/{OTHER}",
    f"/compare?a={SESSION}&b={OTHER}",
    "/cost",
    "/tools",
    "/files",
    "/live",
)


FORBIDDEN = (
    "a[href^='javascript' i], a[href^='data' i], main script, main iframe, main style,"
    " main img[src^='http'], [onerror], [onload]"
)
"""Elements that no page may have."""


class Attacker(Planter):
    """Puts markup that runs a script into each field instead of a secret."""

    def token(self, place: str) -> str:
        mark = len(self.places)
        self.places[f"x{mark}x"] = place
        run = f"alert({mark})"
        return (
            f"x{mark}x\"'><img src=x onerror={run}><svg onload={run}><script>{run}<\u2215script>"
            f"[l](javascript:{run}) {{{{7*7}}}} {ESC}{BIDI}"
        )

    def word(self, place: str) -> str:
        return self.token(place)


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("TURNLOG_HOME", str(tmp_path_factory.mktemp("data")))
        yield


MARKDOWN = """needle
[a](javascript:alert(1)) [b](data:text/html,<script>alert(1)</script>) [c](vbscript:alert(1))
[d](JaVaScRiPt:alert(1)) <javascript:alert(1)> ![e](javascript:alert(1))
![f](https://evil.example/p.png) <img src=x onerror=alert(1)> <svg><script>alert(1)</script></svg>
<a href="javascript:alert(1)">g</a>
[h]: javascript:alert(1)
[h] <iframe srcdoc="<script>alert(1)</script>"></iframe> <style>*{display:none}</style>
<math><mtext><table><mglyph><style><img src=x onerror=alert(1)></style></mglyph></table></mtext>
```html
</code></pre><script>alert(1)</script>
```
"""
SVG = "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIG9ubG9hZD0iYWxlcnQoMSkiLz4="


def hostile_lines() -> list[bytes]:
    """Return a session whose texts are markup of many kinds."""
    return [
        user(MARKDOWN),
        assistant(text(MARKDOWN), call("<img src=x onerror=alert(1)>", {"<b>": MARKDOWN}, "t1")),
        result("t1", f"{ESC}red {BIDI}gpj.exe {MARKDOWN}", is_error=True),
        assistant(call("Write", {"file_path": "/<svg onload=alert(1)>.py", "content": "x"}, "t2")),
        user([result_block("t2", [image(SVG, "image/svg+xml"), image('x" onerror="alert(1)')])]),
        user([image(SVG, 'image/svg+xml" onload="alert(1)'), text("look")]),
        line("custom-title", custom_title=f"</title><script>alert(1)</script>{BIDI}"),
    ]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("home")
    plant_everywhere(Store(root), Attacker())
    path = root / "projects" / "-hostile" / f"{OTHER}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(session(*hostile_lines(), session_id=OTHER))
    return root


@contextmanager
def visiting(browser: Browser, server: WebServer) -> Generator[tuple[Page, PageWatch]]:
    context = browser.new_context(viewport={"width": 1400, "height": 3000})
    page = context.new_page()
    watch = PageWatch(page, server.origin)
    page.goto(server.url)
    yield page, watch
    context.close()


def shown_text(page: Page) -> str:
    """Return the text of a page once it no longer changes."""
    before = ""
    for _ in range(40):
        page.wait_for_timeout(250)
        now = page.locator("body").inner_text()
        if now == before and "loading" not in now:
            break
        before = now
    return before


def test_no_field_of_a_session_runs_anything(browser: Browser, home: Path) -> None:
    with running_server(home) as server, visiting(browser, server) as (page, watch):
        for address in PAGES:
            page.goto(server.origin + address)
            shown_text(page)
            assert watch.seen == [], address
            assert page.locator("a[href^='javascript' i], a[href^='data' i]").count() == 0
            assert (
                page.locator("main script, main iframe, main style, main img[src^='http']").count()
                == 0
            )


def test_hostile_texts_are_visible_as_text(browser: Browser, home: Path) -> None:
    with running_server(home) as server, visiting(browser, server) as (page, watch):
        page.goto(f"{server.origin}/sessions/{OTHER}")
        shown = shown_text(page)
        assert "<img src=x onerror=alert(1)>" in shown
        assert BIDI not in shown
        assert "<U+202E>" in page.title()
        page.goto(f"{server.origin}/sessions")
        assert "</title><script>alert(1)</script><U+202E>" in shown_text(page)
        assert watch.seen == []


INLINE = """() => { try { const s = document.createElement("script");
  s.textContent = "window.ran = 1"; document.body.append(s); } catch (e) {}
  try { document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.ran = 1'>"); }
  catch (e) {} }"""


@pytest.mark.parametrize("without", ["", "Content-Security-Policy"])
def test_the_policy_stops_markup_that_a_bug_would_let_through(
    browser: Browser, home: Path, without: str
) -> None:
    with running_server(home, without=without) as server, visiting(browser, server) as (page, _):
        page.goto(f"{server.origin}/sessions")
        page.evaluate(INLINE)
        page.wait_for_timeout(500)
        assert bool(page.evaluate("window.ran")) == bool(without)


def test_no_address_shows_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    planter = Planter()
    path = plant_everywhere(Store(tmp_path / "home"), planter)
    api = f"/api/sessions/{SESSION}"
    details = [f"{api}/{name}/{n}" for n in range(1, 30) for name in ("raw", "context", "lost")]
    names = "opening head turns?first=1&last=50 outline?last=50 labelled?q=a lanes find?q=needle"
    names += " findings agents/a1"
    parts = [f"{api}/{name}" for name in names.split()]
    parts += [f"{api}/head?leaf=unknown", f"{api}/agents/unknown"]
    others = ["/api/sessions", "/api/search?q=needle", "/api/filters", *PAGES]
    with running_server(tmp_path / "home") as server:
        server.log_in()
        leaks: dict[str, list[str]] = {}
        for address in [*details, *parts, *others]:
            found = planter.leaked(server.get(address).text)
            if found:
                leaks[address] = found
        path.unlink()
        for address in (f"{api}/head", f"/compare?a={SESSION}&b={SESSION}"):
            answer = server.get(address)
            assert answer.status == 404
            leaks |= {address: found} if (found := planter.leaked(answer.text)) else {}
    assert leaks == {}


def test_numbers_that_json_does_not_have_are_null(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    used = assistant(call("mcp__x", {"n": "NUMBER", "half": "HALF"}, "t1"))
    lines = session(user("hi"), used, result("t1", tool_use_result={"durationMs": "NUMBER"}))
    path = tmp_path / "home" / "projects" / "-x" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(lines.replace(b'"NUMBER"', b"1e999").replace(b"HALF", b"\\ud800"))
    with running_server(tmp_path / "home") as server:
        answer = server.log_in().get(f"/api/sessions/{SESSION}/turns")
    assert answer.status == 200
    # Browsers accept strict JSON only.
    msgspec.json.decode(answer.body.replace(rb"\ud800", b""))
    assert '"n": null' in answer.text
