"""Pushing to a lake: the live rows are those of the sessions."""

import re
import shutil
from pathlib import Path

import pytest

from support.build import SESSION, assistant, call, result, session, text, user
from support.lake_machines import PushingMachine, lake_totals, live_rows
from turnlog.conversation.session import open_session
from turnlog.edit.clone import plan_clone
from turnlog.edit.plan import Plan
from turnlog.errors import Conflict
from turnlog.lake.lake_settings import lake_folder, this_machine
from turnlog.lake.lake_storage import open_storage
from turnlog.lake.push_state import open_push_state

FIRST = session(
    user("Fix the shop"),
    assistant(text("I look"), call("Bash", {"command": "ls"}, "toolu_1"), message_id="msg_1"),
    result("toolu_1"),
    assistant(text("Done"), message_id="msg_2"),
)
OTHER = "5e551011-0000-4000-8000-00000000000b"


@pytest.fixture
def machine(tmp_path: Path, dest: str) -> PushingMachine:
    found = PushingMachine(tmp_path / "ada", dest)
    found.write(FIRST)
    return found


def test_push_writes_one_row_per_fact(machine: PushingMachine, dest: str) -> None:
    done = machine.push()
    assert (done.files, done.rows, done.retracted) == (1, 5, 0)
    totals = lake_totals(dest)
    assert (totals["messages"], totals["turns"], totals["calls"]) == (2, 1, 1)
    assert (totals["input"], totals["output"]) == (20, 40)
    (row,) = live_rows(dest, "sessions")
    assert (row["user"], row["host"], row["project"]) == ("ada", "host-of-ada", "shop")


def test_push_without_changes_writes_nothing(machine: PushingMachine, dest: str) -> None:
    machine.push()
    before = sorted(open_storage(dest).walk("v1"))
    done = machine.push()
    assert (done.files, done.unchanged, done.parts) == (0, 1, 0)
    assert sorted(open_storage(dest).walk("v1")) == before


def test_growth_supersedes_only_what_changed(machine: PushingMachine, dest: str) -> None:
    machine.push()
    machine.append(session(user("And now?"), assistant(text("Yes"), message_id="msg_3")))
    done = machine.push()
    assert done.units < 5  # calls are as they were
    assert lake_totals(dest)["messages"] == 3
    assert len(live_rows(dest, "messages")) == 3


def test_edited_session_replaces_its_rows(machine: PushingMachine, dest: str) -> None:
    machine.push()
    machine.write(session(user("Fix the shop"), assistant(text("No"), message_id="msg_9")))
    done = machine.push()
    assert done.retracted == 1  # its calls
    assert [row["key"] for row in live_rows(dest, "messages")] == ["msg_9"]
    assert live_rows(dest, "calls") == []


def test_deleted_session_is_retracted(machine: PushingMachine, dest: str) -> None:
    machine.write(FIRST, OTHER)
    machine.push()
    machine.path(OTHER).unlink()
    assert machine.push().retracted == 4
    assert len(live_rows(dest, "sessions")) == 1
    assert machine.push().parts == 0


def test_moved_session_is_never_without_rows(machine: PushingMachine, dest: str) -> None:
    machine.push()
    target = machine.path().parent.with_name("-elsewhere") / machine.path().name
    target.parent.mkdir()
    machine.path().rename(target)
    done = machine.push()
    assert (done.rows, done.retracted) == (5, 4)
    commits = list(Path(dest, "v1", "units").rglob("part-*"))
    assert len(commits) == 2  # the new rows and the retraction are one commit


def test_missing_store_retracts_nothing(machine: PushingMachine, dest: str) -> None:
    machine.push()
    machine.store.projects.rename(machine.store.root / "elsewhere")
    assert machine.push().retracted == 0
    assert len(live_rows(dest, "sessions")) == 1


def test_restored_session_counts_again(machine: PushingMachine, dest: str) -> None:
    machine.push()
    machine.path().rename(machine.path().with_suffix(".aside"))
    machine.push()
    assert live_rows(dest, "messages") == []
    machine.path().with_suffix(".aside").rename(machine.path())
    machine.push()
    assert len(live_rows(dest, "messages")) == 2


def test_lost_state_is_read_from_the_lake(machine: PushingMachine, dest: str) -> None:
    machine.push()
    with machine.environment():
        for path in lake_folder().rglob("state-*"):
            path.unlink()
    done = machine.push()
    assert (done.parts, done.units) == (0, 0)
    machine.append(session(user("And now?"), assistant(text("Yes"), message_id="msg_3")))
    assert machine.push().version == 2
    assert lake_totals(dest)["messages"] == 3


def test_emptied_lake_is_filled_again(machine: PushingMachine, dest: str) -> None:
    machine.write(FIRST.replace(b"msg_", b"msg_x"), OTHER)
    machine.push()
    shutil.rmtree(dest)
    assert machine.push().files == 2
    assert lake_totals(dest)["messages"] == 4


def test_lost_commit_is_repeated(machine: PushingMachine, dest: str) -> None:
    machine.push()
    machine.write(FIRST.replace(b"msg_", b"msg_x"), OTHER)
    machine.push()
    commits = sorted(
        Path(dest, "v1", "units").rglob("part-*"), key=lambda each: each.stat().st_mtime
    )
    commits[0].unlink()
    done = machine.push()
    assert (done.files, done.unchanged) == (1, 1)
    assert lake_totals(dest)["messages"] == 4


def test_damaged_state_is_rebuilt(machine: PushingMachine) -> None:
    machine.push()
    with machine.environment():
        (state,) = lake_folder().rglob("state-*.db")
        state.write_bytes(b"no database" * 1000)
    assert machine.push().parts == 0


def test_dry_run_writes_nothing(machine: PushingMachine, dest: str) -> None:
    done = machine.push(is_dry_run=True)
    assert (done.files, done.rows, done.parts) == (1, 5, 0)
    assert open_storage(dest).walk("v1") == []
    assert machine.push().rows == 5


def test_since_leaves_old_sessions_out(machine: PushingMachine, dest: str) -> None:
    assert machine.push(since=4e9).files == 0
    assert machine.push().files == 1
    assert machine.push(since=4e9).retracted == 0
    assert len(live_rows(dest, "sessions")) == 1


def test_again_writes_everything_once_more(machine: PushingMachine, dest: str) -> None:
    machine.push()
    assert machine.push(again=True).rows == 5
    assert len(live_rows(dest, "messages")) == 2


def test_second_push_at_the_same_time_is_refused(machine: PushingMachine, dest: str) -> None:
    with (
        machine.environment(),
        open_push_state(lake_folder(), open_storage(dest), this_machine().id),
        pytest.raises(Conflict, match="another push"),
    ):
        machine.push()


def test_copies_on_two_machines_count_once(
    machine: PushingMachine, tmp_path: Path, dest: str
) -> None:
    other = PushingMachine(tmp_path / "bob", dest)
    other.write(FIRST, SESSION)
    machine.push()
    other.push()
    assert len(live_rows(dest, "messages")) == 4
    totals = lake_totals(dest)
    assert (totals["messages"], totals["turns"], totals["calls"]) == (2, 1, 1)


def test_messages_without_an_id_count_once_in_a_clone(machine: PushingMachine, dest: str) -> None:
    nameless = re.sub(rb',"id":"msg_\w+"|,"requestId":"[^"]*"', b"", FIRST)
    path = machine.write(nameless)
    machine.push()
    before = lake_totals(dest)
    opened = open_session(path)
    for file, lines in plan_clone(machine.store, opened, Plan(opened)).files.items():
        file.write_bytes(b"".join(lines))
    machine.push()
    after = lake_totals(dest)
    assert (after["messages"], after["output"]) == (before["messages"], before["output"])
    assert after["sessions"] == before["sessions"] + 1
