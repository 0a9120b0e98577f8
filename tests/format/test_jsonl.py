"""Session files as lines of bytes."""

import json
import os
import random
import stat
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.errors import Conflict
from turnlog.format import jsonl
from turnlog.format.jsonl import (
    Bookmark,
    FileState,
    Line,
    append_lines,
    read_lines,
    read_lines_backwards,
    replace_file,
)

CONTENT = b'{"a":1}\n\n{"b":2}\r\n   \n{"torn'
MEGABYTE = 1 << 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "session.jsonl"
    found.write_bytes(CONTENT)
    return found


def backwards(path: Path) -> list[tuple[bytes, int]]:
    lines = [(line.raw, line.offset) for line in read_lines_backwards(path)]
    return lines[::-1]


def forwards(path: Path) -> list[tuple[bytes, int]]:
    return [(line.raw, line.offset) for line in read_lines(path)]


# Reading


def test_lines_keep_their_bytes_offsets_and_numbers(path: Path) -> None:
    assert list(read_lines(path)) == [
        Line(b'{"a":1}\n', 0, 1),
        Line(b"\n", 8, 2),
        Line(b'{"b":2}\r\n', 9, 3),
        Line(b"   \n", 18, 4),
        Line(b'{"torn', 22, 5),
    ]


def test_a_line_without_its_newline_is_not_whole(path: Path) -> None:
    assert [line.is_whole for line in read_lines(path)] == [True, True, True, True, False]


def test_each_line_ends_where_the_next_one_starts(path: Path) -> None:
    lines = list(read_lines(path))
    assert [line.end for line in lines] == [*(line.offset for line in lines[1:]), len(CONTENT)]


def test_reading_from_a_line_start_gives_the_rest_without_numbers(path: Path) -> None:
    for line in read_lines(path):
        rest = list(read_lines(path, line.offset))
        assert CONTENT[: line.offset] + b"".join(each.raw for each in rest) == CONTENT
        assert rest[0].offset == line.offset
        assert rest[0].number == (0 if line.offset else 1)


def test_reading_from_the_end_gives_nothing(path: Path) -> None:
    assert list(read_lines(path, len(CONTENT))) == []
    assert list(read_lines(path, len(CONTENT) + 9)) == []


@pytest.mark.parametrize("content", [b"", b"\n", b"\n\n", b"x", b"x\n", b"\nx"])
def test_the_smallest_files_read_the_same_both_ways(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "small.jsonl"
    path.write_bytes(content)
    assert backwards(path) == forwards(path)
    assert b"".join(raw for raw, _ in forwards(path)) == content


@pytest.mark.parametrize("chunk", [1, 2, 3, 4, 5, 7, 8, 9, 22, 27, 28, 29, 1000])
def test_backwards_is_forwards_reversed_at_every_chunk_size(
    path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = forwards(path)
    monkeypatch.setattr(jsonl, "CHUNK", chunk)
    assert backwards(path) == expected


@given(content=st.text("ab\n\r", max_size=40), chunk=st.integers(1, 12))
def test_backwards_is_forwards_reversed_wherever_a_chunk_ends(
    scratch: Path, content: str, chunk: int
) -> None:
    scratch.write_bytes(content.encode())
    expected = forwards(scratch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl, "CHUNK", chunk)
        assert backwards(scratch) == expected


@pytest.mark.parametrize("length", [-2, -1, 0, 1, 2, jsonl.CHUNK, 3 * jsonl.CHUNK + 5])
def test_lines_longer_than_a_chunk_read_the_same_both_ways(tmp_path: Path, length: int) -> None:
    path = tmp_path / "long.jsonl"
    path.write_bytes(b"first\n" + b"x" * (jsonl.CHUNK + length) + b"\nlast\n")
    assert backwards(path) == forwards(path)


def test_only_the_first_line_read_backwards_has_a_number(path: Path) -> None:
    assert [line.number for line in read_lines_backwards(path)] == [0, 0, 0, 0, 1]


def peak_of(read: Callable[[Path], Iterator[Line]], path: Path) -> tuple[int, int]:
    """Return how many bytes were read, and how many were held at once."""
    tracemalloc.start()
    try:
        total = sum(len(line.raw) for line in read(path))
        return total, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def write_lines_of(path: Path, length: int, count: int) -> int:
    """Lines of NUL bytes, which cost no space on disk."""
    with path.open("wb") as file:
        for _ in range(count):
            file.seek(length - 1, os.SEEK_CUR)
            file.write(b"\n")
    return length * count


@pytest.mark.parametrize("read", [read_lines, read_lines_backwards])
def test_a_line_of_100_megabytes_is_held_at_most_twice(
    tmp_path: Path, read: Callable[[Path], Iterator[Line]]
) -> None:
    path = tmp_path / "long.jsonl"
    size = write_lines_of(path, 100 * MEGABYTE, 1)
    append_lines(path, [b"short"])
    total, peak = peak_of(read, path)
    assert total == size + 6
    assert peak < 2.2 * size


@pytest.mark.parametrize("read", [read_lines, read_lines_backwards])
def test_a_file_of_many_lines_is_never_held_whole(
    tmp_path: Path, read: Callable[[Path], Iterator[Line]]
) -> None:
    path = tmp_path / "large.jsonl"
    size = write_lines_of(path, MEGABYTE, 64)
    total, peak = peak_of(read, path)
    assert total == size
    assert peak < 6 * MEGABYTE


@pytest.mark.parametrize("read", [read_lines, read_lines_backwards])
@pytest.mark.parametrize("left", [0, 1, 5000])
def test_a_file_that_shrinks_while_it_is_read_gives_what_is_left(
    tmp_path: Path, read: Callable[[Path], Iterator[Line]], left: int
) -> None:
    path = tmp_path / "shrinking.jsonl"
    path.write_bytes(b"0123456789\n" * 50_000)
    lines = read(path)
    next(lines)
    os.truncate(path, left)
    assert len(list(lines)) < 50_000


@pytest.mark.parametrize("read", [read_lines, read_lines_backwards])
def test_a_file_that_is_replaced_while_it_is_read_is_read_to_its_end(
    path: Path, read: Callable[[Path], Iterator[Line]]
) -> None:
    expected = list(read(path))
    lines = read(path)
    first = next(lines)
    replace_file(path, [b"new\n"])
    assert [first, *lines] == expected


# Bookmarks


@pytest.mark.parametrize("content", [CONTENT, b"x" * 300 + b"\n" + b"y" * 300 + b"\nz\n" * 300])
def test_a_bookmark_is_the_same_whether_taken_from_the_file_or_from_its_lines(
    path: Path, content: bytes
) -> None:
    path.write_bytes(content)
    mark = Bookmark()
    for line in read_lines(path):
        assert mark.holds(path)
        mark = mark.past(line)
        assert mark == Bookmark.at(path, line.end)


def test_a_bookmark_holds_while_what_was_read_is_there(path: Path) -> None:
    mark = Bookmark.at(path, len(CONTENT))
    append_lines(path, [b"more"])
    assert mark.holds(path)
    replace_file(path, [CONTENT, b" and more\n"])
    assert mark.holds(path)


@pytest.mark.parametrize("content", [b"", CONTENT[:-1], CONTENT[:-1] + b"x", b"x" * 99])
def test_a_bookmark_does_not_hold_in_a_file_of_other_content(path: Path, content: bytes) -> None:
    mark = Bookmark.at(path, len(CONTENT))
    path.write_bytes(content)
    assert not mark.holds(path)


# Appending


def test_append_creates_a_file_only_its_owner_may_read(tmp_path: Path) -> None:
    path = tmp_path / "new.jsonl"
    previous = os.umask(0)
    try:
        append_lines(path, [b"a", b"b\n"])
    finally:
        os.umask(previous)
    assert path.read_bytes() == b"a\nb\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_append_keeps_the_mode_of_a_file_that_is_there(path: Path) -> None:
    path.chmod(0o644)
    append_lines(path, [b"x"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_append_seals_a_torn_line(path: Path) -> None:
    append_lines(path, [b'{"c":3}'])
    assert path.read_bytes() == CONTENT + b'\n{"c":3}\n'


def test_append_to_a_whole_line_adds_no_blank_one(path: Path) -> None:
    append_lines(path, [b"x"])
    append_lines(path, [b"y"])
    assert path.read_bytes() == CONTENT + b"\nx\ny\n"


def test_append_of_nothing_leaves_whole_lines_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "whole.jsonl"
    path.write_bytes(b"x\n")
    append_lines(path, [])
    assert path.read_bytes() == b"x\n"


@pytest.mark.parametrize("raw", [b"a\nb", b"a\n\n", b"\n\n", b"\nb\n"])
def test_append_refuses_a_line_with_a_newline_inside(path: Path, raw: bytes) -> None:
    with pytest.raises(ValueError, match="newline only at its end"):
        append_lines(path, [b"sound", raw])
    assert path.read_bytes() == CONTENT


def test_append_follows_a_symbolic_link(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.jsonl"
    link.symlink_to(path)
    append_lines(link, [b"x"])
    assert link.is_symlink()
    assert path.read_bytes() == CONTENT + b"\nx\n"


APPENDER = """
import sys
from pathlib import Path
from turnlog.format.jsonl import append_lines
path, writer = Path(sys.argv[1]), sys.argv[2]
for number in range(10_000):
    append_lines(path, [f'{{"writer":{writer},"number":{number}}}'.encode()])
"""


def test_eight_processes_append_without_losing_or_tearing_a_line(tmp_path: Path) -> None:
    path = tmp_path / "shared.jsonl"
    writers = [
        subprocess.Popen([sys.executable, "-c", APPENDER, path, str(writer)]) for writer in range(8)
    ]
    assert [writer.wait(120) for writer in writers] == [0] * 8
    values = [json.loads(line.raw) for line in read_lines(path)]
    assert len(values) == 80_000
    for writer in range(8):
        numbers = [value["number"] for value in values if value["writer"] == writer]
        assert numbers == list(range(10_000))


ENDLESS = """
import sys
from itertools import count
from pathlib import Path
from turnlog.format.jsonl import append_lines
path = Path(sys.argv[1])
for number in count():
    text = b"x" * (number * 99_991 % 400_000)
    append_lines(path, [b'{"number":%d,"text":"%b"}' % (number, text)])
"""


def is_sound(line: Line) -> bool:
    try:
        return line.is_whole and json.loads(line.raw) is not None
    except ValueError:
        return False


@pytest.mark.parametrize("_round", range(30))
def test_a_killed_writer_leaves_at_most_a_torn_last_line_which_the_next_append_seals(
    tmp_path: Path, _round: int
) -> None:
    path = tmp_path / "killed.jsonl"
    with subprocess.Popen([sys.executable, "-c", ENDLESS, path]) as writer:
        while not path.exists():
            time.sleep(0.001)
        time.sleep(random.uniform(0, 0.01))
        writer.kill()
    before = list(read_lines(path))
    assert all(map(is_sound, before[:-1]))
    append_lines(path, [b'{"after":true}'])
    *kept, last = read_lines(path)
    assert last.raw == b'{"after":true}\n'
    assert [line.raw.rstrip(b"\n") for line in kept] == [line.raw.rstrip(b"\n") for line in before]
    assert all(line.is_whole for line in kept)


# Replacing


def test_replace_swaps_in_the_new_content_and_keeps_the_mode(path: Path) -> None:
    path.chmod(0o640)
    replace_file(path, [b"one\n", b"two\n"])
    assert path.read_bytes() == b"one\ntwo\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_replace_leaves_nothing_beside_the_file(path: Path) -> None:
    replace_file(path, [b"new\n"], FileState.of(path))
    assert os.listdir(path.parent) == [path.name]


def test_replace_follows_a_symbolic_link(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    link = folder / "link.jsonl"
    link.symlink_to(path)
    replace_file(link, [b"new\n"])
    assert link.is_symlink()
    assert path.read_bytes() == b"new\n"
    assert os.listdir(folder) == ["link.jsonl"]


def test_replace_needs_a_file_that_is_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        replace_file(tmp_path / "none.jsonl", [b"new\n"])
    assert os.listdir(tmp_path) == []


def failing_chunks() -> Iterator[bytes]:
    yield b"half"
    raise RuntimeError("no more")


def test_a_failed_replacement_leaves_the_old_file_and_nothing_else(path: Path) -> None:
    with pytest.raises(RuntimeError, match="no more"):
        replace_file(path, failing_chunks())
    assert path.read_bytes() == CONTENT
    assert os.listdir(path.parent) == [path.name]


def test_replace_refuses_a_file_that_changed_since_it_was_read(path: Path) -> None:
    state = FileState.of(path)
    append_lines(path, [b"more"])
    with pytest.raises(Conflict, match=r"session\.jsonl changed since it was read"):
        replace_file(path, [b"new\n"], state)
    assert path.read_bytes() == CONTENT + b"\nmore\n"


def test_replace_refuses_a_file_that_was_itself_replaced(path: Path) -> None:
    state = FileState.of(path)
    replace_file(path, [CONTENT])
    with pytest.raises(Conflict):
        replace_file(path, [b"new\n"], state)
    assert path.read_bytes() == CONTENT


def test_replace_notices_a_client_that_writes_meanwhile(path: Path) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"new\n"
        with path.open("ab") as file:  # as the client does it, without a lock
            file.write(b"meanwhile\n")

    with pytest.raises(Conflict):
        replace_file(path, chunks(), FileState.of(path))
    assert path.read_bytes() == CONTENT + b"meanwhile\n"
    assert os.listdir(path.parent) == [path.name]


def test_an_append_during_a_replacement_lands_in_the_new_file(path: Path) -> None:
    appending = Thread(target=append_lines, args=(path, [b"appended"]))

    def chunks() -> Iterator[bytes]:
        appending.start()
        appending.join(0.05)
        assert appending.is_alive()
        yield b"new\n"

    replace_file(path, chunks())
    appending.join()
    assert path.read_bytes() == b"new\nappended\n"


REPLACER = """
import sys
from pathlib import Path
from turnlog.format.jsonl import append_lines, read_lines, replace_file
path = Path(sys.argv[1])
for _ in range(200):
    replace_file(path, (line.raw for line in read_lines(path)))
"""


def test_appends_and_replacements_of_several_processes_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "shared.jsonl"
    append_lines(path, [b'{"writer":9,"number":0}'])
    appender = APPENDER.replace("10_000", "1_000")
    scripts = [appender, REPLACER, appender]
    processes = [
        subprocess.Popen([sys.executable, "-c", script, path, str(number)])
        for number, script in enumerate(scripts)
    ]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    values = [json.loads(line.raw) for line in read_lines(path)]
    assert len(values) == 2001
    assert os.listdir(tmp_path) == [path.name]
