"""`tag` labels a session, `ls --tag` selects by it; `archive --from` copies from a URL."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from cli.conftest import Run
from support.build import SESSION, session, user
from support.folders import write
from turnlog.sdk import FilesystemSessionStore


@pytest.fixture
def stored(project: Path) -> Path:
    path = write(project / f"{SESSION}.jsonl", session(user("hello")))
    os.utime(path, (0, 0))
    return path


@pytest.mark.usefixtures("stored")
def test_a_tag_is_set_shown_and_removed(turnlog: Run) -> None:
    assert turnlog("tag", "last", "release").out.startswith(f"Tagged {SESSION} release\n")
    assert "release" in turnlog("ls").out
    assert [row["tag"] for row in json.loads(turnlog("ls", "--tag", "Release", "--json").out)] == [
        "release"
    ]
    assert turnlog("tag", "last", "release").out == f"{SESSION} is tagged release already\n"
    removed = turnlog("tag", "last", "--remove")
    assert removed.out.startswith(f"Removed the tag release of {SESSION}\n")
    assert turnlog("tag", "last", "--remove").out == f"{SESSION} has no tag\n"
    none = turnlog("ls", "--tag", "release")
    assert (none.code, "no sessions tagged 'release'" in none.err) == (1, True)


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize("words", [("last",), ("last", "x", "--remove"), ("last", " ")])
def test_a_tag_needs_a_name_or_to_be_removed(turnlog: Run, words: tuple[str, ...]) -> None:
    outcome = turnlog("tag", *words)
    assert (outcome.code, "try: turnlog tag " in outcome.err) == (2, True)


def test_sessions_of_a_url_are_archived_and_restored(turnlog: Run, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/remote"
    entries = [json.loads(raw) for raw in session(user("hello")).splitlines()]
    key = {"project_key": "-home-ada-shop", "session_id": SESSION}
    asyncio.run(FilesystemSessionStore(url).append(key, entries))  # pyright: ignore[reportArgumentType]
    assert turnlog("archive", "--from", url).out == f"Copied 1 of 1 session from {url}\n"
    assert json.loads(turnlog("archive", "--from", url, "--json").out)["changed"] == []
    assert "mirrored" in turnlog("archive", "--list").out
    assert turnlog("restore", SESSION).code == 0
    assert "hello" in turnlog("show", SESSION).out
    assert turnlog("archive", "--from", "nosuch://x").code == 2
