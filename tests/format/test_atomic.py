"""Atomic replacement of files, by processes that may be killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from turnlog.format.atomic import write_atomic, written_beside

HALF_WRITTEN = """
import os, sys, time
from pathlib import Path
from turnlog.format.atomic import written_beside
with written_beside(Path(sys.argv[1]), 0o600) as (descriptor, beside):
    os.write(descriptor, b"half")
    print(beside.name, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "kept.txt"
    path.write_text("old")
    return path


def replace(path: Path, text: str) -> None:
    with written_beside(path, 0o600) as (descriptor, beside):
        os.write(descriptor, text.encode())
        beside.replace(path)


def names(path: Path) -> set[str]:
    return {each.name for each in path.parent.iterdir()}


def write_whole(path: Path, text: str) -> None:
    write_atomic(path, text.encode())


@pytest.mark.parametrize("write", [replace, write_whole])
def test_what_a_killed_process_left_is_removed_by_the_next_write(
    path: Path, write: Callable[[Path, str], None]
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HALF_WRITTEN, path], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout
        left = writer.stdout.readline().strip()
        write(path, "new")
        assert names(path) == {"kept.txt", left}
        writer.send_signal(signal.SIGKILL)
    assert names(path) == {"kept.txt", left}
    write(path, "newer")
    assert names(path) == {"kept.txt"}
    assert path.read_text() == "newer"


def test_what_others_named_alike_is_left_alone(path: Path) -> None:
    others = {".kept.txt.tmp", ".kept.txt.backup.tmp", ".other.txt.01234567.tmp", ".kept.txt.swp"}
    for name in others:
        path.with_name(name).touch()
    path.with_name(".kept.txt.0badcafe.tmp").mkdir()
    replace(path, "new")
    assert names(path) == {"kept.txt", ".kept.txt.0badcafe.tmp"} | others


def test_what_is_not_put_in_place_is_gone(path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), written_beside(path, 0o600):
        raise KeyboardInterrupt
    assert names(path) == {"kept.txt"}
    assert path.read_text() == "old"
