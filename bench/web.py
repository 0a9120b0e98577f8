"""The web app in a real Chromium: first rows, scrolling, memory, pages, live sessions, peers.

Times are those of the page itself, from its navigation to the frame that shows the first row. The
processor time is that of the server alone.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from measure import Job, children
from small import write_small

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from playwright.sync_api import Browser, Error, Page

from support.browser import open_browser

VIEW: Any = {"width": 1400, "height": 900}
ROUNDS = 5
SESSIONS = 10_000
MILLION = "3f2a9c1e-0000-4000-8000-00000000000a"
TAB_PEAK, LIVE_PEAK = 150 * 10**6, 80 * 10**6
LIVE_SESSIONS = 50
IDLE_SECONDS = 10
TICKS = os.sysconf("SC_CLK_TCK")
PATIENCE = 120_000
"""Milliseconds after which a page counts as hung."""
WATCH = """
globalThis.seen = null;
const look = () => {
  if (seen !== null || !document.querySelector("%s")) return;
  seen = 0;
  requestAnimationFrame(() => setTimeout(() => { seen = performance.now(); }));
};
new MutationObserver(look).observe(document, { childList: true, subtree: true });
"""
SCROLL = """async (share) => {
  const scroller = document.querySelector(".tl-transcript");
  const { left, top, height } = scroller.getBoundingClientRect();
  const start = performance.now();
  const isMoved = new Promise((done) => scroller.addEventListener("scroll", done, { once: true }));
  scroller.scrollTop = share * scroller.scrollHeight;
  await Promise.race([isMoved, new Promise((done) => setTimeout(done, 1000))]);
  for (;;) {
    await new Promise(requestAnimationFrame);
    const middle = document.elementFromPoint(left + 200, top + height / 2)?.closest(".tl-turn");
    if (middle && !middle.classList.contains("tl-loading")) break;
  }
  return performance.now() - start;
}"""
SHARES = (0.5, 0.1, 0.9, 0.33, 0.77, 0.05, 0.66)
GROWN = """(text) => new Promise((resolve) => {
  const look = () => {
    if (!document.querySelector(".tl-transcript").textContent.includes(text)) return;
    observer.disconnect();
    resolve(Date.now());
  };
  const observer = new MutationObserver(look);
  observer.observe(document.querySelector(".tl-transcript"), { childList: true, subtree: true });
  look();
})"""


Measured = tuple[Job, str, float | None, int | None]
"""A job, and the aims it is held to: what they are, seconds, bytes."""


class WebBench:
    """Stores for the web app, and jobs with them."""

    def __init__(self, folder: Path, turnlog: Path, environment: dict[str, str]) -> None:
        self.folder, self.turnlog, self.environment = folder, turnlog, environment
        folder.mkdir(parents=True, exist_ok=True)

    def sessions(self, long: Path, million: Path) -> Iterator[Measured]:
        """One large session, and one of very many lines."""
        store, other = self.folder / "sessions", self.folder / "million"
        shutil.rmtree(store, ignore_errors=True)  # lines are appended to it
        shutil.copytree(long, store)
        session, project = largest(long), other / "projects/-home-ada-shop"
        if not project.exists():
            project.mkdir(parents=True)
            os.link(million, project / f"{MILLION}.jsonl")
        self._fill(store, session.stem)
        self._fill(other, MILLION)
        large = f"{session.stat().st_size / 1e6:.0f} MB"
        with open_browser() as browser:
            with self._serving(store) as server:
                yield from session_rows(browser, server, session.stem, large)
                grown = growth_job(browser, server, next(store.rglob(session.name)))
                yield grown, "0.5 s", 0.5, None
            with self._serving(other) as server:
                yield from session_rows(browser, server, MILLION, "1,000,000 lines")

    def pages(self) -> Iterator[Measured]:
        """Pages about many sessions, and the live view."""
        store, live = self.folder / "many", self.folder / "live"
        if not store.exists():
            write_small(store, SESSIONS)
        self._fill(store)
        with open_browser() as browser:
            with self._serving(store) as server:
                listed = f"web, list of {SESSIONS:,} sessions"
                yield page_job(server, browser, "/", "web, overview, warm"), "0.05 s", 0.05, None
                yield page_job(server, browser, "/api/sessions", listed), "0.02 s", 0.02, None
                yield page_job(server, browser, "/files", "web, files, warm"), "", None, None
            shutil.rmtree(live, ignore_errors=True)
            idle = live_job(browser, self.turnlog, live, self.environment)
            yield idle, "0.01", 0.01, LIVE_PEAK

    def peers(
        self, long: Path, exported: Path, page: Path, view: Path | None
    ) -> Iterator[Measured]:
        """Exported files, and the session in agentsview."""
        name = "claude-code-log, its file, first rows"
        with open_browser() as browser:
            own = file_job(browser, exported, "exported file, first rows", ".tl-row")
            yield own, "0.3 s", 0.3, TAB_PEAK
            if page.exists():
                yield file_job(browser, page, name, ".message"), "", None, None
            if view:
                home = self.folder / "home"
                (home / ".claude").mkdir(parents=True, exist_ok=True)
                if not (link := home / ".claude/projects").is_symlink():
                    link.symlink_to(long / "projects")
                yield agentsview_job(browser, view, home, largest(long).stem), "", None, None

    def _fill(self, store: Path, session: str | None = None) -> None:
        """Bring the figures of the index up to date, and the node table of a session."""
        environment = self.environment | {"CLAUDE_CONFIG_DIR": str(store)}
        commands = [("stats",), *([("show", session, "--turn", "1")] if session else [])]
        for command in commands:
            arguments = (self.turnlog, *command)
            subprocess.run(arguments, env=environment, stdout=subprocess.DEVNULL, check=True)

    def _serving(self, store: Path) -> "AbstractContextManager[Server]":
        return serving(self.turnlog, store, self.environment)


def largest(store: Path) -> Path:
    """Return the largest session of a store."""
    return max(store.rglob("*.jsonl"), key=lambda each: each.stat().st_size)


class Server:
    """A running `turnlog web`."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url
        self.origin = url[: url.index("/open")]
        self.cookies: list[Any] = []
        """Of the first visit: the URL works once."""

    @property
    def cpu(self) -> float:
        return cpu_seconds(self.process.pid)

    @property
    def peak(self) -> int:
        words = Path(f"/proc/{self.process.pid}/status").read_text().split()
        return int(words[words.index("VmHWM:") + 1]) * 1024


@contextmanager
def serving(turnlog: Path, store: Path, environment: dict[str, str]) -> Generator[Server]:
    """Run the web app on a store."""
    command = (turnlog, "web", "--no-open", "--store", store)
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout
    try:
        yield Server(process, process.stdout.readline().strip())
    finally:
        process.terminate()
        process.wait()


@contextmanager
def visiting(browser: Browser, server: Server, selector: str = ".tl-row") -> Generator[Page]:
    """Open a browser context that is logged in and notes when something is first shown."""
    context = browser.new_context(viewport=VIEW)
    context.add_init_script(WATCH % selector)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    if server.cookies:
        context.add_cookies(server.cookies)
    else:
        page.goto(server.url)
        server.cookies = [*context.cookies()]
    yield page
    context.close()


def first_rows(page: Page, address: str, job: Job, cpu: Callable[[], float]) -> None:
    """Time how long an address takes to show its first rows, in a page that was just opened."""
    for _ in range(ROUNDS):
        before = cpu()
        page.goto(address, wait_until="domcontentloaded")
        job.times.append(_seen(page) / 1000)
        job.busy.append(cpu() - before)


def _seen(page: Page) -> float:
    """Return when the page showed its first rows, in milliseconds since its navigation."""
    for _ in range(PATIENCE // 10):
        with suppress(Error):  # the page before was just left
            if seen := page.evaluate("seen"):
                return seen
        time.sleep(0.01)
    raise SystemExit(f"{page.url} shows no rows")


def session_jobs(browser: Browser, server: Server, key: str, about: str) -> list[Job]:
    """A session in the browser: its first rows, and jumps to anywhere."""
    rows = Job(f"web, first rows of {about}", (), {})
    jumps = Job(f"web, scroll to any position in {about}", (), {})
    with visiting(browser, server) as page:
        first_rows(page, f"{server.origin}/sessions/{key}", rows, lambda: server.cpu)
        page.evaluate("() => turnlogViewer.ready")
        before = server.cpu
        most = 0
        for share in SHARES:
            jumps.times.append(page.evaluate(SCROLL, share) / 1000)
            most = max(most, page.locator(".tl-transcript .tl-row").count())
            page.wait_for_timeout(300)
        jumps.busy.append((server.cpu - before) / len(SHARES))
        rows.peak = tab_memory(page)
        jumps.name += f" ({most} rows mounted at most)"
    return [rows, jumps]


def session_rows(browser: Browser, server: Server, key: str, about: str) -> Iterator[Measured]:
    """A session in the browser, with its aims."""
    rows, jumps = session_jobs(browser, server, key, about)
    yield rows, "0.3 s", 0.3, TAB_PEAK
    yield jumps, "0.1 s", 0.1, None


def page_job(server: Server, browser: Browser, path: str, name: str) -> Job:
    """A page or an answer of the API, once it was asked for before."""
    with visiting(browser, server):
        cookie = server.cookies[0]
    headers = {"Cookie": f"{cookie['name']}={cookie['value']}"}
    job = Job(name, (), {})
    size = 0
    for number in range(4 * ROUNDS):
        before, start = server.cpu, time.perf_counter()
        connection = HTTPConnection(server.origin.removeprefix("http://"))
        connection.request("GET", path, headers=headers)
        size = len(connection.getresponse().read())
        if number:
            job.times.append(time.perf_counter() - start)
            job.busy.append(server.cpu - before)
    job.name += f" ({size / 1000:.0f} kB)"
    return job


def growth_job(browser: Browser, server: Server, path: Path) -> Job:
    """A line that is appended to a session, until its page shows it."""
    job = Job("web, an appended line appears", (), {})
    with visiting(browser, server) as page:
        page.goto(f"{server.origin}/sessions/{path.stem}", wait_until="domcontentloaded")
        page.evaluate("() => turnlogViewer.ready")
        page.evaluate("() => turnlogViewer.transcript.list.showEnd()")
        page.wait_for_timeout(1500)  # until the page follows the file
        for number in range(ROUNDS):
            before, text = server.cpu, f"appended line {number}"
            waiting = page.evaluate_handle(
                f"(() => ({{ found: ({GROWN})({json.dumps(text)}) }}))()"
            )
            start = time.time()
            append_prompt(path, text)
            shown = waiting.evaluate("(each) => each.found")
            job.times.append(shown / 1000 - start)
            job.busy.append(server.cpu - before)
            page.wait_for_timeout(700)
    return job


def append_prompt(path: Path, text: str) -> None:
    """Append a prompt to a session, as a child of its last entry."""
    last = json.loads(path.read_bytes().splitlines()[-1])
    number = int(time.time() * 1000)
    entry = {name: last[name] for name in ("sessionId", "cwd", "version", "userType")}
    entry |= {"type": "user", "parentUuid": last["uuid"], "isSidechain": False}
    entry |= {"uuid": f"00000000-0000-4000-8000-{number % 10**12:012d}"}
    entry |= {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())}
    entry |= {"message": {"role": "user", "content": text}}
    with path.open("ab") as file:
        file.write(json.dumps(entry).encode() + b"\n")


def live_job(browser: Browser, turnlog: Path, folder: Path, environment: dict[str, str]) -> Job:
    """The live view of many sessions in which nothing happens: processor seconds per second."""
    from support.build import assistant, text, user
    from support.live_store import RunningSession
    from turnlog.store.paths import Store

    job = Job(f"web, live view of {LIVE_SESSIONS} idle sessions, CPU per second", (), {})
    clients = [subprocess.Popen(("sleep", "600")) for _ in range(LIVE_SESSIONS)]
    try:
        for number, client in enumerate(clients):
            running = RunningSession(Store(folder), client, f"{number:08x}-0000-4000-8000-{0:012d}")
            running.write(user("hi"), assistant(text("hello")), ago=60)
            running.report(("idle", "busy")[number % 2], ago=30)
        with serving(turnlog, folder, environment) as server, visiting(browser, server) as page:
            page.goto(f"{server.origin}/live", wait_until="domcontentloaded")
            page.wait_for_timeout(5000)
            for _ in range(3):
                before, start = server.cpu, time.perf_counter()
                page.wait_for_timeout(1000 * IDLE_SECONDS)
                job.times.append((server.cpu - before) / (time.perf_counter() - start))
            job.busy = list(job.times)
            job.peak = server.peak
    finally:
        for client in clients:
            client.kill()
            client.wait()
    return job


def file_job(browser: Browser, path: Path, name: str, selector: str) -> Job:
    """A page on disk, until it shows its first rows."""
    job = Job(name, (), {})
    context = browser.new_context(viewport=VIEW)
    context.add_init_script(WATCH % selector)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    first_rows(page, path.as_uri(), job, lambda: 0.0)
    job.peak = tab_memory(page)
    context.close()
    return job


def agentsview_job(browser: Browser, command: Path, home: Path, key: str) -> Job:
    """The same session in agentsview, once it was synced."""
    job = Job("agentsview, first rows of the same session", (), {})
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    environment |= {"AGENTSVIEW_TELEMETRY_ENABLED": "0"}
    options = ("--no-browser", "--no-update-check", "--port", "0")
    process = subprocess.Popen(
        (command, "serve", *options),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout
    try:
        lines = iter(process.stdout.readline, "")
        line = next(each for each in lines if "listening at http" in each)
        origin = line.partition("listening at ")[2].split()[0]
        context = browser.new_context(viewport=VIEW)
        context.add_init_script(WATCH % ".message-list-scroll .message")
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        # Its page asks Google for fonts; without a network, it waits for the answer.
        page.route(lambda url: not url.startswith(origin), lambda route: route.abort())
        first_rows(page, f"{origin}/sessions/{key}", job, lambda: cpu_seconds(process.pid))
        job.peak = tab_memory(page)
        context.close()
    finally:
        process.terminate()
        process.wait()
    return job


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def tab_memory(page: Page) -> int:
    """Return the private memory of the largest tab, once its garbage is collected."""
    # Chromium keeps the documents of earlier openings until it runs short of memory.
    page.request_gc()
    return max(map(_private, _renderers()), default=0)


def _renderers(pid: int = 0) -> Iterator[Path]:
    """Yield the tabs of the browsers that this process started."""
    for child in children(pid or os.getpid()):
        folder = Path(f"/proc/{child}")
        with suppress(OSError):  # it ended meanwhile
            if b"--type=renderer" in (folder / "cmdline").read_bytes():
                yield folder
            yield from _renderers(child)


def _private(folder: Path) -> int:
    try:
        lines = (folder / "smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return 0
    sizes = [int(line.split()[1]) for line in lines if line.startswith("Private_")]
    return 1024 * sum(sizes)
