"""The commands that change sessions: preview, apply, undo."""

import json
import os
from pathlib import Path

import pytest

from cli.conftest import Run
from support.build import SESSION, assistant, call, line, nth, result, session, text, user
from support.faults import PLANTED
from turnlog.conversation.session import open_session

CONTENT = session(
    user("first"),
    assistant(call("Bash", {"command": "ls"}, "A"), message_id="m1"),
    result("A", "out"),
    assistant(text("done"), message_id="m2"),
)


@pytest.fixture
def path(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session that no client has touched lately, and a journal of its own."""
    monkeypatch.setenv("TURNLOG_HOME", str(project.parent.parent / "turnlog"))
    path = project / f"{SESSION}.jsonl"
    path.write_bytes(CONTENT)
    os.utime(path, (0, 0))
    return path


def test_edit_changes_a_session_and_undo_brings_it_back(path: Path, turnlog: Run) -> None:
    done = turnlog("edit", SESSION, "--strip-tools")
    assert done.code == 0
    assert "4 → 2 entries" in done.out
    assert b"tool_use" not in path.read_bytes()
    assert f"  edit of {SESSION[:8]} (strip" in turnlog("history").out
    assert SESSION in json.loads(turnlog("history", "--json").out)[0]["title"]
    assert turnlog("undo").code == 0
    assert path.read_bytes() == CONTENT
    assert "undone" in turnlog("history").out


def test_a_dry_run_touches_nothing(path: Path, turnlog: Run) -> None:
    told = turnlog("edit", SESSION, "--strip-tools", "--dry-run")
    assert told.out.startswith("Would edit")
    assert turnlog("clone", SESSION, "--dry-run").out.startswith("Would clone")
    assert path.read_bytes() == CONTENT
    assert list(path.parent.iterdir()) == [path]
    assert json.loads(turnlog("history", "--json").out) == []


def test_clone_makes_a_session_that_undo_removes(path: Path, turnlog: Run) -> None:
    made = json.loads(turnlog("clone", SESSION, "--strip-tools", "--json").out)
    clone = Path(made["path"])
    assert clone.is_file()
    assert clone.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes() == CONTENT
    assert turnlog("undo").code == 0
    assert not clone.exists()


def test_edit_without_a_wish_is_a_wrong_command_line(path: Path, turnlog: Run) -> None:
    assert turnlog("edit", SESSION).code == 2


def test_a_session_in_use_is_refused_and_left_alone(path: Path, turnlog: Run) -> None:
    os.utime(path)
    refused = turnlog("edit", SESSION, "--strip-tools")
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert path.read_bytes() == CONTENT


def test_undo_with_nothing_to_undo_says_so(path: Path, turnlog: Run) -> None:
    assert turnlog("undo").code == 1
    assert turnlog("undo", "nosuch").code == 1


PARALLEL = (
    user("go"),
    assistant(call("Bash", call_id="A"), message_id="m"),
    assistant(call("Bash", call_id="B"), message_id="m"),
    result("A", parent=nth(2)),
    result("B", parent=nth(3)),
    assistant(text("done")),
)


def parents(made: str) -> list[int]:
    """The line that each entry of a clone follows on."""
    lines = [json.loads(raw) for raw in Path(json.loads(made)["path"]).read_bytes().splitlines()]
    places = {each["uuid"]: number for number, each in enumerate(lines, 1)}
    return [places.get(each["parentUuid"], 0) for each in lines]


def test_clone_straightens_what_its_client_would_lose(path: Path, turnlog: Run) -> None:
    path.write_bytes(session(*PARALLEL))
    straight, forked = [0, 1, 2, 3, 4, 5], [0, 1, 2, 2, 3, 5]
    assert parents(turnlog("clone", SESSION, "--json").out) == forked
    assert parents(turnlog("clone", SESSION, "--json", "--for", "2.1.45").out) == straight
    path.write_bytes(session(*PARALLEL).replace(b"2.1.325", b"2.0.76"))
    made = turnlog("clone", SESSION, "--json").out
    assert parents(made) == straight
    assert json.loads(made)["straightened_for"] == "2.0.76"
    assert parents(turnlog("clone", SESSION, "--json", "--no-straighten").out) == forked
    assert parents(turnlog("clone", SESSION, "--json", "--for", "2.1.325").out) == forked
    assert "straightened for client 2.0.76 (--no-straighten" in turnlog("clone", SESSION).out


@pytest.mark.parametrize(
    "name",
    [
        "a call at the end",
        "an answer without a block",
        "an error without a block",
        "answers without a message id",
        "an answer of white space",
        "an empty text in an answer",
        "an empty text beside another",
        "no final newline",
    ],
)
def test_clone_for_an_old_client_mends_what_it_fails_on(
    path: Path, turnlog: Run, name: str
) -> None:
    path.write_bytes(PLANTED[name].content)
    before = open_session(path).context()
    assert turnlog("check", SESSION, "--for", "2.0.76").code == 1
    made = json.loads(turnlog("clone", SESSION, "--json", "--for", "2.0.76").out)
    assert made["straightened_for"] == "2.0.76"
    assert turnlog("check", made["id"], "--for", "2.0.76").out == "1 session: 1 sound\n"
    assert open_session(Path(made["path"])).context() == before


def test_check_for_a_client_exits_with_1_if_it_would_lose_history(path: Path, turnlog: Run) -> None:
    path.write_bytes(session(*PARALLEL))
    assert turnlog("check", SESSION).code == 0
    old = turnlog("check", SESSION, "--for", "2.1.45")
    assert old.code == 1
    assert "--straighten" in old.out
    assert turnlog("check", SESSION, "--for", "2.1.150").out == "1 session: 1 sound\n"
    wrong = turnlog("check", SESSION, "--for", "latest")
    assert wrong.code == 2
    assert "not a client version such as 2.1.45" in wrong.err


def test_a_repair_leaves_no_history_that_old_clients_would_lose(path: Path, turnlog: Run) -> None:
    progress = line("progress", data={"type": "hook_progress"})
    path.write_bytes(session(*PARALLEL, progress, user("more"), assistant(text("end"))))
    os.utime(path, (0, 0))
    assert turnlog("check", SESSION, "--for", "2.0.76").code == 1
    assert turnlog("edit", SESSION, "--repair").code == 0
    assert turnlog("check", SESSION, "--for", "2.0.76").out == "1 session: 1 sound\n"


def test_a_clone_can_be_changed_at_once(turnlog: Run, conversation: Path) -> None:
    id_ = json.loads(turnlog("clone", SESSION, "--json").out)["id"]
    assert turnlog("rename", id_, "The copy").code == 0
    assert turnlog("edit", id_, "--keep-until", "1").code == 0
    # Whatever someone else appended since may come from a client that is running.
    path = conversation.with_name(f"{id_}.jsonl")
    with path.open("ab") as file:
        file.write(b'{"type":"summary"}\n')
    refused = turnlog("rename", id_, "Another name")
    assert (refused.code, "a moment ago" in refused.err) == (1, True)
