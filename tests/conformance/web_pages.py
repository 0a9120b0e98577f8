"""Does every session of a corpus open in a real browser, with the texts that `show` prints?

    PYTHONPATH=tests python tests/conformance/web_pages.py CORPUS

All session files below CORPUS become one store. Chromium opens every page of the web app and every
session, turn by turn. Nothing may appear on the console, no request may fail or leave the machine,
and the texts of each turn, those that the page was given and those that it shows, must be those of
`turnlog show --format json`. Answers must be those of the lines that this names, and shown with the
text that their Markdown has.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

from playwright.sync_api import Page

from support.browser import open_browser
from support.page_texts import (
    answers_of_page,
    answers_of_turn,
    shown_text,
    texts_of_page,
    texts_of_turn,
    unspaced,
)
from support.page_watch import PageWatch
from support.web_server import WebServer, running_server
from turnlog.text import harmless

Fields = dict[str, Any]

VIEW: Any = {"width": 1400, "height": 900}
NEVER = 60_000
"""Milliseconds after which a page counts as hung."""
READ_ALL = """async () => {
  const { store, transcript } = turnlogViewer;
  await turnlogViewer.ready;
  if (turnlogViewer.error) return { error: turnlogViewer.error.message };
  const pages = [], shown = [];
  for (let t = 0; t < store.turnCount; t++) {
    const page = await store.wholePage(t);
    for (let row = 0; row < page.rows.length; row++)
      if (page.rows[row].cut) await store.wholeRow(t, row);
    pages.push(JSON.parse(JSON.stringify(page)));
    if (store.isFolded(t)) transcript.setFolded(t, false);
    const texts = {}, answers = {};
    for (let item = store.starts[t]; item < store.starts[t + 1]; item++) {
      transcript.list.show(item);
      const prompts = `[data-turn="${t + 1}"] > .tl-prompt`;
      for (const row of transcript.list.pane.querySelectorAll(prompts))
        texts[row.dataset.row] = row.querySelector(".tl-text").textContent;
      const answered = `[data-turn="${t + 1}"] > .tl-answer`;
      for (const row of transcript.list.pane.querySelectorAll(answered))
        answers[row.dataset.row] = row.querySelector(".tl-prose, .tl-text").textContent;
    }
    shown.push({ texts, answers });
  }
  return { pages, shown, mounted: document.querySelectorAll(".tl-transcript .tl-row").length };
}"""
VISIT_TABS = """async () => {
  const { transcript, inspector, store, source } = turnlogViewer;
  const { agents, branches } = store.head;
  if (!store.turnCount) return;
  await transcript.goToTurn(0, true);
  for (const tab of ["message", "context", "raw", "findings"]) await inspector.show(tab);
  if (turnlogViewer.lanes.isUseful) await turnlogViewer.lanes.toggle(true);
  for (const agent of agents.slice(0, 3)) await source.agent(agent.id, 0, 200);
  if (branches.length > 1) await turnlogViewer.switchBranch(branches[0].leaf);
}"""


class Report:
    """The pages that were opened, and their problems."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.pages = self.sessions = self.turns = self.calls = self.answers = 0
        self.seconds: list[float] = []

    def add(self, address: str, problems: list[str]) -> None:
        """Add the problems of a page."""
        for problem in problems:
            self.wrong.append(f"{address}: {problem}")
            print(f"  {self.wrong[-1][:300]}", flush=True)


def fill_store(corpus: Path, store: Path) -> list[str]:
    """Copy all session files into a store, each under a name of its own, and return the names."""
    names: list[str] = []
    for number, path in enumerate(sorted(corpus.rglob("*.jsonl"))):
        name = str(uuid5(NAMESPACE_URL, str(path.relative_to(corpus))))
        target = store / "projects" / f"-corpus-{number:04d}" / f"{name}.jsonl"
        target.parent.mkdir(parents=True)
        shutil.copyfile(path, target)
        beside = path.with_suffix("")  # sub-agents and spilled results
        if beside.is_dir():
            shutil.copytree(beside, target.with_suffix(""))
        names.append(name)
    return names


def printed(store: Path, name: str) -> list[Fields]:
    """Return what `turnlog show --format json` prints of a session."""
    command = [sys.executable, "-m", "turnlog", "show", name, "--format", "json"]
    environment = {**os.environ, "CLAUDE_CONFIG_DIR": str(store)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=False)
    return json.loads(done.stdout) if done.stdout.strip() else []


def addresses(server: WebServer, sessions: list[str]) -> list[str]:
    """Return the addresses of all pages but those of sessions."""
    found = ["/", "/sessions", "/sessions?q=error", "/cost", "/tools", "/files", "/live"]
    found += [f"/cost?by={by}" for by in ("model", "project", "branch", "session", "block")]
    found += ["/cost?plan=100", "/sessions?health=broken", "/sessions?state=live"]
    found += [f"/compare?a={sessions[0]}&b={sessions[-1]}", "/compare"]
    values = json.loads(server.get("/api/filters").body)
    names = {"project": "projects", "branch": "branches", "model": "models", "tool": "tools"}
    for name, column in names.items():
        found += [f"/sessions?{name}={quote(value)}" for value in values[column][:2]]
    calls = json.loads(server.get("/api/sessions?limit=1").body)["rows"]
    return found + [f"/sessions/{row['key']}?line=1" for row in calls]


@contextmanager
def watched(page: Page, server: WebServer) -> Generator[list[str]]:
    """Collect what a page must not do; requests that fail count as well."""
    watch = PageWatch(page, server.origin)
    page.on("requestfailed", lambda request: watch.seen.append(f"failed: {request.url}"))
    yield watch.seen
    page.close()


def open_page(context: Any, server: WebServer, address: str) -> list[str]:
    """Open a page and return what is wrong with it."""
    page = context.new_page()
    with watched(page, server) as seen:
        # Pages that follow something never become idle.
        page.goto(f"{server.origin}{address}", wait_until="load", timeout=NEVER)
        page.wait_for_timeout(300)
        return [each for each in seen if "/events" not in each]


def open_session(context: Any, server: WebServer, name: str) -> tuple[list[str], Fields, float]:
    """Open a session, read all its turns, and visit what the viewer offers besides."""
    page = context.new_page()
    with watched(page, server) as seen:
        start = time.perf_counter()
        page.goto(f"{server.origin}/sessions/{name}", wait_until="load", timeout=NEVER)
        page.set_default_timeout(NEVER)
        page.evaluate("() => turnlogViewer.ready")
        seconds = time.perf_counter() - start
        read = page.evaluate(READ_ALL)
        page.evaluate(VISIT_TABS)
        return [each for each in seen if "/events" not in each], read, seconds


def differences(read: Fields, wanted: list[Fields], path: Path) -> list[str]:
    """Return where the texts on a page differ from those that `show` prints."""
    if "error" in read:
        return [] if not wanted else [f"not shown: {read['error']}"]
    pages, shown = read["pages"], read["shown"]
    if len(pages) != len(wanted):
        return [f"{len(pages)} turns, not {len(wanted)}"]
    problems: list[str] = []
    for page, drawn, turn in zip(pages, shown, wanted, strict=True):
        if texts_of_page(page) != texts_of_turn(turn):
            problems.append(f"turn {turn['n']} differs from show --format json")
        for row, text in drawn["texts"].items():
            label = page["rows"][int(row)]["text"].replace("\r\n", "\n")
            if text != harmless(label):
                problems.append(f"turn {turn['n']} shows another prompt: {text[:60]!r}")
        problems += answer_differences(page, drawn["answers"], turn, path)
    return problems


def answer_differences(page: Fields, drawn: Fields, turn: Fields, path: Path) -> list[str]:
    """Return which answers of a turn are not those of its lines, or are shown differently."""
    found = answers_of_page(page)
    problems: list[str] = []
    if found != answers_of_turn(turn, path):
        problems.append(f"turn {turn['n']} has other answers than its lines")
    if len(drawn) != len(found):
        problems.append(f"turn {turn['n']} shows {len(drawn)} of {len(found)} answers")
    for row, text in drawn.items():
        markdown = page["rows"][int(row)]["text"]
        if unspaced(text) != shown_text(markdown):
            problems.append(f"turn {turn['n']} shows another answer: {text[:60]!r}")
    return problems


def crawl(corpus: Path, folder: Path) -> Report:
    """Open everything."""
    report = Report()
    store = folder / "store"
    names = fill_store(corpus, store)
    subprocess.run(
        [sys.executable, "-m", "turnlog", "sync"],
        env={**os.environ, "CLAUDE_CONFIG_DIR": str(store)},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    with running_server(store) as server, open_browser() as browser:
        context = browser.new_context(viewport=VIEW)
        context.new_page().goto(server.url)
        cookie = context.cookies()[0]
        server.cookie = f"{cookie.get('name')}={cookie.get('value')}"
        for address in addresses(server, names):
            report.pages += 1
            report.add(address, open_page(context, server, address))
        for name in names:
            wanted = printed(store, name)
            problems, read, seconds = open_session(context, server, name)
            path = next(store.glob(f"projects/*/{name}.jsonl"))
            report.add(name, [*problems, *differences(read, wanted, path)])
            report.answers += sum(len(each["answers"]) for each in read.get("shown", []))
            report.sessions += 1
            report.turns += len(wanted)
            report.calls += sum(len(turn["calls"]) for turn in wanted)
            report.seconds.append(seconds)
    return report


def main() -> None:
    corpus = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = str(Path(folder) / "cache")
        report = crawl(corpus, Path(folder))
    median = sorted(report.seconds)[len(report.seconds) // 2]
    print(
        f"{report.pages} pages and {report.sessions} sessions with {report.turns} turns, "
        f"{report.answers} answers and {report.calls} calls: {len(report.wrong)} problems; "
        f"{median:.2f} s to open a session (median), {max(report.seconds):.2f} s at most"
    )
    sys.exit(bool(report.wrong))


if __name__ == "__main__":
    main()
