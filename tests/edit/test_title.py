"""A title is written as the client writes it, and can be undone."""

import json
from pathlib import Path

import pytest

from support.build import SESSION, assistant, line, nth, session, text, user
from support.folders import tree, write
from turnlog.conversation.session import open_session
from turnlog.edit.apply import apply_changes
from turnlog.edit.journal import Journal
from turnlog.edit.session_title import clean_title, title_changes
from turnlog.errors import UsageError
from turnlog.store.catalog import describe, locate_session
from turnlog.store.paths import Store, title_file

CONTENT = session(user("first"), assistant(text("done")), line("custom-title", custom_title="Old"))


def renamed(store: Store, content: bytes, title: str) -> tuple[Path, Journal]:
    path = write(store.projects / "-home-ada-shop" / f"{SESSION}.jsonl", content)
    journal = Journal(store.root.parent / "journal")
    apply_changes(journal, "rename", title_changes(path, title))
    return path, journal


def added(path: Path, content: bytes) -> list[dict[str, str]]:
    return list(map(json.loads, path.read_bytes().removeprefix(content).splitlines()))


def test_the_title_is_appended_and_saved_beside(store: Store) -> None:
    path, _ = renamed(store, CONTENT, "Mend the cart ✓")
    assert path.read_bytes().startswith(CONTENT)
    assert added(path, CONTENT) == [
        {"type": "custom-title", "customTitle": "Mend the cart ✓", "sessionId": SESSION},
        {"type": "agent-name", "agentName": "Mend the cart ✓", "sessionId": SESSION},
    ]
    assert title_file(path).read_text("utf-8") == '{"customTitle":"Mend the cart ✓"}'
    assert describe(locate_session(path)).title == "Mend the cart ✓"
    assert len(open_session(path).context()) == 2


def test_a_saved_title_is_replaced(store: Store) -> None:
    path = store.projects / "-home-ada-shop" / f"{SESSION}.jsonl"
    write(title_file(path), b'{"customTitle":"Old"}')
    renamed(store, CONTENT, "New")
    assert json.loads(title_file(path).read_bytes()) == {"customTitle": "New"}


def test_undo_takes_a_title_back(store: Store) -> None:
    write(store.projects / "-home-ada-shop" / f"{SESSION}.jsonl", CONTENT[:-1])
    before = tree(store.root).keys()
    path, journal = renamed(store, CONTENT[:-1], "New")
    assert path.read_bytes().startswith(CONTENT), "a line without its end gets one"
    journal.undo()
    assert path.read_bytes() == CONTENT[:-1]
    assert tree(store.root).keys() == before


def test_clients_before_2_find_the_title_as_a_summary_of_the_last_entry(store: Store) -> None:
    content = session(user("q", version="1.0.60"), assistant(text("a"), version="1.0.60"))
    path, _ = renamed(store, content, "New")
    assert added(path, content)[-1] == {"type": "summary", "summary": "New", "leafUuid": nth(2)}


def test_a_title_is_one_line_without_control_characters() -> None:
    assert clean_title(" a\nb\t\x1b[2J c\u202e ") == "a b [2J c"
    assert clean_title("👩\u200d🚀") == "👩\u200d🚀"
    assert clean_title("caf\udce9") == "caf?"


@pytest.mark.parametrize("text", ["", "  \n", "\x00\x1b"])
def test_a_title_of_nothing_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        clean_title(text)
