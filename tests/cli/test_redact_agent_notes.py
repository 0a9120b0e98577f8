"""Notes that sub-agents keep in the store are redacted with the sessions they may come from."""

from pathlib import Path

import pytest

from cli.conftest import Run
from support.build import SESSION, session, user
from support.planted import write
from turnlog.store.paths import Store

TOKEN = "gh" + "p_" + "Q7" + "x4Jq0Zb8mT" * 3 + "Rk4d"
OTHER = TOKEN.replace("Q7", "W2")
PLACES = ["reviewer/MEMORY.md", "reviewer/deep/er.md", "by-project/x/reviewer/notes.txt"]


@pytest.fixture
def store(project: Path) -> Store:
    write(project / f"{SESSION}.jsonl", session(user(f"it is {TOKEN}")))
    return Store(project.parent.parent)


@pytest.mark.parametrize("place", PLACES)
def test_a_secret_of_a_session_is_replaced_in_notes(store: Store, turnlog: Run, place: str) -> None:
    notes = write(store.root / "agent-memory" / place, f"it was {TOKEN}".encode())
    others = write(store.root / "agent-memory" / "other" / "MEMORY.md", OTHER.encode())
    done = turnlog("redact", SESSION)
    assert (done.code, TOKEN in notes.read_text("utf-8")) == (0, False)
    assert others.read_text("utf-8") == OTHER, "no note without a secret of the session"
    assert "sub-agents' notes 1" in done.out


@pytest.mark.parametrize("place", PLACES)
def test_all_takes_every_note(store: Store, turnlog: Run, place: str) -> None:
    notes = write(store.root / "agent-memory" / place, f"{TOKEN} and {OTHER}".encode())
    assert turnlog("redact", "--all").code == 0
    assert not any(each in notes.read_text("utf-8") for each in (TOKEN, OTHER))


def test_notes_that_a_link_leads_to_are_left_alone(
    store: Store, turnlog: Run, tmp_path: Path
) -> None:
    notes = write(tmp_path / "outside" / "notes.md", TOKEN.encode())
    (store.root / "agent-memory").symlink_to(notes.parent)
    done = turnlog("redact", SESSION)
    assert (done.code, notes.read_text("utf-8")) == (1, TOKEN)
    assert "a symbolic link" in done.err


def test_removing_a_session_keeps_notes(store: Store, turnlog: Run) -> None:
    notes = write(store.root / "agent-memory" / PLACES[0], b"mine")
    assert turnlog("rm", SESSION).code == 0
    assert notes.read_bytes() == b"mine"
