"""Tags, titles, forks and deletions by turnlog or by the Agent SDK are understood by the other."""

import asyncio
import os
import time
from pathlib import Path

import claude_agent_sdk as sdk
import pytest

from support.build import SESSION, assistant, session, text, user
from support.folders import write
from turnlog.api import LoggedSession
from turnlog.edit.journal import open_journal
from turnlog.edit.service import rename_session, tag_session
from turnlog.edit.session_title import clean_tag
from turnlog.errors import Conflict, NotFound, UsageError
from turnlog.sdk import ArchiveSessionStore
from turnlog.store.archive.archive import open_archive
from turnlog.store.archive.update import archive_sessions
from turnlog.store.catalog import describe, list_sessions, locate_session, select_sessions
from turnlog.store.paths import Store, open_store

OLD = 1_000.0


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session that both sides find."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    path = tmp_path / "claude" / "projects" / "-home-ada-shop" / f"{SESSION}.jsonl"
    write(path, session(user("first"), assistant(text("done"))))
    return rested(path)


def rested(path: Path) -> Path:
    """Make a file old: turnlog refuses to change one that was written to just now."""
    moment = time.time() - OLD
    os.utime(path, (moment, moment))
    return path


def store() -> Store:
    return open_store()


def shown() -> sdk.SDKSessionInfo:
    (found,) = sdk.list_sessions()
    return found


def tag_of(path: Path) -> str | None:
    return describe(locate_session(path)).tag


def test_the_sdk_lists_a_tag_of_turnlog(stored: Path) -> None:
    before = stored.read_bytes()
    done = tag_session(store(), stored, " relea\u200bse ✓\n")
    assert (done.tag, done.before, shown().tag) == ("release ✓", None, "release ✓")
    assert stored.read_bytes().startswith(before)
    tag_session(store(), rested(stored), None)
    assert (shown().tag, tag_of(stored)) == (None, None)
    assert done.record
    open_journal().undo()
    assert shown().tag == "release ✓"


def test_turnlog_lists_a_tag_of_the_sdk(stored: Path) -> None:
    sdk.tag_session(SESSION, "späť \u200bhome")
    assert tag_of(stored) == "späť home" == shown().tag
    assert [each.id for each in select_sessions(store(), tag="SPÄŤ home")] == [SESSION]
    assert select_sessions(store(), tag="späť") == []
    sdk.tag_session(SESSION, None)
    assert tag_of(stored) is None


def test_a_tag_is_neither_written_twice_nor_in_a_preview_nor_while_open(stored: Path) -> None:
    before = stored.read_bytes()
    assert tag_session(store(), stored, "x", dry_run=True).tag == "x"
    assert tag_session(store(), stored, None).record is None
    assert stored.read_bytes() == before
    tag_session(store(), stored, "x")
    assert tag_session(store(), stored, "x").record is None
    with stored.open("ab") as file:
        file.write(session(user("from a client")))
    with pytest.raises(Conflict, match="a moment ago"):
        tag_session(store(), stored, "y")


@pytest.mark.parametrize("text", ["", " ", "\u200b", "\ue000"])
def test_a_tag_that_cannot_be_seen_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="empty"):
        clean_tag(text)


def test_a_tag_is_read_from_the_end_of_the_file_only(stored: Path) -> None:
    sdk.tag_session(SESSION, "early")
    with stored.open("ab") as file:
        file.write(session(user("x" * 70_000)))
    assert shown().tag is None
    assert tag_of(stored) is None


def test_titles_of_either_side_replace_each_other(stored: Path) -> None:
    rename_session(store(), stored, "From turnlog")
    assert shown().custom_title == "From turnlog"
    sdk.rename_session(SESSION, "From the SDK")
    assert describe(locate_session(stored)).title == "From the SDK"
    rename_session(store(), rested(stored), "Again")
    assert shown().custom_title == "Again" == describe(locate_session(stored)).title


def test_forks_of_either_side_are_sessions(stored: Path) -> None:
    of_sdk = sdk.fork_session(SESSION).session_id
    of_turnlog = LoggedSession(store(), stored, reveal=False).clone().id
    forks = {of_sdk, of_turnlog}
    assert {each.session_id for each in sdk.list_sessions()} == {SESSION} | forks
    assert {each.id for each in list_sessions(store())} == {SESSION} | forks
    texts = [message.message for message in sdk.get_session_messages(of_turnlog)]
    assert len(texts) == 2
    fork = LoggedSession(store(), stored.with_name(f"{of_sdk}.jsonl"), reveal=False)
    assert [turn["prompt"] for turn in fork.turns] == ["first"]
    assert (fork.title or "").endswith("(fork)")


def test_deletions_of_either_side_hold(stored: Path) -> None:
    archive_sessions(store(), open_archive())
    mirror = ArchiveSessionStore()
    key = sdk.SessionKey(project_key="-home-ada-shop", session_id=SESSION)
    sdk.delete_session(SESSION)
    assert list_sessions(store()) == []
    assert len(asyncio.run(mirror.load(key)) or []) == 2, "the archive keeps it"
    open_archive().remove(SESSION, lambda deletion: None)
    assert asyncio.run(mirror.load(key)) is None
    with pytest.raises(NotFound):
        open_archive().load(SESSION)


def test_changes_through_a_session_store_reach_the_archive(stored: Path) -> None:
    archive_sessions(store(), open_archive())
    mirror = ArchiveSessionStore()

    async def change() -> str:
        folder = "/home/ada/shop"
        await sdk.rename_session_via_store(mirror, SESSION, "Renamed", directory=folder)
        await sdk.tag_session_via_store(mirror, SESSION, "kept", directory=folder)
        fork = await sdk.fork_session_via_store(mirror, SESSION, directory=folder)
        (info,) = [
            each
            for each in await sdk.list_sessions_from_store(mirror, directory=folder)
            if each.session_id == SESSION
        ]
        assert (info.custom_title, info.tag) == ("Renamed", "kept")
        return fork.session_id

    fork = asyncio.run(change())
    assert open_archive().load(SESSION).title == "Renamed"
    assert open_archive().load(fork).title == "Renamed (fork)"
    asyncio.run(sdk.delete_session_via_store(mirror, fork, directory="/home/ada/shop"))
    assert open_archive().names() == [SESSION]
