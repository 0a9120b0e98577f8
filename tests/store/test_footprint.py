"""Everything that belongs to a session is found, and nothing of another one."""

import os
import tempfile
from pathlib import Path

import pytest

from support.build import SESSION, assistant, session, text, user
from support.folders import write
from turnlog.store.footprint import (
    Footprint,
    files_by_session,
    footprint_of,
    owners_in,
    session_folders,
)
from turnlog.store.paths import BY_SESSION, Store

OTHER = "0ther000-0000-4000-8000-000000000000"


@pytest.fixture
def path(store: Store) -> Path:
    content = session(user("q", slug="calm-red-fox"), assistant(text("a"), slug="calm-red-fox"))
    return write(store.projects / "-home-ada-shop" / f"{SESSION}.jsonl", content)


def found(store: Store, path: Path) -> Footprint:
    return footprint_of(store, path)


def test_a_session_alone_is_one_file(store: Store, path: Path) -> None:
    assert found(store, path).files == [path]


def test_sidecars_are_all_files_of_the_sessions_own_folder(store: Store, path: Path) -> None:
    folder = path.with_suffix("")
    sidecars = [
        write(folder / "custom-title.json"),
        write(folder / "subagents" / "agent-a.jsonl"),
        write(folder / "subagents" / "agent-a.meta.json"),
        write(folder / "subagents" / "workflows" / "wf_1" / "journal.jsonl"),
        write(folder / "tool-results" / "b.txt"),
    ]
    write(path.with_name(OTHER) / "tool-results" / "b.txt")
    assert found(store, path).sidecars == sidecars


def test_what_a_link_leads_to_is_not_the_sessions(store: Store, path: Path, tmp_path: Path) -> None:
    write(tmp_path / "elsewhere" / "file.txt")
    path.with_suffix("").mkdir()
    (path.with_suffix("") / "folder").symlink_to(tmp_path / "elsewhere")
    (path.with_suffix("") / "file.txt").symlink_to(tmp_path / "elsewhere" / "file.txt")
    assert found(store, path).files == [path]


def test_sub_agents_beside_a_session_are_known_by_their_entries(store: Store, path: Path) -> None:
    own = write(path.with_name("agent-a.jsonl"), session(user("x"), agent_id="a"))
    meta = write(path.with_name("agent-a.meta.json"), b"{}")
    write(path.with_name("agent-z.meta.json"), b"{}")
    foreign = session(user("x"), session_id=OTHER, agent_id="b")
    other = write(path.with_name("agent-b.jsonl"), foreign)
    late = write(path.with_name("agent-c.jsonl"), b'{"type":"mode"}\n' + foreign)
    empty = write(path.with_name("agent-d.jsonl"), b"")
    assert found(store, path).subagents == [own, meta]
    assert owners_in(path.parent, store.root) == {
        own: SESSION,
        meta: SESSION,
        other: OTHER,
        late: OTHER,
        empty: None,
    }


def test_backups_and_todos_are_known_by_the_sessions_id(store: Store, path: Path) -> None:
    backups = [write(store.root / kind / SESSION / "file") for kind in BY_SESSION]
    todos = write(store.todos / f"{SESSION}-agent-{SESSION}.json")
    write(store.file_history / OTHER / "file")
    write(store.todos / f"{OTHER}-agent-{SESSION}.json")
    assert found(store, path).backups == backups
    assert found(store, path).todos == [todos]


def test_the_clients_log_of_a_session_is_its_own(store: Store, path: Path) -> None:
    log = write(store.logs / f"{SESSION}.txt")
    write(store.logs / f"{OTHER}.txt")
    assert found(store, path).logs == [log]
    assert log in found(store, path).own


def test_a_name_with_the_marks_of_a_pattern_matches_only_itself(store: Store) -> None:
    path = write(store.projects / "-home-ada-shop" / "[a-z]*.jsonl", session(user("q")))
    write(store.todos / "b-agent-b.json")
    todos = write(store.todos / "[a-z]*-agent-x.json")
    assert found(store, path).todos == [todos]


def test_plans_are_known_by_the_sessions_nickname(store: Store, path: Path) -> None:
    ends = ("", ".1a2b3c4d.theirs", "-agent-a1")
    plans = [write(store.plans / f"calm-red-fox{end}.md") for end in ends]
    write(store.plans / "calm-red-foxes.md")
    assert found(store, path).plans == plans
    assert not set(plans) & set(found(store, path).own), "another session may go on with them"


@pytest.mark.parametrize("nickname", ["*", "../plans/secret", ""])
def test_a_nickname_cannot_name_other_files(store: Store, nickname: str) -> None:
    path = write(store.projects / "p" / f"{SESSION}.jsonl", session(user("q", slug=nickname)))
    write(store.plans / "secret.md")
    assert found(store, path).plans == []


def test_outputs_of_tasks_are_known_by_the_sessions_directories(
    store: Store, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    place = tmp_path / "tmp" / f"claude-{os.getuid()}" / "-home-ada-shop"
    output = write(place / SESSION / "tasks" / "b1.output")
    write(place / OTHER / "tasks" / "b2.output")
    assert found(store, path).outputs == [output]
    assert output not in found(store, path).own


def test_own_files_end_with_the_session(store: Store, path: Path) -> None:
    write(path.with_suffix("") / "custom-title.json")
    write(store.file_history / SESSION / "0@v1")
    assert found(store, path).own[-1] == path
    assert len(found(store, path).own) == 3


def test_the_folders_of_a_session_hold_its_sidecars_and_backups(store: Store, path: Path) -> None:
    folders = session_folders(store, path)
    assert path.with_suffix("") in folders
    assert store.file_history / SESSION in folders
    assert path.parent not in folders


def test_every_file_of_the_store_is_found_once_by_its_session(store: Store, path: Path) -> None:
    own = {
        path,
        write(path.with_suffix("") / "tool-results" / "b.txt"),
        write(path.with_name("agent-a.jsonl"), session(user("x"), agent_id="a")),
        write(store.file_history / SESSION / "0@v1"),
        write(store.todos / f"{SESSION}-agent-{SESSION}.json"),
        write(store.logs / f"{SESSION}.txt"),
    }
    shared = {
        write(store.history),
        write(store.plans / "calm-red-fox.md"),
        write(path.parent / "memory" / "MEMORY.md"),
        write(store.file_history / OTHER / "0@v1"),
    }
    files = files_by_session(store)
    assert {name: set(paths) for name, paths in files.items()} == {SESSION: own, None: shared}
    assert sum(map(len, files.values())) == len(own) + len(shared)
