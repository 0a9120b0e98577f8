"""Irreversible commands need confirmation; undoing must not damage a session in use."""

import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Run
from support.build import SESSION, assistant, call, result, session, text, user
from turnlog.edit.journal import Journal
from turnlog.errors import Conflict, UsageError
from turnlog.store.archive.archive import open_archive
from turnlog.store.deletion_consent import agreed
from turnlog.store.paths import Store, journal_folder
from turnlog.store.registry import claim, release

CONTENT = session(
    user("first"),
    assistant(call("Bash", {"command": "ls"}, "A"), message_id="m1"),
    result("A", "out"),
    assistant(text("done"), message_id="m2"),
)
FORGETTING = ["ID", "--all", "--older-than 0", "--archived SESSION"]
"""Every way to delete for good that the command line has."""
CHANGES = {
    "edit": ["edit", SESSION, "--strip-tools"],
    "remove": ["rm", SESSION],
    "rename": ["rename", SESSION, "another"],
    "clone": ["clone", SESSION],
}


@pytest.fixture
def path(project: Path) -> Path:
    """A session that no client has touched lately, with a file of its own."""
    path = project / f"{SESSION}.jsonl"
    path.write_bytes(CONTENT)
    kept = path.with_suffix("") / "tool-results" / "a.txt"
    kept.parent.mkdir(parents=True)
    kept.write_text("long")
    os.utime(path, (0, 0))
    return path


@pytest.fixture
def journal(path: Path) -> Journal:
    return Journal(journal_folder())


@pytest.fixture
def change(path: Path, journal: Journal, turnlog: Run) -> str:
    """Make a change, and archive the result."""
    assert turnlog("edit", SESSION, "--strip-tools").code == 0
    assert turnlog("archive").code == 0
    return journal.records()[0].id


def words_of(way: str, change: str) -> list[str]:
    return way.replace("ID", change).replace("SESSION", SESSION[:8]).split()


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "lock"
    }


def process(*arguments: str, stdin: int | None = subprocess.DEVNULL) -> tuple[int, str, str]:
    """Run turnlog as a process of its own."""
    command = [sys.executable, "-m", "turnlog", *arguments]
    closing = (lambda: os.close(0)) if stdin is None else None
    done = subprocess.run(
        command, stdin=stdin, capture_output=True, text=True, check=False, preexec_fn=closing
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("stdin", [subprocess.DEVNULL, subprocess.PIPE, None])
@pytest.mark.parametrize("way", FORGETTING)
def test_nothing_is_deleted_for_good_where_nobody_can_be_asked(
    way: str, stdin: int | None, change: str, tmp_path: Path
) -> None:
    before = contents(tmp_path)
    code, out, err = process("forget", *words_of(way, change), stdin=stdin)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert contents(tmp_path) == before
    typed = err[err.index("(try: ") + 6 : err.rindex(")")]
    assert typed.endswith(" --yes")
    assert process(*shlex.split(typed)[1:])[0] == 0
    assert contents(tmp_path) != before


@pytest.mark.parametrize("answer", [b"\n", b"n\n", b"\x04", b"what\nno\n"])
@pytest.mark.parametrize("way", FORGETTING)
def test_on_a_terminal_the_answer_is_no_unless_it_is_yes(
    way: str, answer: bytes, change: str, tmp_path: Path
) -> None:
    before = contents(tmp_path)
    leader, follower = pty.openpty()
    os.write(leader, answer)
    code, out, err = process("forget", *words_of(way, change), stdin=follower)
    os.close(leader)
    os.close(follower)
    assert (code, out) == (130, "")
    assert "Permanently delete " in err
    assert "? [y/N]" in err
    assert contents(tmp_path) == before


def test_a_library_user_has_to_consent_as_well(change: str, journal: Journal) -> None:
    record = journal.find(change)
    with pytest.raises(UsageError, match="deleted permanently"):
        journal.forget([record])
    with pytest.raises(UsageError, match="deleted permanently"):
        open_archive().remove(SESSION)
    record.is_done = False
    with pytest.raises(Conflict, match="interrupted"):
        journal.forget([record], agreed)
    assert (len(journal.records()), open_archive().names()) == (1, [SESSION])


# Undo


@pytest.mark.parametrize("kind", CHANGES)
def test_a_session_that_is_open_in_a_client_is_not_undone(
    kind: str, path: Path, tmp_path: Path, journal: Journal, turnlog: Run
) -> None:
    assert turnlog(*CHANGES[kind]).code == 0
    names = [Path(file.path).stem for file in journal.records()[0].files]
    made = next(name for name in names if len(name) == len(SESSION))
    before = contents(tmp_path)
    store = Store(tmp_path)
    claim(store, made, tmp_path, "cli", "2.1.325")
    try:
        refused = turnlog("undo")
        with pytest.raises(Conflict):
            journal.undo()
    finally:
        release(store, made)
    assert (refused.code, refused.out, refused.err.count("\n")) == (1, "", 1)
    assert f"{made} is open in a running client (try: " in refused.err
    assert contents(tmp_path) == before
    assert turnlog("undo").code == 0
    assert path.read_bytes() == CONTENT


def test_a_session_that_another_process_has_open_is_not_undone(
    change: str, path: Path, turnlog: Run
) -> None:
    edited = path.read_bytes()
    command = [sys.executable, "-c", f"f=open({str(path)!r},'ab');print();input()"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as other:
        assert other.stdout
        other.stdout.readline()
        refused = turnlog("undo", change)
        other.communicate(b"\n")
    assert (refused.code, "is open in another process" in refused.err) == (1, True)
    assert path.read_bytes() == edited


def test_another_session_in_use_does_not_matter(change: str, tmp_path: Path, turnlog: Run) -> None:
    store = Store(tmp_path)
    claim(store, "22222222-0000-4000-8000-000000000000", tmp_path, "cli", "2.1.325")
    assert turnlog("undo", change).code == 0


def test_an_ambiguous_id_lists_the_changes_and_undoes_none(
    change: str, path: Path, journal: Journal, turnlog: Run
) -> None:
    os.utime(path, (0, 0))
    assert turnlog("rename", SESSION, "another").code == 0
    edited = path.read_bytes()
    ids = [record.id for record in journal.records()]
    assert len(ids) == 2
    for name in ("2", change[:4]):
        refused = turnlog("undo", name)
        assert (refused.code, refused.out) == (1, "")
        assert "matches 2 changes" in refused.err
        assert all(each in refused.err for each in ids)
    assert turnlog("undo", "").code == 1
    assert path.read_bytes() == edited
    assert not any(record.is_undone for record in journal.records())
    assert turnlog("undo", ids[0]).code == 0


CHANGED: dict[str, Callable[[Path], object]] = {
    "appended": lambda path: path.write_bytes(path.read_bytes() + b"{}\n"),
    "rewritten": lambda path: path.write_bytes(b"{}\n"),
    "the same size": lambda path: path.write_bytes(path.read_bytes()[::-1]),
    "emptied": lambda path: path.write_bytes(b""),
}


@pytest.mark.parametrize("how", CHANGED)
def test_what_changed_since_is_not_overwritten(
    how: str, change: str, path: Path, turnlog: Run
) -> None:
    CHANGED[how](path)
    changed = path.read_bytes()
    refused = turnlog("undo", change)
    assert (refused.code, "has changed since" in refused.err) == (1, True)
    assert path.read_bytes() == changed
