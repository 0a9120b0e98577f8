"""Work beside requests: refreshing the index, opened sessions, growing files, threads."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from pathlib import Path

import pytest

from support.build import SESSION, assistant, session, text, user
from turnlog.conversation.session import Session, open_session
from turnlog.errors import NotFound, Unavailable
from turnlog.store.paths import Store
from turnlog.store.stores import AnyStores
from turnlog.web import growth as growth_module
from turnlog.web import refresher as refresher_module
from turnlog.web.growth import TAIL, growth_events, measure
from turnlog.web.refresher import Refresher
from turnlog.web.session_cache import SessionCache
from turnlog.web.worker_threads import run_in_thread

LINES = session(user("one"), assistant(text("two")), user("three"))


def test_only_the_first_request_waits_for_a_refresh(tmp_path: Path) -> None:
    calls: list[float] = []
    may_end = threading.Event()

    def refresh(stores: AnyStores) -> bool:
        calls.append(time.monotonic())
        if len(calls) > 1:
            may_end.wait(10)
        return True

    refresher = Refresher([Store(tmp_path)], refresh, pause=1)
    refresher.request()
    assert refresher.is_ready
    time.sleep(1.1)
    started = time.monotonic()
    refresher.request()
    refresher.request()  # one is running
    assert time.monotonic() - started < 1
    may_end.set()
    time.sleep(0.05)
    refresher.request()  # one has just ended
    assert len(calls) == 2


def test_requests_wait_for_the_first_refresh_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresher_module, "FIRST", 2.0)
    may_end = threading.Event()
    refresher = Refresher([Store(tmp_path)], lambda stores: may_end.wait(60))
    started = time.monotonic()
    for _ in range(10):
        refresher.request()
    assert not refresher.is_ready
    assert 2 <= time.monotonic() - started < 12  # not 20
    may_end.set()


@pytest.mark.parametrize("error", [Unavailable("the index is locked"), ValueError("a bug")])
def test_a_refresh_that_fails_is_remembered_and_tried_again(
    tmp_path: Path, error: Exception
) -> None:
    outcomes = [error, True]

    def refresh(stores: AnyStores) -> bool:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    refresher = Refresher([Store(tmp_path)], refresh, pause=0)
    refresher.request()
    assert refresher.problem == str(error)
    deadline = time.monotonic() + 60
    while refresher.problem and time.monotonic() < deadline:
        refresher.request()
        time.sleep(0.02)
    assert refresher.problem is None


def test_a_session_stays_open_and_grows(tmp_path: Path) -> None:
    opened: list[Path] = []

    def opener(store: Store, path: Path, note: Callable[[int], None]) -> Session:
        opened.append(path)
        return open_session(path)

    store, cache = Store(tmp_path), SessionCache(opener, kept=2, large=0)
    paths = [tmp_path / f"{number}.jsonl" for number in range(3)]
    for path in paths:
        path.write_bytes(LINES[: LINES.index(b"\n") + 1])
        with cache.use(store, path) as first:
            assert len(first.pages(None).turns) == 1
    with paths[2].open("ab") as file:
        file.write(LINES[LINES.index(b"\n") + 1 :])
    with cache.use(store, paths[2]) as again:
        assert len(again.pages(None).turns) == 2
    assert opened == paths
    with cache.use(store, paths[0]):
        assert len(opened) == 4  # it was closed to make room


def test_a_file_that_is_gone_is_not_found(tmp_path: Path) -> None:
    store, cache = Store(tmp_path), SessionCache()
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(LINES)
    with cache.use(store, path) as opened:
        assert opened.session.nodes
    path.unlink()
    with pytest.raises(NotFound, match="no session matches"), cache.use(store, path):
        pass


def test_an_unfinished_line_is_no_growth(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one\ntwo\nthr")
    found = measure(path, 0)
    assert found
    assert found.end == 8
    assert measure(path, 8) == found
    path.write_bytes(b"x" * (3 * TAIL) + b"\n" + b"y" * (2 * TAIL))
    found = measure(path, 0)
    assert found
    assert found.end == 3 * TAIL + 1
    path.write_bytes(b"new\n")
    found = measure(path, 3 * TAIL + 1)  # replaced by a shorter one
    assert found
    assert found.end == 4
    path.unlink()
    assert measure(path, 0) is None


def test_a_first_connection_learns_where_the_file_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one\n")

    async def connect() -> list[bytes]:
        stream = growth_events(path, None)
        return [await anext(stream), await anext(stream)]

    assert asyncio.run(connect())[1] == b'id: 4\ndata: {"size": 4}\n\n'


def test_a_disk_that_hangs_keeps_neither_pages_nor_the_end_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end = threading.Event()

    def hang(path: Path, known_end: int) -> None:
        may_end.wait(20)

    monkeypatch.setattr(growth_module, "measure", hang)

    async def follow() -> int:
        streams = [growth_events(tmp_path / "a.jsonl", None) for _ in range(20)]
        waiting = [asyncio.ensure_future(anext(stream)) for stream in streams]
        await asyncio.sleep(0.1)
        page = await run_in_thread(lambda: 7)
        for each in waiting:
            each.cancel()
        return page

    started = time.monotonic()
    assert asyncio.run(follow()) == 7
    assert time.monotonic() - started < 10
    may_end.set()


def test_events_have_offsets_and_come_at_most_twice_a_second(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one\n")

    async def follow() -> list[tuple[float, bytes]]:
        stream = until_gone(growth_events(path, seen=4))
        writer = asyncio.create_task(write_often())
        started = time.monotonic()
        events = [(time.monotonic() - started, event) async for event in stream]
        await writer
        return events

    async def write_often() -> None:
        for _ in range(20):
            await asyncio.sleep(0.1)
            with path.open("ab") as file:
                file.write(b"more\n")
        await asyncio.sleep(1)
        path.unlink()

    events = [(at, event) for at, event in asyncio.run(follow()) if b"id: " in event]
    assert len(events) >= 2
    assert events[-1][1] == b'id: 104\ndata: {"size": 104}\n\n'
    gaps = [after[0] - before[0] for before, after in pairwise(events)]
    assert min(gaps) > 0.25  # half a second, less what a busy machine delays the first of two


async def until_gone(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for event in stream:
        if b"gone" in event:
            return
        yield event


def test_an_error_in_a_thread_reaches_the_caller() -> None:
    def fail() -> None:
        raise NotFound("nothing here")

    async def call() -> None:
        await run_in_thread(fail)

    with pytest.raises(NotFound, match="nothing here"):
        asyncio.run(call())


def test_a_thread_does_not_keep_the_process(tmp_path: Path) -> None:
    async def call() -> bool:
        return await run_in_thread(lambda: threading.current_thread().daemon)

    assert asyncio.run(call())
