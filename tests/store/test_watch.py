"""Lines as they are appended."""

import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from threading import Event, Thread

import pytest

from turnlog.errors import NotFound
from turnlog.format.jsonl import append_lines, replace_file
from turnlog.store import watch as watch_module
from turnlog.store.watch import Follower, watch

Found = Queue[tuple[Path, bytes]]
PATIENCE = 10
"""Seconds after which a line is taken as lost."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "session.jsonl"
    found.write_bytes(b"a\nb\nc\n")
    return found


def append(path: Path, raw: bytes) -> None:
    with path.open("ab") as file:
        file.write(raw)


# What is new in one file


def new(follower: Follower, path: Path) -> list[bytes]:
    return [line.raw for line in follower.read_new(path)]


def test_a_file_is_read_from_its_start_once(path: Path) -> None:
    follower = Follower()
    assert new(follower, path) == [b"a\n", b"b\n", b"c\n"]
    assert new(follower, path) == []


def test_new_lines_have_the_offsets_of_the_file(path: Path) -> None:
    follower = Follower()
    follower.skip(path, 0)
    append(path, b"d\n")
    assert [line.offset for line in follower.read_new(path)] == [6]


@pytest.mark.parametrize(
    ("but", "expected"),
    [(0, []), (1, [b"c\n"]), (2, [b"b\n", b"c\n"]), (9, [b"a\n", b"b\n", b"c\n"])],
)
def test_the_past_is_skipped_but_for_the_last_lines(
    path: Path, but: int, expected: list[bytes]
) -> None:
    follower = Follower()
    follower.skip(path, but)
    assert new(follower, path) == expected


@pytest.mark.parametrize("but", [0, 1])
def test_a_torn_line_is_not_skipped(path: Path, but: int) -> None:
    append(path, b"half")
    follower = Follower()
    follower.skip(path, but)
    append(path, b" whole\n")
    assert new(follower, path)[but:] == [b"half whole\n"]


def test_an_empty_file_has_nothing_to_skip(path: Path) -> None:
    path.write_bytes(b"")
    follower = Follower()
    follower.skip(path, 3)
    append(path, b"d\n")
    assert new(follower, path) == [b"d\n"]


def test_a_line_is_told_once_it_is_whole(path: Path) -> None:
    follower = Follower()
    follower.skip(path, 0)
    append(path, b"d\nha")
    assert new(follower, path) == [b"d\n"]
    append(path, b"lf")
    assert new(follower, path) == []
    append(path, b"\ne\n")
    assert new(follower, path) == [b"half\n", b"e\n"]


def test_a_truncated_file_is_read_again(path: Path) -> None:
    follower = Follower()
    new(follower, path)
    os.truncate(path, 2)
    assert new(follower, path) == [b"a\n"]
    os.truncate(path, 0)
    assert new(follower, path) == []
    append(path, b"d\n")
    assert new(follower, path) == [b"d\n"]


@pytest.mark.parametrize("content", [b"x\n", b"x\ny\nz\n", b"x\n" * 1000])
def test_a_replaced_file_is_read_again(path: Path, content: bytes) -> None:
    follower = Follower()
    new(follower, path)
    replace_file(path, [content])
    assert b"".join(new(follower, path)) == content


def test_a_file_replaced_by_itself_and_more_is_read_on(path: Path) -> None:
    follower = Follower()
    new(follower, path)
    replace_file(path, [path.read_bytes(), b"d\n"])
    assert new(follower, path) == [b"d\n"]


def test_a_file_replaced_while_its_lines_are_told_is_read_again(path: Path) -> None:
    follower = Follower()
    lines = follower.read_new(path)
    assert next(lines).raw == b"a\n"
    replace_file(path, [b"x\ny\n"])
    assert [line.raw for line in lines] == [b"b\n", b"c\n"]
    assert new(follower, path) == [b"x\n", b"y\n"]


def test_a_file_that_went_and_came_back_is_read_again(path: Path) -> None:
    follower = Follower()
    new(follower, path)
    path.unlink()
    assert new(follower, path) == []
    path.write_bytes(b"a\nb\nc\n")
    assert new(follower, path) == [b"a\n", b"b\n", b"c\n"]


# What happens in a folder


def is_wanted(path: Path) -> bool:
    return not path.name.startswith(".")


@contextmanager
def watching(
    path: Path, last: int = 1, wanted: Callable[[Path], bool] = is_wanted
) -> Generator[Found]:
    """Put observed lines into a queue; the last existing lines show that watching began."""
    stop, found = Event(), Found()

    def work() -> None:
        for changed, line in watch(path, wanted, last, stop):
            found.put((changed, line.raw))

    thread = Thread(target=work)
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join(PATIENCE)
        assert not thread.is_alive()


def take(found: Found, count: int) -> list[bytes]:
    return [found.get(timeout=PATIENCE)[1] for _ in range(count)]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the files often, so that no test depends on when watching began."""
    monkeypatch.setattr(watch_module, "POLL_MS", 50)


@pytest.mark.usefixtures("quick")
def test_lines_are_told_as_they_are_appended(path: Path) -> None:
    with watching(path, last=2) as found:
        assert take(found, 2) == [b"b\n", b"c\n"]
        append_lines(path, [b"d", b"e"])
        assert take(found, 2) == [b"d\n", b"e\n"]
        append(path, b"ha")
        append(path, b"lf\nf\n")
        assert take(found, 2) == [b"half\n", b"f\n"]


@pytest.mark.usefixtures("quick")
def test_a_line_written_in_pieces_is_told_whole(path: Path) -> None:
    with watching(path) as found:
        take(found, 1)
        for piece in (b"one ", b"line ", b"in pieces"):
            append(path, piece)
            with pytest.raises(Empty):
                found.get(timeout=0.1)
        append(path, b"\n")
        assert take(found, 1) == [b"one line in pieces\n"]


@pytest.mark.usefixtures("quick")
def test_truncation_and_replacement_start_anew(path: Path) -> None:
    with watching(path) as found:
        take(found, 1)
        os.truncate(path, 0)
        append(path, b"new\n")
        assert take(found, 1) == [b"new\n"]
        replace_file(path, [b"x\n", b"y\n"])
        assert take(found, 2) == [b"x\n", b"y\n"]
        append(path, b"z\n")
        assert take(found, 1) == [b"z\n"]


@pytest.mark.usefixtures("quick")
def test_new_files_of_a_folder_are_told_with_their_path(tmp_path: Path, path: Path) -> None:
    with watching(tmp_path) as found:
        assert found.get(timeout=PATIENCE) == (path, b"c\n")
        folder = tmp_path / "project"
        folder.mkdir()
        append(folder / "new.jsonl", b"d\n")
        assert found.get(timeout=PATIENCE) == (folder / "new.jsonl", b"d\n")
        append(path, b"e\n")
        assert found.get(timeout=PATIENCE) == (path, b"e\n")


@pytest.mark.usefixtures("quick")
def test_only_wanted_files_are_told(tmp_path: Path, path: Path) -> None:
    with watching(tmp_path) as found:
        take(found, 1)
        append(tmp_path / ".hidden.jsonl", b"no\n")
        append(tmp_path / "notes.md", b"no\n")
        append(path, b"yes\n")
        assert take(found, 1) == [b"yes\n"]
    assert found.empty()


@pytest.mark.usefixtures("quick")
def test_other_files_beside_a_watched_one_are_left_out(tmp_path: Path, path: Path) -> None:
    with watching(path) as found:
        take(found, 1)
        append(tmp_path / "other.jsonl", b"no\n")
        append(path, b"yes\n")
        assert take(found, 1) == [b"yes\n"]
    assert found.empty()


@pytest.mark.usefixtures("quick")
def test_a_file_may_be_watched_before_it_is_there(tmp_path: Path) -> None:
    path = tmp_path / "later.jsonl"
    with watching(path) as found:
        append(path, b"d\n")
        assert take(found, 1) == [b"d\n"]


def test_a_folder_that_is_not_there_cannot_be_watched(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nothing to watch"):
        next(watch(tmp_path / "none" / "session.jsonl", is_wanted))


@pytest.mark.parametrize("typed", ["session.jsonl", "."])
def test_changes_are_told_at_once_for_relative_paths_too(
    path: Path, typed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    monkeypatch.setattr(watch_module, "POLL_MS", 1000 * PATIENCE)
    with watching(Path(typed)) as found:
        take(found, 1)
        deadline = time.monotonic() + PATIENCE / 2
        while found.empty() and time.monotonic() < deadline:
            append(path, b"d\n")  # until the system tells of changes
            time.sleep(0.05)
        assert take(found, 1) == [b"d\n"]
        assert time.monotonic() < deadline


def test_two_watchers_see_all_that_many_appends_wrote(path: Path) -> None:
    numbers = [b"%d\n" % number for number in range(300)]
    with watching(path) as first, watching(path.parent) as second:
        take(first, 1)
        take(second, 1)
        for raw in numbers:
            append_lines(path, [raw])
        assert take(first, 300) == numbers
        assert take(second, 300) == numbers
