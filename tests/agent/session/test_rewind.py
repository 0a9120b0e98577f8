"""Rewinding to before a prompt, and undoing that."""

import json
import os
from pathlib import Path

import pytest

from support.build import assistant, call, result
from support.changed_files import Work
from turnlog.agent.session.rewind import (
    RewindScope,
    Rewound,
    apply_rewind,
    plan_rewind,
    rewind_points,
    undo_rewind,
)
from turnlog.conversation.session import Session, open_session
from turnlog.edit.check.checks import check_session
from turnlog.edit.journal import Journal
from turnlog.errors import Conflict, UsageError
from turnlog.store.paths import Store


@pytest.fixture
def work(store: Store, tmp_path: Path) -> Work:
    return Work(store, tmp_path / "shop")


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


def go_back(
    work: Work,
    journal: Journal,
    prompt: str,
    scope: RewindScope = RewindScope.BOTH,
    overwrite: bool = False,
) -> Rewound:
    session = open_session(work.path)
    plan = plan_rewind(work.store, session, prompt, work.root)
    return apply_rewind(plan, scope, session, journal, overwrite)


def settle(work: Work) -> None:
    """Make files on disk as old as the lines that describe them."""
    for path in work.root.rglob("*"):
        os.utime(path, (0, 0))


def said(session: Session) -> list[str]:
    blocks = [block for message in session.context() for block in message["content"]]
    return [block["text"] for block in blocks if block["type"] == "text"]


def three_turns(work: Work) -> list[str]:
    (work.root / "a.txt").write_text("zero")
    prompts: list[str] = []
    for name, content in (("a.txt", "one"), ("b/new.txt", "two"), ("a.txt", "three")):
        prompts.append(work.prompt(f"write {content}"))
        work.write(name, content)
        work.say("done")
    return prompts


def test_points_are_the_prompts(work: Work) -> None:
    prompts = three_turns(work)
    points = rewind_points(open_session(work.path))
    assert [point.uuid for point in points] == prompts
    assert [point.text for point in points] == ["write one", "write two", "write three"]


def test_files_become_what_they_were_at_a_prompt(work: Work, journal: Journal) -> None:
    prompts = three_turns(work)
    go_back(work, journal, prompts[1], RewindScope.FILES)
    assert (work.root / "a.txt").read_text() == "one"
    assert not (work.root / "b" / "new.txt").exists()
    assert said(open_session(work.path))[-1] == "done"


def test_a_file_changed_in_the_turn_itself_becomes_what_it_was(
    work: Work, journal: Journal
) -> None:
    prompts = three_turns(work)
    go_back(work, journal, prompts[0], RewindScope.FILES)
    assert (work.root / "a.txt").read_text() == "zero"


def test_the_conversation_goes_on_before_a_prompt(work: Work, journal: Journal) -> None:
    prompts = three_turns(work)
    go_back(work, journal, prompts[1], RewindScope.CONVERSATION)
    session = open_session(work.path)
    assert said(session) == ["write one", "done"]
    assert session.tree.active_leaf == session.tree.newest_leaf
    assert (work.root / "a.txt").read_text() == "three"
    assert check_session(session) == []


def test_going_back_to_the_first_prompt_leaves_nothing(work: Work, journal: Journal) -> None:
    prompts = three_turns(work)
    go_back(work, journal, prompts[0])
    (told,) = said(open_session(work.path))
    assert told.startswith("<local-command-caveat>")
    assert (work.root / "a.txt").read_text() == "zero"


def test_an_older_note_of_the_tip_does_not_bring_the_rest_back(
    work: Work, journal: Journal
) -> None:
    prompts = three_turns(work)
    work.aside({"type": "last-prompt", "leafUuid": work.leaf, "lastPrompt": "write three"})
    go_back(work, journal, prompts[2], RewindScope.CONVERSATION)
    assert said(open_session(work.path))[-2:] == ["write two", "done"]


def test_a_plan_says_what_would_happen_and_does_nothing(work: Work) -> None:
    prompts = three_turns(work)
    before = work.path.read_bytes()
    plan = plan_rewind(work.store, open_session(work.path), prompts[1], work.root)
    told = {file.path.name: file.copy is None for file in plan.files}
    assert told == {"a.txt": False, "new.txt": True}
    assert plan.conflicts == []
    assert work.path.read_bytes() == before
    assert (work.root / "a.txt").read_text() == "three"


def test_what_someone_else_changed_is_not_overwritten(work: Work, journal: Journal) -> None:
    prompts = three_turns(work)
    mine = work.root / "a.txt"
    mine.write_text("by hand")
    session = open_session(work.path)
    plan = plan_rewind(work.store, session, prompts[0], work.root)
    assert [file.path for file in plan.conflicts] == [mine]
    with pytest.raises(Conflict, match=r"a\.txt"):
        apply_rewind(plan, RewindScope.BOTH, session, journal)
    assert mine.read_text() == "by hand"
    assert said(open_session(work.path))[-2:] == ["write three", "done"]
    apply_rewind(plan, RewindScope.FILES, session, journal, overwrite=True)
    assert mine.read_text() == "zero"


@pytest.mark.parametrize(("year", "is_outside"), [(2000, True), (2100, False)])
def test_a_change_whose_text_is_not_told_is_judged_by_its_time(
    work: Work, year: int, is_outside: bool
) -> None:
    path = work.root / "a.txt"
    prompt = work.prompt("change it")
    work.aside(json.loads(assistant(call("Edit", {"file_path": str(path)}))))
    work.history.before_change(path)
    path.write_text("edited")
    work.aside(json.loads(result("toolu_1", timestamp=f"{year}-01-01T00:00:00Z")))
    plan = plan_rewind(work.store, open_session(work.path), prompt, work.root)
    assert [file.is_changed_outside for file in plan.files] == [is_outside]


def test_what_a_copy_holds_may_be_overwritten(work: Work, journal: Journal) -> None:
    prompts = three_turns(work)
    work.prompt("so that all is kept")
    go_back(work, journal, prompts[0], RewindScope.FILES)
    assert (work.root / "a.txt").read_text() == "zero"


def test_going_back_can_be_undone(work: Work, journal: Journal) -> None:
    prompts = three_turns(work)
    done = go_back(work, journal, prompts[0])
    undo_rewind(done, open_session(work.path), journal)
    assert (work.root / "a.txt").read_text() == "three"
    assert (work.root / "b" / "new.txt").read_text() == "two"
    assert said(open_session(work.path))[-2:] == ["write three", "done"]
    assert check_session(open_session(work.path)) == []


def test_a_file_that_was_removed_comes_back_with_its_mode(work: Work, journal: Journal) -> None:
    path = work.root / "bin" / "run.sh"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    prompt = work.prompt("change it")
    work.history.before_change(path)
    path.unlink()
    path.parent.rmdir()
    go_back(work, journal, prompt, RewindScope.FILES)
    assert path.read_text() == "#!/bin/sh\n"
    assert path.stat().st_mode & 0o777 == 0o755
    assert path.parent.stat().st_mode & 0o700 == 0o700


def test_a_restored_file_looks_changed_to_whoever_goes_by_its_time(
    work: Work, journal: Journal
) -> None:
    prompts = three_turns(work)
    settle(work)
    go_back(work, journal, prompts[0], RewindScope.FILES, overwrite=True)
    assert (work.root / "a.txt").stat().st_mtime > 0


def test_a_copy_that_is_gone_is_told_and_its_file_left_alone(work: Work, journal: Journal) -> None:
    prompts = three_turns(work)
    for copy in work.history.folder.iterdir():
        copy.unlink()
    plan = plan_rewind(work.store, open_session(work.path), prompts[0], work.root)
    assert [file.is_lost for file in plan.files if file.path.name == "a.txt"] == [True]
    go_back(work, journal, prompts[0], RewindScope.FILES, overwrite=True)
    assert (work.root / "a.txt").read_text() == "three"


def test_only_prompts_can_be_gone_back_to(work: Work) -> None:
    three_turns(work)
    session = open_session(work.path)
    answer = next(node.uuid for node in session.tree.chain if node.kind == "assistant")
    with pytest.raises(UsageError):
        plan_rewind(work.store, session, answer or "", work.root)
