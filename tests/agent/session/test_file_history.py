"""Backups as the client keeps them: names, versions, lines."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.changed_files import Work
from turnlog.agent.session.backups import backup_name, last_snapshot, snapshots_in
from turnlog.agent.session.file_history import FileHistory
from turnlog.format.survey import survey_file
from turnlog.store.paths import Store

Fields = dict[str, Any]


@pytest.fixture
def work(store: Store, tmp_path: Path) -> Work:
    return Work(store, tmp_path / "shop")


def history_lines(work: Work) -> list[Fields]:
    values = [json.loads(line) for line in work.path.read_bytes().splitlines()]
    return [value for value in values if value["type"].startswith("file-history")]


def tracked(line: Fields) -> dict[str, Any]:
    held = line["snapshot"]["trackedFileBackups"]
    return {name: backup["backupFileName"] for name, backup in held.items()}


def test_a_prompt_starts_with_a_snapshot_that_names_it(work: Work) -> None:
    uuid = work.prompt("hi")
    (line,) = history_lines(work)
    assert (line["messageId"], line["snapshot"]["messageId"]) == (uuid, uuid)
    assert (tracked(line), line["isSnapshotUpdate"]) == ({}, False)


def test_a_file_is_kept_before_its_first_change_in_a_turn_only(work: Work) -> None:
    path = work.root / "a.txt"
    path.write_text("before")
    prompt = work.prompt("change it")
    work.write("a.txt", "first")
    work.write("a.txt", "second")
    _, delta, update = history_lines(work)
    name = backup_name(path, 1)
    assert (delta["trackingPath"], delta["backup"]["backupFileName"]) == ("a.txt", name)
    assert delta["snapshotMessageId"] == prompt
    assert delta["messageId"] == update["messageId"]
    assert (work.history.folder / name).read_text() == "before"
    assert update["isSnapshotUpdate"]
    assert update["snapshot"]["messageId"] == prompt
    assert tracked(update) == {"a.txt": name}
    assert update["snapshot"]["trackedFileBackups"]["a.txt"]["realParentDir"] == str(work.root)
    assert len(list(work.history.folder.iterdir())) == 1


def test_the_copy_and_its_line_are_there_before_the_file_changes(work: Work) -> None:
    path = work.root / "a.txt"
    path.write_text("before")
    work.prompt("change it")
    work.history.before_change(path)
    assert tracked(history_lines(work)[-1]) == {"a.txt": backup_name(path, 1)}
    assert path.read_text() == "before"


def test_a_new_file_has_no_copy_until_the_next_prompt(work: Work) -> None:
    work.prompt("make it")
    path = work.write("new.txt", "new")
    assert tracked(history_lines(work)[-1]) == {"new.txt": None}
    work.prompt("go on")
    assert tracked(history_lines(work)[-1]) == {"new.txt": backup_name(path, 2)}
    assert (work.history.folder / backup_name(path, 2)).read_text() == "new"


def test_a_file_that_did_not_change_is_not_copied_again(work: Work) -> None:
    work.prompt("make it")
    path = work.write("new.txt", "new")
    for words in ("again", "and again"):
        work.prompt(words)
    assert tracked(history_lines(work)[-1]) == {"new.txt": backup_name(path, 2)}
    path.unlink()
    work.prompt("gone")
    assert tracked(history_lines(work)[-1]) == {"new.txt": None}


def test_a_file_outside_is_named_in_full(work: Work, tmp_path: Path) -> None:
    work.prompt("change it")
    work.write("../other/a.txt", "x")
    outside = tmp_path / "shop" / ".." / "other" / "a.txt"
    work.history.before_change(tmp_path / "elsewhere.txt")
    assert str(tmp_path / "elsewhere.txt") in tracked(history_lines(work)[-1])
    assert outside.exists()


def test_a_resumed_session_goes_on_with_its_versions(work: Work) -> None:
    work.prompt("make it")
    path = work.write("a.txt", "one")
    work.prompt("go on")
    again = FileHistory(work.store, work, work.root)
    path.write_text("two")
    line = again.snapshot_line("p3")
    assert tracked(line) == {"a.txt": backup_name(path, 3)}


def test_a_copy_keeps_the_mode_of_its_file(work: Work) -> None:
    path = work.root / "run.sh"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    work.prompt("change it")
    work.history.before_change(path)
    assert (work.history.folder / backup_name(path, 1)).stat().st_mode & 0o777 == 0o755


def test_a_file_that_cannot_be_kept_is_not_to_be_changed(work: Work) -> None:
    work.prompt("change it")
    path = work.root / "a.txt"
    path.write_text("x")
    work.history.folder.parent.mkdir(parents=True, exist_ok=True)
    work.history.folder.write_text("in the way")
    with pytest.raises(OSError, match="exists"):
        work.history.before_change(path)


def test_lines_of_all_clients_are_read(work: Work) -> None:
    backup = {"backupFileName": "0123456789abcdef@v1", "version": 1, "backupTime": "t"}
    snapshot = {"messageId": "p1", "trackedFileBackups": {"a": backup}, "timestamp": "t"}
    work.aside({"type": "file-history-snapshot", "messageId": "p1", "snapshot": snapshot})
    delta = {"snapshotMessageId": "p1", "messageId": "m", "trackingPath": "b"}
    work.aside({"type": "file-history-delta", **delta, "backup": backup | {"realParentDir": "/x"}})
    seeds = {"messageId": "p2", "trackedFileBackups": {"c": "the text itself"}, "timestamp": "t"}
    work.aside({"type": "file-history-snapshot", "messageId": "p2", "snapshot": seeds})
    first, second = snapshots_in(work.path)
    assert [backup.folder for backup in first.backups.values()] == [None, "/x"]
    assert second.backups == {}
    assert last_snapshot(work.path) == second


def test_lines_hold_nothing_unknown(work: Work) -> None:
    work.prompt("make it")
    work.write("a.txt", "one")
    survey = survey_file(work.path)
    assert [place for place, is_known in survey.count_fields() if not is_known] == []
