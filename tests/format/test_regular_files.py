"""Regular files: nothing else in a directory is opened; the rest is reported."""

import os
from pathlib import Path

import pytest

from turnlog.format.regular_files import (
    collect_skipped,
    read_regular,
    regular_paths,
    why_unreadable,
)


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def test_a_list_of_files_leaves_out_pipes_and_reports_them(tmp_path: Path, pipe: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.touch()
    link.symlink_to(file)
    with collect_skipped() as skipped:
        assert regular_paths([pipe, link, file]) == [file, link]
    assert list(skipped) == [str(pipe)]


def test_the_reason_why_a_file_is_not_read_is_known_without_reading_it(
    tmp_path: Path, pipe: Path
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * (2 << 20))
    assert why_unreadable(file, 2 << 20) is None
    assert why_unreadable(file, 1 << 20) == "larger than 1 MiB"
    assert "pipe" in (why_unreadable(pipe, 1) or "")
    assert why_unreadable(tmp_path / "absent", 1)


def test_a_file_is_read_whole_or_not_at_all(tmp_path: Path, pipe: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"four")
    assert read_regular(path) == read_regular(path, 4) == b"four"
    with pytest.raises(OSError, match="larger than 0 MiB"):
        read_regular(path, 3)
    with pytest.raises(OSError, match="pipe"):
        read_regular(pipe, 4)
