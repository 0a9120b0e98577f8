"""Sessions are removed with all files that are useless without them, and restored."""

import json
import os
from pathlib import Path

import pytest

from support.build import SESSION, encode, session, user
from support.folders import tree, write
from turnlog.edit.apply import apply_changes
from turnlog.edit.journal import Journal
from turnlog.edit.removal import Removal, plan_removal
from turnlog.errors import Conflict
from turnlog.store.paths import Store

OTHER = "0ther000-0000-4000-8000-000000000000"


@pytest.fixture
def paths(store: Store) -> list[Path]:
    """Two sessions of one project; the first has files of every kind."""
    folder = store.projects / "-home-ada-shop"
    first = write(folder / f"{SESSION}.jsonl", session(user("q")))
    other = write(folder / f"{OTHER}.jsonl", session(user("q"), session_id=OTHER))
    write(folder / SESSION / "subagents" / "agent-a.jsonl", session(user("x"), agent_id="a"))
    write(folder / "agent-b.jsonl", session(user("x"), agent_id="b"))
    write(folder / "agent-b.meta.json", b"{}")
    write(store.file_history / SESSION / "0123@v1", b"backup")
    write(store.todos / f"{SESSION}-agent-{SESSION}.json", b"[]")
    (store.root / "session-env" / SESSION).mkdir(parents=True, mode=0o750)
    first.chmod(0o640)
    os.utime(first, ns=(10**18, 10**18))
    return [first, other]


def make(store: Store, removal: Removal) -> Journal:
    journal = Journal(store.root.parent / "journal")
    apply_changes(journal, "rm", removal.changes, clearing=removal.clearing)
    return journal


def test_nothing_of_a_removed_session_is_left_and_undo_brings_all_back(
    store: Store, paths: list[Path]
) -> None:
    before = tree(store.root)
    journal = make(store, plan_removal(store, paths[:1]))
    assert not [path for path in store.root.rglob("*") if SESSION in str(path)]
    assert sorted(paths[0].parent.iterdir()) == [paths[1]]
    journal.undo()
    assert tree(store.root) == before


def test_several_sessions_are_one_change(store: Store, paths: list[Path]) -> None:
    before = tree(store.root)
    removal = plan_removal(store, paths)
    assert len(removal.sizes) == 7
    journal = make(store, removal)
    assert list(store.session_files()) == []
    journal.undo()
    assert tree(store.root) == before


def test_prompts_stay_unless_they_are_to_go(store: Store, paths: list[Path]) -> None:
    prompts = [encode({"display": each, "sessionId": each}) for each in (SESSION, OTHER)]
    write(store.history, b"".join(prompts))
    assert plan_removal(store, paths).prompts == 0
    removal = plan_removal(store, paths[:1], with_prompts=True)
    assert removal.prompts == 1
    journal = make(store, removal)
    assert json.loads(store.history.read_bytes())["sessionId"] == OTHER
    with store.history.open("ab") as file:
        file.write(b'{"display":"later"}\n')
    journal.undo()
    assert store.history.read_bytes() == b"".join(prompts) + b'{"display":"later"}\n'


def test_a_session_that_was_written_again_is_not_replaced_by_an_undo(
    store: Store, paths: list[Path]
) -> None:
    journal = make(store, plan_removal(store, paths[:1]))
    paths[0].write_bytes(b"new\n")
    with pytest.raises(Conflict):
        journal.undo()
    assert paths[0].read_bytes() == b"new\n"


def test_what_a_link_leads_to_is_not_removed(store: Store, paths: list[Path]) -> None:
    target = write(store.root.parent / "outside.txt", b"mine")
    (paths[0].with_suffix("") / "link.txt").symlink_to(target)
    make(store, plan_removal(store, paths[:1]))
    assert target.read_bytes() == b"mine"
