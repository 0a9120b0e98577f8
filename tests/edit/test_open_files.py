"""Files that other processes have open, while those processes end and close files."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from turnlog.edit.open_sessions import open_files

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
WAITING = "import sys; file = open(sys.argv[1]); print('open', flush=True); sys.stdin.read()"


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """A file, and the id of a process that has it open."""
    path = tmp_path.resolve() / "session.jsonl"
    path.touch()
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", WAITING, str(path)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        yield path, process.pid
        process.kill()


def test_a_process_that_ends_meanwhile_hides_no_other(
    held: tuple[Path, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, process = held
    for name in ("stat", "listdir", "scandir"):
        whole = getattr(os, name)

        def ended(at: Any = ".", *more: Any, whole: Any = whole, **options: Any) -> Any:
            if str(at) == f"/proc/{os.getppid()}/fd":
                raise ProcessLookupError(3, "No such process")
            return whole(at, *more, **options)

        monkeypatch.setattr(os, name, ended)
    assert process != os.getppid()
    assert str(path) in set(open_files())


def test_a_file_that_is_closed_meanwhile_hides_no_other(
    held: tuple[Path, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, process = held
    whole = os.readlink

    def closed(at: Any, **options: Any) -> str:
        if str(at) == f"/proc/{process}/fd/0":
            raise FileNotFoundError(2, "No such file or directory")
        return whole(at, **options)

    monkeypatch.setattr(os, "readlink", closed)
    assert str(path) in set(open_files())
