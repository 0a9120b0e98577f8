"""The task list: results and files as in client 2.1.325, and invalid input."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.tool_calls import Calls
from turnlog.agent.tools.task_tracking import (
    NAMES,
    chosen_tracking,
    demands_tracking,
    offers_tracking,
)
from turnlog.agent.workspace import task_list
from turnlog.agent.workspace.task_list import TaskList, TaskListError

STRANGE = ["", "0", "01", "1.0", "-1", "../1", "../../x", "1.json", "/1", "١", "9" * 40, "1\n"]


@pytest.fixture
def folder(calls: Calls, tmp_path: Path) -> Path:
    """The folder of the task list."""
    place = tmp_path / "tasks" / "id"
    calls.workspace.tasks = TaskList(place, tmp_path)
    return place


def create(calls: Calls, *subjects: str) -> None:
    for subject in subjects:
        calls.run("TaskCreate", subject=subject, description="d")


def test_a_task_is_created_and_written_as_the_client_does(calls: Calls, folder: Path) -> None:
    given = {"subject": "Do A", "description": "The A thing", "activeForm": "Doing A"}
    outcome = calls.run("TaskCreate", **given)
    assert outcome.content == "Task #1 created successfully: Do A"
    assert outcome.data == {"task": {"id": "1", "subject": "Do A", "description": "The A thing"}}
    assert (folder / "1.json").read_text() == (
        '{\n  "id": "1",\n  "subject": "Do A",\n  "description": "The A thing",\n'
        '  "activeForm": "Doing A",\n  "status": "pending",\n  "blocks": [],\n  "blockedBy": []\n}'
    )
    assert (folder / "1.json").stat().st_mode & 0o777 == 0o600


def test_the_list_names_owners_and_open_tasks_that_block(calls: Calls, folder: Path) -> None:
    assert calls.text("TaskList") == "No tasks found"
    create(calls, "A", "B", "C")
    calls.run("TaskUpdate", taskId="2", addBlockedBy=["1", "3"], owner="me")
    assert calls.text("TaskList") == (
        "#1 [pending] A\n#2 [pending] B (me) [blocked by #1, #3]\n#3 [pending] C"
    )
    calls.run("TaskUpdate", taskId="1", status="completed")
    listed = calls.run("TaskList").data["tasks"][1]
    assert listed == {
        "id": "2",
        "subject": "B",
        "status": "pending",
        "owner": "me",
        "blockedBy": ["3"],
    }
    assert calls.text("TaskGet", taskId="2") == (
        "Task #2: B\nStatus: pending\nDescription: d\nBlocked by: #1, #3"
    )


def test_an_update_names_the_fields_that_changed(calls: Calls, folder: Path) -> None:
    create(calls, "A", "B")
    given = {"subject": "A", "description": "new", "status": "in_progress", "addBlocks": ["2", "7"]}
    outcome = calls.run("TaskUpdate", taskId="1", metadata={"k": 1, "n": None}, **given)
    assert outcome.content == "Updated task #1 description, metadata, status, blocks"
    assert outcome.data["statusChange"] == {"from": "pending", "to": "in_progress"}
    again = calls.run("TaskUpdate", taskId="1", status="in_progress", addBlocks=["2"])
    assert again.content == "Updated task #1 "
    assert again.data == {"success": True, "taskId": "1", "updatedFields": []}
    task = json.loads((folder / "1.json").read_text())
    assert (task["metadata"], task["blocks"]) == ({"k": 1}, ["2"])


def test_a_number_is_not_used_again_after_a_task_was_deleted(calls: Calls, folder: Path) -> None:
    create(calls, "A", "B")
    calls.run("TaskUpdate", taskId="1", addBlockedBy=["2"])
    outcome = calls.run("TaskUpdate", taskId="2", status="deleted")
    assert outcome.content == "Updated task #2 deleted"
    assert outcome.data["statusChange"] == {"from": "pending", "to": "deleted"}
    create(calls, "C")
    assert calls.text("TaskList") == "#1 [pending] A\n#3 [pending] C"
    assert (folder / ".highwatermark").read_text() == "2"


@pytest.mark.parametrize("number", STRANGE)
def test_an_unknown_number_is_no_task_and_no_path(
    calls: Calls, folder: Path, tmp_path: Path, number: str
) -> None:
    create(calls, "A")
    (tmp_path / "x.json").write_text('{"subject": "secret"}')
    assert calls.run("TaskGet", taskId=number).data == {"task": None}
    outcome = calls.run("TaskUpdate", taskId=number, status="deleted", addBlocks=["../../x"])
    assert outcome.data["error"] == "Task not found"
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "1.json"]


def test_names_that_models_confuse_are_corrected(calls: Calls, folder: Path) -> None:
    assert calls.run("TaskCreate", subject="A", active_form="Doing A").data["task"] == {
        "id": "1",
        "subject": "A",
        "description": "A",
    }
    assert json.loads((folder / "1.json").read_text())["activeForm"] == "Doing A"
    assert calls.text("TaskUpdate", task_id="1", status="in_progress") == "Updated task #1 status"
    assert calls.text("TaskUpdate", id="1", status="pending") == "Updated task #1 status"
    calls.lines.clear()  # the format knows the right names only


def test_input_that_does_not_fit_is_refused(calls: Calls, folder: Path) -> None:
    assert "status" in calls.refusal("TaskUpdate", taskId="1", status="silly")
    assert "subject" in calls.refusal("TaskCreate", description="x")
    assert "unknown" in calls.refusal("TaskList", all=True)
    assert not folder.exists()


def test_unknown_fields_of_a_task_are_kept_and_other_files_are_left_alone(
    calls: Calls, folder: Path, tmp_path: Path
) -> None:
    create(calls, "A")
    task = json.loads((folder / "1.json").read_text()) | {"teammate": {"x": 1}}
    (folder / "1.json").write_text(json.dumps(task))
    for name, content in {
        "2.json": "{",
        "3.json": "[]",
        "x.json": "{}",
        "4.json": "[" * 9999,
    }.items():
        (folder / name).write_text(content)
    (folder / "5.json").symlink_to(tmp_path / "elsewhere.json")
    (tmp_path / "elsewhere.json").write_text('{"subject": "linked"}')
    calls.run("TaskUpdate", taskId="1", subject="B")
    assert json.loads((folder / "1.json").read_text())["teammate"] == {"x": 1}
    assert calls.text("TaskList") == "#1 [pending] B"
    create(calls, "next")
    assert (tmp_path / "elsewhere.json").read_text() == '{"subject": "linked"}'
    assert (folder / "5.json").is_symlink()


def test_a_linked_folder_is_refused(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "tasks").symlink_to(tmp_path / "elsewhere")
    calls.workspace.tasks = TaskList(tmp_path / "tasks" / "id", tmp_path)
    assert "is a link" in calls.refusal("TaskCreate", subject="A", description="d")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_full_list_and_a_huge_task_are_refused(calls: Calls, folder: Path) -> None:
    huge = "x" * (task_list.LARGEST + 1)
    assert "too long" in calls.refusal("TaskCreate", subject=huge, description="d")
    create(calls, "A")
    for number in range(2, task_list.MOST + 1):
        os.link(folder / "1.json", folder / f"{number}.json")
    assert "full" in calls.refusal("TaskCreate", subject="A", description="d")
    assert len(calls.run("TaskList").data["tasks"]) == task_list.MOST


def test_control_characters_reach_neither_names_nor_other_rows(calls: Calls, folder: Path) -> None:
    create(calls, "a\nb\x1b[31m\u202e")
    assert calls.text("TaskList") == "#1 [pending] a\nb\x1b[31m\u202e"
    assert json.loads((folder / "1.json").read_text())["subject"] == "a\nb\x1b[31m\u202e"


def test_no_task_is_lost_when_several_write(tmp_path: Path) -> None:
    """Each list has a lock of its own, like another process."""
    lists = [TaskList(tmp_path / "id", tmp_path) for _ in range(4)]
    with ThreadPoolExecutor(8) as pool:
        fields = {"subject": "A", "description": "d", "status": "pending"}
        made = [pool.submit(each.create, fields) for each in lists for _ in range(10)]
        numbers = [job.result()["id"] for job in made]
        done = [pool.submit(lists[0].link, "1", number) for number in numbers if number != "1"]
        assert all(job.result() for job in done)
    assert sorted(map(int, numbers)) == list(range(1, 41))
    assert len(lists[1].get("1")["blocks"]) == 39  # type: ignore[index]


def test_a_list_that_stays_locked_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_list, "PATIENCE", 0.1)
    held, other = TaskList(tmp_path / "id"), TaskList(tmp_path / "id")
    with held._locked(creates=True), pytest.raises(TaskListError):
        other.create({"subject": "A"})


def test_the_list_is_kept_in_memory_without_a_folder(calls: Calls) -> None:
    create(calls, "A", "B")
    calls.run("TaskUpdate", taskId="2", status="deleted")
    create(calls, "C")
    assert calls.text("TaskList") == "#1 [pending] A\n#3 [pending] C"


@pytest.mark.parametrize(
    ("version", "is_offered"),
    [((4, 7), True), ((4, 5), True), ((4, 8), False), ((5, 5), False), ((0, 0), False)],
)
def test_older_models_are_offered_the_list(version: tuple[int, int], is_offered: bool) -> None:
    assert offers_tracking(version) is is_offered


def test_the_list_can_be_demanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLAUDE_CODE_ENABLE_TODO_TOOLS", raising=False)
    assert not demands_tracking({"Bash"})
    assert demands_tracking({"Bash", "TaskCreate"})
    monkeypatch.setenv("CLAUDE_CODE_ENABLE_TODO_TOOLS", "1")
    assert demands_tracking(())
    monkeypatch.setenv("CLAUDE_CODE_ENABLE_TODO_TOOLS", "false")
    assert not demands_tracking(())


def test_the_former_tool_is_offered_on_request() -> None:
    assert chosen_tracking({}) == NAMES
    assert chosen_tracking({"CLAUDE_CODE_ENABLE_TASKS": "0"}) == {"TodoWrite"}


def test_a_number_that_another_program_has_just_taken_is_left_out(tmp_path: Path) -> None:
    tasks = TaskList(tmp_path / "id", tmp_path)
    assert tasks.create({"subject": "one"})["id"] == "1"
    (tmp_path / "id" / "2.json").touch()
    assert tasks.create({"subject": "two"})["id"] == "3"
