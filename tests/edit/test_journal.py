"""Earlier content can be restored byte for byte, whatever happened."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.build import SESSION, assistant, call, result, session, text, user
from turnlog.conversation.session import Session, open_session
from turnlog.edit.apply import replace_session, require_idle, require_sound
from turnlog.edit.journal import Journal, staging_folder
from turnlog.edit.plan import carry_out
from turnlog.edit.plan_builder import EditOptions, build_plan
from turnlog.errors import Conflict, Damaged, NotFound, Unresumable
from turnlog.store.paths import Store

CONTENT = session(
    user("first"),
    assistant(call("Bash", {"command": "ls"}, "A"), message_id="m1"),
    result("A", "out"),
    assistant(text("done"), message_id="m2"),
)


@pytest.fixture
def opened(tmp_path: Path) -> Session:
    path = tmp_path / "projects" / "-home-ada-shop" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    path.chmod(0o600)
    return open_session(path)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


def strip(journal: Journal, opened: Session) -> str:
    plan = build_plan(opened, EditOptions(["strip_tools"]))
    record = replace_session(journal, "strip", opened, carry_out(plan))
    assert record
    return record.id


def test_an_edit_undone_is_byte_for_byte_what_was(opened: Session, journal: Journal) -> None:
    strip(journal, opened)
    assert opened.path.read_bytes() != CONTENT
    journal.undo()
    assert opened.path.read_bytes() == CONTENT
    assert opened.path.stat().st_mode & 0o777 == 0o600
    assert [record.is_undone for record in journal.records()] == [True]


def test_a_change_is_undone_once(opened: Session, journal: Journal) -> None:
    name = strip(journal, opened)
    journal.undo(name)
    with pytest.raises(NotFound):
        journal.undo(name)
    with pytest.raises(NotFound):
        journal.undo()


def test_a_change_recorded_with_a_relative_path_is_undone_in_its_directory_only(
    opened: Session, journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = journal.folder / strip(journal, opened) / "record.json"
    record.write_text(record.read_text().replace(str(opened.path), opened.path.name))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFound, match="does not exist in"):
        journal.undo()
    monkeypatch.chdir(opened.path.parent)
    journal.undo()
    assert opened.path.read_bytes() == CONTENT


def test_what_was_written_since_is_not_thrown_away(opened: Session, journal: Journal) -> None:
    strip(journal, opened)
    with opened.path.open("ab") as file:
        file.write(b'{"type":"mode","mode":"normal"}\n')
    with pytest.raises(Conflict):
        journal.undo()
    assert opened.path.read_bytes().endswith(b'"normal"}\n')


def test_a_file_that_changed_since_it_was_read_is_not_replaced(
    opened: Session, journal: Journal
) -> None:
    def lines() -> Iterator[bytes]:
        yield from carry_out(build_plan(opened, EditOptions(["strip_tools"])))
        with opened.path.open("ab") as file:
            file.write(b"{}\n")

    with pytest.raises(Conflict):
        replace_session(journal, "strip", opened, lines())
    assert opened.path.read_bytes() == CONTENT + b"{}\n"


def test_a_result_that_would_not_resume_is_refused(opened: Session, journal: Journal) -> None:
    with pytest.raises(Unresumable) as raised:
        replace_session(journal, "empty", opened, [b'{"type":"mode","mode":"normal"}\n'])
    assert raised.value.findings
    assert opened.path.read_bytes() == CONTENT
    assert list(opened.path.parent.iterdir()) == [opened.path]


def test_the_remains_of_a_crash_are_cleared_away(opened: Session, journal: Journal) -> None:
    left = opened.path.with_name(".turnlog-left")
    left.mkdir()
    with staging_folder(opened.path.parent) as in_use:
        strip(journal, opened)
        assert (left.exists(), in_use.exists()) == (False, True)


def test_a_sound_result_is_accepted(opened: Session) -> None:
    require_sound(opened, opened.path)


def test_a_session_open_elsewhere_is_refused(opened: Session, tmp_path: Path) -> None:
    os.utime(opened.path, (0, 0))
    require_idle(Store(tmp_path), opened.path)
    command = [sys.executable, "-c", f"f=open({str(opened.path)!r},'ab');print();input()"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as other:
        assert other.stdout
        other.stdout.readline()
        with pytest.raises(Conflict, match="open in another process"):
            require_idle(Store(tmp_path), opened.path)
        other.communicate(b"\n")


def test_a_session_written_to_a_moment_ago_is_refused(opened: Session, tmp_path: Path) -> None:
    with pytest.raises(Conflict, match="a moment ago"):
        require_idle(Store(tmp_path), opened.path)


@pytest.mark.parametrize("ahead", [-10, 10, 10**7])
def test_a_session_with_another_time_than_now_is_idle(
    opened: Session, tmp_path: Path, ahead: int
) -> None:
    then = time.time() + ahead
    os.utime(opened.path, (then, then))
    require_idle(Store(tmp_path), opened.path)


def test_a_change_that_cannot_be_written_down_leaves_no_trace(
    opened: Session, journal: Journal
) -> None:
    with pytest.raises(FileNotFoundError):
        journal.begin("strip", {opened.path: opened.path.with_name("missing")})
    assert list(journal.folder.iterdir()) == []


@pytest.mark.parametrize(
    "damage", [b"", b"5", b"{}", b'{"files": [{"a": 1}]}', b"\xff", b"[" * 100_000]
)
def test_a_damaged_record_is_one_line_with_a_hint(
    opened: Session, journal: Journal, damage: bytes
) -> None:
    path = journal.folder / strip(journal, opened) / "record.json"
    path.write_bytes(damage)
    with pytest.raises(Damaged, match="is damaged") as raised:
        journal.records()
    assert raised.value.hint == f"mv {path} {path}.old"


def test_what_was_kept_for_a_change_that_was_never_made_is_cleared_away(
    opened: Session, journal: Journal
) -> None:
    old, recent = journal.folder / "old", journal.folder / "recent"
    for folder in (old, recent):
        folder.mkdir(parents=True)
        (folder / "0").write_bytes(CONTENT)
    os.utime(old, (0, 0))
    name = strip(journal, opened)
    assert {each.name for each in journal.folder.iterdir()} == {"recent", name}
