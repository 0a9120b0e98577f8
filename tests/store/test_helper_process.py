"""Tasks that a forked process shares: the same results, in order, whatever happens to it."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnlog.format.regular_files import collect_skipped, note_skipped
from turnlog.store import helper_process
from turnlog.store.helper_process import can_fork, sharing

TASKS = [(number,) for number in range(40)]


@pytest.fixture(autouse=True)
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tests fork, whatever threads pytest's plugins have."""
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.setattr(os, "sched_getaffinity", processors(2))


def processors(count: int) -> Callable[[int], set[int]]:
    def affinity(pid: int) -> set[int]:
        return set(range(count))

    return affinity


def name_process(task: tuple[Any, ...]) -> tuple[int, int, str]:
    time.sleep(0.001)
    return task[0], os.getpid(), "x" * 50_000


def test_both_processes_work_and_results_are_in_order() -> None:
    with sharing(name_process, is_worth_it=True) as make_all:
        results = list(make_all(TASKS))
        again = list(make_all(TASKS[:3]))
    assert [number for number, _, _ in results] == list(range(40))
    assert [number for number, _, _ in again] == [0, 1, 2]
    assert len({pid for _, pid, _ in results}) == 2


def test_a_process_without_threads_and_with_another_processor_can_fork(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert can_fork()
    monkeypatch.setattr(os, "sched_getaffinity", processors(1))
    assert not can_fork()
    with sharing(name_process, is_worth_it=True) as make_all:
        assert {pid for _, pid, _ in make_all(TASKS)} == {os.getpid()}


def test_a_helper_that_is_killed_is_made_up_for() -> None:
    parent = os.getpid()

    def kill_helper(task: tuple[Any, ...]) -> int:
        if os.getpid() != parent and task[0] > 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return task[0]

    with sharing(kill_helper, is_worth_it=True) as make_all:
        assert list(make_all(TASKS)) == list(range(40))
        assert list(make_all(TASKS)) == list(range(40))


def test_an_error_is_raised_whichever_process_meets_it() -> None:
    def fail(task: tuple[Any, ...]) -> int:
        if task[0] == 30:
            raise ValueError("task 30")
        return task[0]

    found: list[int] = []
    with (
        pytest.raises(ValueError, match="task 30"),
        sharing(fail, is_worth_it=True) as make_all,
    ):
        found.extend(make_all(TASKS))
    assert found == list(range(len(found)))


def test_what_the_helper_skips_is_reported() -> None:
    def skip(task: tuple[Any, ...]) -> int:
        note_skipped(f"/{task[0]}", "a directory")
        return task[0]

    with collect_skipped() as skipped, sharing(skip, is_worth_it=True) as make_all:
        assert list(make_all(TASKS)) == list(range(40))
    assert len(skipped) == 40


def test_the_helper_ends_with_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = children.read_text().split()
    with sharing(name_process, is_worth_it=True):
        (child,) = set(children.read_text().split()) - set(before)
    assert not Path(f"/proc/{child}").exists()
    monkeypatch.setattr(helper_process, "can_fork", lambda: False)
    with sharing(name_process, is_worth_it=True) as make_all:
        assert {pid for _, pid, _ in make_all(TASKS[:2])} == {os.getpid()}
    assert children.read_text().split() == before
