"""Sessions follow their project to another directory, with all their files, and back."""

import json
import os
from pathlib import Path

import pytest

from support.build import SESSION, assistant, encode, line, session, text, user
from support.folders import tree, write
from turnlog.conversation.session import open_session
from turnlog.edit.apply import apply_changes
from turnlog.edit.check.checks import check_session
from turnlog.edit.journal import Journal, Record
from turnlog.edit.move import Move, directory_of, move_project, move_session
from turnlog.errors import Conflict, NotFound, UsageError
from turnlog.store.paths import Store

OLD = "/home/ada/shop"
OTHER = "0ther000-0000-4000-8000-000000000000"
AGENT = "agent-a0123456789abcdef.jsonl"


def put(store: Store, cwd: str, *lines: bytes, name: str = SESSION, folder: str = "") -> Path:
    """Write a session whose entries say they are of a directory."""
    content = session(*lines or (user("q"), assistant(text("a"))), session_id=name)
    path = (store.projects / folder if folder else store.project_of(cwd)) / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.replace(encode(OLD).strip(), encode(cwd).strip()))
    os.utime(path, ns=(10**18, 10**18))
    return path


def make(store: Store, move: Move) -> Record | None:
    journal = Journal(store.root.parent / "journal")
    return apply_changes(journal, "move", move.changes, clearing=move.clearing)


def undo(store: Store) -> None:
    Journal(store.root.parent / "journal").undo()


@pytest.fixture
def new(tmp_path: Path) -> str:
    (tmp_path / "new.shop").mkdir()
    return str(tmp_path / "new.shop")


def test_a_session_moves_with_all_its_files(store: Store, new: str) -> None:
    path = put(store, OLD)
    write(path.with_suffix("") / "subagents" / AGENT, session(user("look"), agent_id="a1"))
    meta = encode({"worktreePath": f"{OLD}/tree"})
    write(path.with_suffix("") / "subagents" / "agent-a.meta.json", meta)
    write(path.with_suffix("") / "tool-results" / "x.txt", b'{"cwd":"/home/ada/shop"}')
    write(path.parent / "agent-b.jsonl", session(user("look"), agent_id="b"))
    write(path.parent / "agent-c.jsonl", session(user("look"), session_id=OTHER, agent_id="c"))
    stays = put(store, OLD, name=OTHER)
    before = tree(store.root)
    context = open_session(path).context()

    make(store, move_session(store, path, new))

    folder = store.project_of(new)
    moved = folder / path.name
    assert directory_of(moved) == new
    assert open_session(moved).context() == context
    assert [agent.id for agent in open_session(moved).subagents] == ["a0123456789abcdef", "b"]
    for agent in (folder / SESSION / "subagents" / AGENT, folder / "agent-b.jsonl"):
        assert directory_of(agent) == new
    meta = folder / SESSION / "subagents" / "agent-a.meta.json"
    assert json.loads(meta.read_bytes()) == {"worktreePath": f"{new}/tree"}
    output = folder / SESSION / "tool-results" / "x.txt"
    assert output.read_bytes() == b'{"cwd":"/home/ada/shop"}', (
        "what a tool said is not the client's"
    )
    left = sorted(each.name for each in path.parent.iterdir())
    assert left == sorted([stays.name, "agent-c.jsonl"])
    undo(store)
    assert tree(store.root) == before


def test_a_moved_file_keeps_its_time_and_its_mode(store: Store, new: str) -> None:
    path = put(store, OLD)
    path.chmod(0o640)
    make(store, move_session(store, path, new))
    status = (store.project_of(new) / path.name).stat()
    assert (status.st_mtime_ns, status.st_mode & 0o777) == (10**18, 0o640)
    assert store.project_of(new).stat().st_mode & 0o777 == 0o700


def test_only_directories_of_the_old_project_change(store: Store, new: str) -> None:
    lines = [user(f"q{n}", cwd=cwd) for n, cwd in enumerate([OLD, f"{OLD}/web", "/etc", f"{OLD}s"])]
    path = put(store, OLD, *lines)
    make(store, move_session(store, path, new))
    moved = (store.project_of(new) / path.name).read_bytes().splitlines()
    assert [json.loads(raw)["cwd"] for raw in moved] == [new, f"{new}/web", "/etc", f"{OLD}s"]


def test_a_directory_of_the_same_folder_name_changes_in_place(store: Store, tmp_path: Path) -> None:
    old, new = str(tmp_path / "a.b"), str(tmp_path / "a-b")
    path = put(store, old)
    write(path.with_suffix("") / "tool-results" / "x.txt", b"out")
    (path.with_suffix("") / "subagents").mkdir()
    before = tree(store.root)
    record = make(store, move_session(store, path, new))
    assert record
    assert [Path(file.path) for file in record.files] == [path]
    assert directory_of(path) == new
    assert (path.with_suffix("") / "subagents").is_dir()
    undo(store)
    assert tree(store.root) == before


def test_a_session_that_is_there_already_is_left_alone(store: Store, new: str) -> None:
    assert make(store, move_session(store, put(store, new), new)) is None


def test_a_session_in_the_way_is_not_overwritten(store: Store, new: str) -> None:
    path = put(store, OLD)
    put(store, new, user("another"))
    before = tree(store.root)
    with pytest.raises(Conflict, match="already exists"):
        make(store, move_session(store, path, new))
    assert tree(store.root) == before


def test_a_session_without_a_directory_moves_too(store: Store, new: str) -> None:
    path = write(store.project_of(OLD) / f"{SESSION}.jsonl", b'{"type":"mode","mode":"normal"}\n')
    make(store, move_session(store, path, new))
    assert (store.project_of(new) / path.name).is_file()
    assert not path.parent.exists()


def test_the_directory_of_a_session_is_the_one_its_folder_is_named_after(store: Store) -> None:
    lines = [user("q", cwd="/home/ada"), user("q", cwd=OLD), user("q", cwd=f"{OLD}/web")]
    assert directory_of(put(store, OLD, *lines)) == OLD
    assert directory_of(put(store, OLD, *lines, folder="elsewhere")) == "/home/ada"
    relocated = line("relocated", relocated_cwd=OLD)
    assert directory_of(put(store, OLD, user("q", cwd="/etc"), relocated)) == OLD


def test_a_project_takes_directories_below_it_along(store: Store, new: str) -> None:
    put(store, OLD)
    put(store, f"{OLD}/web", name=OTHER)
    before = tree(store.root)
    move = move_project(store, OLD, new)
    assert [(moved.old, moved.new) for moved in move.sessions] == [
        (OLD, new),
        (f"{OLD}/web", f"{new}/web"),
    ]
    make(store, move)
    assert sorted(store.session_files()) == sorted(
        [
            store.project_of(new) / f"{SESSION}.jsonl",
            store.project_of(f"{new}/web") / f"{OTHER}.jsonl",
        ]
    )
    assert not store.project_of(OLD).exists()
    undo(store)
    assert tree(store.root) == before


def test_entries_tell_which_project_a_session_of_a_shared_folder_is_of(
    store: Store, new: str
) -> None:
    put(store, OLD)
    stays = put(store, "/home/ada-shop", name=OTHER)
    memory = write(stays.parent / "memory" / "MEMORY.md", b"of whom?")
    assert stays.parent == store.project_of(OLD)
    make(store, move_project(store, OLD, new))
    assert (stays.exists(), memory.exists()) == (True, True)
    assert sorted(store.project_of(new).iterdir()) == [store.project_of(new) / f"{SESSION}.jsonl"]


def test_memory_and_what_names_no_directory_go_with_the_project(store: Store, new: str) -> None:
    folder = put(store, OLD).parent
    write(folder / "memory" / "MEMORY.md", b"in /home/ada/shop")
    write(folder / f"{OTHER}.jsonl", b"")
    write(folder / "agent-d.jsonl", session(user("Warmup"), session_id="gone", agent_id="d"))
    (folder / "memory" / "empty").mkdir(mode=0o750)
    before = tree(store.root)
    make(store, move_project(store, OLD, new))
    target = store.project_of(new)
    assert not folder.exists()
    assert (target / "memory" / "MEMORY.md").read_bytes() == b"in /home/ada/shop"
    assert sorted(path.name for path in target.glob("*.jsonl")) == sorted(
        [f"{SESSION}.jsonl", f"{OTHER}.jsonl", "agent-d.jsonl"]
    )
    undo(store)
    assert tree(store.root) == before


def test_memory_alone_can_be_moved(store: Store, new: str) -> None:
    write(store.project_of(OLD) / "memory" / "MEMORY.md", b"note")
    make(store, move_project(store, OLD, new))
    assert (store.project_of(new) / "memory" / "MEMORY.md").read_bytes() == b"note"


def test_an_old_index_stays_where_it_is(store: Store, new: str) -> None:
    index = write(put(store, OLD).parent / "sessions-index.json", b"{}")
    make(store, move_project(store, OLD, new))
    assert list(index.parent.iterdir()) == [index]


def test_a_project_without_sessions_is_not_found(store: Store, new: str) -> None:
    put(store, "/home/ada")
    with pytest.raises(NotFound):
        move_project(store, OLD, new)
    with pytest.raises(UsageError):
        move_project(store, new, new)


def test_the_old_directory_may_be_relative_and_a_link_to_the_new_one(
    store: Store, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(new).parent
    (folder / "shop").symlink_to(new)
    monkeypatch.chdir(folder)
    put(store, str(folder / "shop"))
    put(store, new, name=OTHER)
    assert [moved.session.stem for moved in move_project(store, "shop", new).sessions] == [SESSION]


def prompts(store: Store, *lines: tuple[str, str | None]) -> Path:
    """A history of prompts: the project and the session of each."""
    named = [{"display": "q", "project": cwd} | ({"sessionId": s} if s else {}) for cwd, s in lines]
    return write(store.history, b"".join(map(encode, named)))


def projects_in(history: Path) -> list[str]:
    return [json.loads(raw)["project"] for raw in history.read_bytes().splitlines()]


def test_prompts_of_a_moved_session_name_its_new_directory(store: Store, new: str) -> None:
    path = put(store, OLD)
    history = prompts(store, (OLD, SESSION), (OLD, OTHER), (OLD, None), ("/etc", SESSION))
    move = move_session(store, path, new)
    assert move.prompts == 1
    make(store, move)
    assert projects_in(history) == [new, OLD, OLD, "/etc"]


def test_all_prompts_of_a_moved_project_name_its_new_directory(store: Store, new: str) -> None:
    put(store, OLD)
    history = prompts(store, (OLD, SESSION), (f"{OLD}/web", OTHER), (OLD, None), (f"{OLD}s", None))
    make(store, move_project(store, OLD, new))
    assert projects_in(history) == [new, f"{new}/web", new, f"{OLD}s"]


def test_an_undo_keeps_prompts_that_were_typed_since(store: Store, new: str) -> None:
    path = put(store, OLD)
    history = prompts(store, (OLD, SESSION))
    make(store, move_session(store, path, new))
    with history.open("ab") as file:
        file.write(encode({"display": "later", "project": "/etc"}))
    undo(store)
    assert projects_in(history) == [OLD, "/etc"]
    assert path.exists()


def test_an_undo_refuses_a_session_that_went_on_in_its_new_place(store: Store, new: str) -> None:
    path = put(store, OLD)
    make(store, move_session(store, path, new))
    moved = store.project_of(new) / path.name
    with moved.open("ab") as file:
        file.write(b"{}\n")
    with pytest.raises(Conflict):
        undo(store)
    assert moved.read_bytes().endswith(b"{}\n")
    assert not path.exists()


def test_every_session_says_the_same_after_a_move(
    store: Store, new: str, session_file: Path
) -> None:
    path = write(store.projects / "-some-folder" / f"{SESSION}.jsonl", session_file.read_bytes())
    before = tree(store.root)
    context = open_session(path).context()
    findings = {finding.kind for finding in check_session(open_session(path))}
    make(store, move_session(store, path, new))
    moved = open_session(store.project_of(new) / path.name)
    assert moved.context() == context
    assert {finding.kind for finding in check_session(moved)} <= findings
    undo(store)
    assert tree(store.root) == before
