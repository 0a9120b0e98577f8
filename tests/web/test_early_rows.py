"""A large session is shown from its start while the rest of it is read."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from support.build import SESSION, assistant, session, text, user
from support.web_server import WebServer, running_server
from turnlog.conversation.session import Session, SessionStart, open_session
from turnlog.errors import NotFound
from turnlog.store.paths import Store
from turnlog.web.session_cache import LARGE, SessionCache

TURNS = 3_000
LATE = "LATE"
WATCH = """
new MutationObserver(() => {
  const note = document.querySelector(".tl-reading");
  if (note) globalThis.noted = [note.textContent, document.querySelectorAll(".tl-row").length];
}).observe(document, { childList: true, subtree: true });
"""
PATIENCE = 120_000


def write_turns(path: Path, count: int, size: int = 400) -> Path:
    """Write a session of so many turns, with prompts of a size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = session(user("?"), assistant(text("!"))).splitlines()
    ask, answer = map(json.loads, lines)
    parent = None
    with path.open("w") as file:
        for n in range(count):
            word = LATE if n == count - 1 else f"question {n}"
            ask |= {"uuid": f"{n:08x}-0000-4000-8000-00000000000a", "parentUuid": parent}
            ask["message"] = {"role": "user", "content": f"{word} {'x' * size}"}
            answer |= {"uuid": f"{n:08x}-0000-4000-8000-00000000000b", "parentUuid": ask["uuid"]}
            answer["message"]["id"] = f"msg_{n}"
            parent = answer["uuid"]
            file.write(f"{json.dumps(ask)}\n{json.dumps(answer)}\n")
    return path


def test_the_start_of_a_session_is_extended_to_all_of_it(tmp_path: Path) -> None:
    path = write_turns(tmp_path / f"{SESSION}.jsonl", 40)
    whole = open_session(path)
    for step in (1, 700, 5_000, 10**6):
        start = SessionStart(path, step)
        assert len(start.nodes) < len(whole.nodes) or step == 10**6
        while not start.is_whole:
            start.extend(step)
        assert start.nodes == whole.nodes
        assert start.turns == whole.turns
        assert start.extent == whole.extent
        assert not start.refresh()


def test_requests_get_the_start_until_the_session_is_read(tmp_path: Path) -> None:
    path = write_turns(tmp_path / f"{SESSION}.jsonl", 3_000)
    may_read = threading.Event()

    def opener(store: Store, path: Path, note: Callable[[int], None]) -> Session:
        note(7)
        may_read.wait()
        return open_session(path)

    cache = SessionCache(opener, large=0)
    with cache.use(Store(tmp_path), path, is_early=True) as early:
        assert 0 < len(early.pages(None).turns) < 3_000
        assert early.reading
        assert len(early.pages("no-such-leaf").turns) > 0
    may_read.set()
    with cache.use(Store(tmp_path), path) as whole:
        assert len(whole.pages(None).turns) == 3_000
        assert whole.reading is None
    with cache.use(Store(tmp_path), path, is_early=True) as again:
        assert again is whole


def test_the_rest_is_read_after_the_first_rows(tmp_path: Path) -> None:
    path = write_turns(tmp_path / f"{SESSION}.jsonl", 3)
    has_begun = threading.Event()

    def opener(store: Store, path: Path, note: Callable[[int], None]) -> Session:
        has_begun.set()
        return open_session(path)

    cache = SessionCache(opener, large=0)
    with cache.use(Store(tmp_path), path, is_early=True) as early:
        assert early.pages(None).page(1)
        assert not has_begun.is_set()
    assert has_begun.wait(60)


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), MemoryError()])
def test_a_session_that_cannot_be_read_is_an_error(tmp_path: Path, error: Exception) -> None:
    path = write_turns(tmp_path / f"{SESSION}.jsonl", 3)

    def opener(store: Store, path: Path, note: Callable[[int], None]) -> Session:
        raise error

    cache = SessionCache(opener, large=0)
    wanted = NotFound if isinstance(error, OSError) else MemoryError
    for _ in range(2):
        with pytest.raises(wanted), cache.use(Store(tmp_path), path):
            pass


def test_a_session_that_is_deleted_before_its_rest_is_read_is_missing(tmp_path: Path) -> None:
    path = write_turns(tmp_path / f"{SESSION}.jsonl", 3)
    cache = SessionCache(large=0)
    with cache.use(Store(tmp_path), path, is_early=True):
        path.unlink()
    with pytest.raises(NotFound), cache.use(Store(tmp_path), path):
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WebServer]:
    path = write_turns(tmp_path / f"home/projects/-home-ada-shop/{SESSION}.jsonl", TURNS, 11_000)
    assert path.stat().st_size > LARGE
    with running_server(tmp_path / "home") as running:
        yield running.log_in()


def test_first_rows_appear_before_the_rest_is_read(page: Page, server: WebServer) -> None:
    page.add_init_script(WATCH)
    page.goto(f"{server.origin}/sessions/{SESSION}?turn={TURNS}", timeout=PATIENCE)
    # Read completely, it is opened again at the turn that the address names.
    expect(page.locator(".tl-transcript")).to_contain_text(LATE, timeout=PATIENCE)
    expect(page.locator(".tl-session-facts")).to_contain_text("3,000 turns")
    expect(page.locator(".tl-reading")).to_have_count(0)
    text, rows = page.evaluate("noted")
    assert "are shown while the rest is read" in text
    assert rows > 0
