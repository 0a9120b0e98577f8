"""Work on many files shared among processes."""

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.store import parallel
from turnlog.store.batches import in_batches
from turnlog.store.parallel import map_files


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    """Files of 0 to 49 bytes."""
    found = [tmp_path / f"{size:02}.jsonl" for size in range(50)]
    for size, path in enumerate(found):
        path.write_bytes(b"x" * size)
    return found


def results(paths: Sequence[Path], processes: int) -> list[tuple[int, tuple[Path, ...]]]:
    return sorted(map_files(tuple, paths, processes))


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("threshold", [0, parallel.WORTH_SHARING])
def test_every_file_is_worked_on_once_whoever_does_it(
    paths: list[Path], processes: int, threshold: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "WORTH_SHARING", threshold)
    found = results(paths, processes)
    assert sorted(path for _, batch in found for path in batch) == paths
    assert all(weight == sum(map(size_of, batch)) for weight, batch in found)


def test_one_process_and_two_give_the_same(
    paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = results(paths, 2)
    monkeypatch.setattr(parallel, "WORTH_SHARING", 0)
    assert results(paths, 2) == expected
    found = [path for _, batch in results(paths, 1) for path in batch]
    assert sorted(found) == sorted(path for _, batch in expected for path in batch)


@pytest.mark.parametrize("threshold", [0, parallel.WORTH_SHARING])
def test_no_files_are_no_work(threshold: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "WORTH_SHARING", threshold)
    assert results([], 2) == []


@pytest.mark.parametrize("threshold", [0, parallel.WORTH_SHARING])
def test_an_error_of_the_work_is_raised(
    paths: list[Path], threshold: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "WORTH_SHARING", threshold)
    with pytest.raises(TypeError):
        list(map_files(abs, paths))  # pyright: ignore[reportArgumentType]


def test_a_pool_ends_with_the_process_that_opened_it() -> None:
    program = """
import os, signal, time
from turnlog.store.parallel import open_pool

with open_pool(2) as pool:
    print(*{task.result() for task in [pool.submit(os.getpid) for _ in range(9)]}, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL
    for name in ended.stdout.split():
        wait_for_end(int(name))


def wait_for_end(process: int) -> None:
    deadline = time.monotonic() + 20
    while Path(f"/proc/{process}").exists() and "Z" not in state_of(process):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def state_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def size_of(path: Path) -> int:
    return path.stat().st_size


@given(
    st.dictionaries(st.integers().map(lambda number: Path(str(number))), st.integers(0, 99)),
    st.integers(0, 200),
)
def test_batches_are_filled_with_the_largest_files_first(
    sizes: dict[Path, int], limit: int
) -> None:
    batches = in_batches(sizes, lambda path: sizes[path], limit)
    order = [sizes[path] for batch in batches for path in batch]
    assert order == sorted(sizes.values(), reverse=True)
    assert sorted(path for batch in batches for path in batch) == sorted(sizes)
    for batch in batches:
        assert sum(sizes[path] for path in batch[:-1]) < limit or len(batch) == 1
    for batch in batches[:-1]:
        assert sum(sizes[path] for path in batch) >= limit
