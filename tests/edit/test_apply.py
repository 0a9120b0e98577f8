"""Changes of several files are applied together or not at all."""

import os
from pathlib import Path

import pytest

from support.folders import tree, write
from turnlog.edit.apply import Change, apply_changes
from turnlog.edit.journal import Journal
from turnlog.errors import Conflict, TurnlogError
from turnlog.format.jsonl import FileState


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path / "root" / "old.txt", b"old")
    return tmp_path / "root"


def gone(path: Path) -> Change:
    return Change(path, None, FileState.of(path))


def test_a_change_that_fails_on_the_way_leaves_all_as_it_was(root: Path, journal: Journal) -> None:
    (root / "deep").mkdir(mode=0o750)
    write(root / "deep" / "file", b"x")
    before = tree(root)
    # The second cannot be made: what is to be its folder is a file.
    changes = [gone(root / "deep" / "file"), Change(root / "old.txt" / "new", [b"n"], None)]
    with pytest.raises(TurnlogError, match="nothing was changed"):
        apply_changes(journal, "fails", changes, clearing=[root / "deep"])
    assert tree(root) == before


def test_emptied_folders_go_and_come_back_with_their_modes(root: Path, journal: Journal) -> None:
    file = write(root / "a" / "b" / "file", b"x")
    (root / "a" / "empty").mkdir()
    (root / "a" / "empty").chmod(0o750)
    (root / "a").chmod(0o755)
    before = tree(root)
    apply_changes(journal, "clear", [gone(file)], clearing=[root / "a", root / "none"])
    assert not (root / "a").exists()
    journal.undo()
    assert tree(root) == before


def test_a_folder_with_a_file_left_in_it_stays(root: Path, journal: Journal) -> None:
    file = write(root / "a" / "b" / "file", b"x")
    write(root / "a" / "other", b"y")
    apply_changes(journal, "clear", [gone(file)], clearing=[root / "a"])
    assert sorted((root / "a").iterdir()) == [root / "a" / "other"]


def test_new_folders_are_closed_to_others(root: Path, journal: Journal) -> None:
    apply_changes(journal, "new", [Change(root / "a" / "b" / "file", [b"x"], None)])
    assert [(root / name).stat().st_mode & 0o777 for name in ("a", "a/b")] == [0o700, 0o700]


def test_a_new_file_is_like_the_one_it_comes_from(root: Path, journal: Journal) -> None:
    os.utime(root / "old.txt", ns=(10**18, 10**18))
    (root / "old.txt").chmod(0o640)
    apply_changes(journal, "copy", [Change(root / "new", [b"x"], None, like=root / "old.txt")])
    status = (root / "new").stat()
    assert (status.st_mtime_ns, status.st_mode & 0o777) == (10**18, 0o640)


@pytest.mark.parametrize("is_log", [True, False])
def test_only_a_log_may_have_grown_when_a_change_is_undone(
    root: Path, journal: Journal, is_log: bool
) -> None:
    log = root / "old.txt"
    apply_changes(journal, "log", [Change(log, [b"new"], FileState.of(log), is_log=is_log)])
    with log.open("ab") as file:
        file.write(b" and more")
    if is_log:
        journal.undo()
        assert log.read_bytes() == b"old and more"
    else:
        with pytest.raises(Conflict):
            journal.undo()
        assert log.read_bytes() == b"new and more"


def test_a_log_that_was_rewritten_is_left_alone(root: Path, journal: Journal) -> None:
    log = root / "old.txt"
    apply_changes(journal, "log", [Change(log, [b"new"], FileState.of(log), is_log=True)])
    log.write_bytes(b"quite another text")
    with pytest.raises(Conflict):
        journal.undo()
    assert log.read_bytes() == b"quite another text"


def test_the_last_of_many_quick_changes_is_undone_first(root: Path, journal: Journal) -> None:
    log = root / "old.txt"
    for number in range(8):
        apply_changes(journal, "quick", [Change(log, [b"%d" % number], FileState.of(log))])
    for number in range(6, -1, -1):
        journal.undo()
        assert log.read_bytes() == b"%d" % number
