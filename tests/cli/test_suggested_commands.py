"""Commands that turnlog suggests work as printed, whichever way the stores were chosen."""

import json
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

from cli.conftest import LONG_AGO, Outcome, Run
from cli.test_several_stores import ID, OTHER, add_session
from support.build import assistant, call, session, text, user
from support.build import line as entry
from turnlog.cli.suggested_commands import WITHOUT_STORE, choose, to_type

BROKEN = "b0b00000-0000-4000-8000-000000000003"
SUGGESTED = re.compile(r"(?:^ *|\()(?:try: )?(turnlog [a-z-][^\n]*?)\)?$", re.MULTILINE)
NOT_FOUND = re.compile(r"no sessions? |matches no session|is in \d stores")
READING = {"show", "turns", "calls", "entries", "raw", "files", "check", "search", "ls", "stats"}
"""Commands that a test may run to see whether they find the session."""


@pytest.fixture
def elsewhere(project: Path, tmp_path: Path) -> Path:
    """A store that only --store names; the user's own one is empty."""
    root = tmp_path / "old store"
    add_session(root, ID, "in the old store")
    add_session(root, OTHER, "another one in the old store", "msg_2")
    path = root / "projects" / "-home-ada-shop" / f"{BROKEN}.jsonl"
    lost = call("Read", {"file_path": "/home/ada/shop/a.py"}, "lost")
    lines = session(user("broken"), assistant(lost), user("go on"), assistant(text("ok")))
    path.write_bytes(lines)
    os.utime(path, LONG_AGO)
    return root


def suggested(outcome: Outcome) -> list[str]:
    return SUGGESTED.findall(outcome.out) + SUGGESTED.findall(outcome.err)


LINES = (
    ("search", "old"),
    ("search", "nosuchword"),
    ("search", "--like", "another"),
    ("search", "old", "--tool", "Nope"),
    ("ls", "--limit", "1"),
    ("show", ID, "--line", "99"),
    ("show", "nosuch"),
    ("raw", ID, "--line", "99"),
    ("calls", ID, "--tool", "Nope"),
    ("files", ID, "nosuch.py"),
    ("git", ID, "-o", "out"),
    ("check", "--all"),
    ("check", BROKEN),
    ("resume", ID, "--dry-run"),
    ("resume", BROKEN, "--no-check", "--dry-run"),
    ("clone", ID),
    ("export", ID, "--turn", "9", "-o", "x.html"),
    ("edit", ID, "--keep-until", "9"),
    ("bundle", "--project", "/nowhere", "-o", "x.turnlog"),
    ("history-of", "nosuch.py"),
)


@pytest.mark.parametrize("words", LINES, ids=" ".join)
@pytest.mark.parametrize("is_first", [True, False])
def test_suggestions_name_the_store_that_was_chosen(
    turnlog: Run,
    elsewhere: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    is_first: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    option = ("--store", str(elsewhere))
    outcome = turnlog(*option, *words) if is_first else turnlog(*words, *option)
    for command in suggested(outcome):
        _, *rest = shlex.split(command)
        if {"--help", "--samples", *WITHOUT_STORE} & set(rest):
            continue
        assert rest[rest.index("--store") + 1] == str(elsewhere), command
        if READING & set(rest) and "SESSION" not in rest:
            assert not NOT_FOUND.search(turnlog(*rest).err), command


def test_suggestions_open_the_session_that_two_stores_have(
    turnlog: Run, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    add_session(one, ID, "words of the first")
    add_session(other, ID, "words of the second")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", f"{one},{other}")
    commands = suggested(turnlog("search", "words"))
    assert commands
    for command in commands:
        shown = turnlog(*shlex.split(command)[1:])
        assert (shown.code, "words of the" in shown.out) == (0, True)


def test_fixes_name_the_store_of_the_session(
    turnlog: Run, elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(elsewhere, copy)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", f"{elsewhere},{copy}")
    rows = json.loads(turnlog("check", "--all", "--json").out)
    fixes = {row["store"]: each["fix"] for row in rows for each in row["findings"] if each["fix"]}
    assert fixes.keys() == {str(elsewhere), str(copy)}
    for store, fix in fixes.items():
        assert f"--store {shlex.quote(store)}" in fix
        assert turnlog(*shlex.split(fix)[1:], "--dry-run").code == 0


def test_the_resume_command_of_an_import_names_its_store(
    turnlog: Run, elsewhere: Path, tmp_path: Path
) -> None:
    file = tmp_path / "x.turnlog"
    assert turnlog("bundle", ID, "-o", str(file), "--store", str(elsewhere)).code == 0
    receiver = tmp_path / "receiver"
    (receiver / "projects").mkdir(parents=True)
    place = ("--into", str(tmp_path))
    done = turnlog("--store", str(receiver), "unbundle", str(file), *place)
    assert f"CLAUDE_CONFIG_DIR={receiver} claude --resume {ID}" in done.out
    # What a bundle is imported with is for another machine, which has other stores.
    assert "  turnlog unbundle" in turnlog(
        "bundle", ID, "-o", str(file), "-y", "--store", str(elsewhere)
    ).out  # fmt: skip


def test_chats_in_another_store_are_resumed_there(
    turnlog: Run, elsewhere: Path, tmp_path: Path
) -> None:
    assert turnlog("--store", str(elsewhere), "mv", ID, str(tmp_path)).code == 0
    shown = turnlog("--store", str(elsewhere), "resume", ID, "--chat", "--dry-run").out
    assert f"CLAUDE_CONFIG_DIR='{elsewhere}' turnlog chat --resume {ID}" in shown


@pytest.mark.parametrize(
    "words",
    [("show", "--line", "99"), ("git", "-o", "out"), ("check",), ("calls", "--tool", "Nope")],
    ids=" ".join,
)
def test_a_session_named_by_its_path_is_named_so_again(
    turnlog: Run, elsewhere: Path, words: tuple[str, ...]
) -> None:
    folder = elsewhere / "projects" / "-home-ada-shop"
    name = BROKEN if words[0] == "check" else ID
    path = (folder / f"{name}.jsonl").rename(elsewhere / f"{name}.jsonl")
    commands = suggested(turnlog(words[0], str(path), *words[1:]))
    assert commands
    assert all(str(path) in shlex.split(command) for command in commands)


def test_samples_stay_samples(turnlog: Run) -> None:
    found = suggested(turnlog("--samples", "search", "invoice"))
    assert found
    assert all(command.startswith("turnlog --samples show ") for command in found)


@pytest.mark.parametrize(
    ("command", "typed"),
    [
        ("cd DIRECTORY && turnlog show 5", "cd DIRECTORY && turnlog --store /s show 5"),
        ("sleep 5; turnlog live --once", "sleep 5; turnlog --store /s live --once"),
        ("turnlog show 5 --store /b", "turnlog show 5 --store /b"),
        ("turnlog undo 7", "turnlog undo 7"),
        ("pip install 'turnlog[web]'", "pip install 'turnlog[web]'"),
        ("echo turnlog show", "echo turnlog show"),
    ],
)
def test_only_calls_of_turnlog_get_the_stores(command: str, typed: str) -> None:
    choose(["--store", "/s"])
    assert to_type(command) == typed
    choose()
    assert to_type(command) == command


def test_paths_in_suggestions_are_quoted(turnlog: Run, elsewhere: Path, tmp_path: Path) -> None:
    folder = tmp_path / "two words"
    folder.mkdir()
    file = folder / "x.turnlog"
    secret = tmp_path / "password"
    secret.write_text("secret\n")
    made = ("bundle", ID, "-o", str(file), "--password-file", str(secret))
    assert turnlog(*made, "--store", str(elsewhere)).code == 0
    (command,) = suggested(turnlog("unbundle", str(file)))
    assert shlex.split(command)[2] == str(file)
    dest = folder / "dest"
    (command,) = suggested(turnlog("--store", str(elsewhere), "sync-with", str(dest)))
    assert turnlog(*shlex.split(command)[1:]).code == 0
    for path in (elsewhere / "projects").rglob(f"{OTHER}.jsonl"):
        path.unlink()
    (command,) = suggested(turnlog("--store", str(elsewhere), "sync-with", str(dest)))
    assert turnlog(*shlex.split(command)[1:]).code == 0


@pytest.mark.parametrize("name", ["a; touch x; b", "$(touch x)", "x && touch y"])
def test_the_name_of_a_file_adds_no_command_to_a_hint(
    name: str, turnlog: Run, elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = elsewhere / "projects" / "-home-ada-shop"
    shutil.copy(folder / f"{BROKEN}.jsonl", folder / f"{name}.jsonl")
    given = [tuple(name if word in (ID, BROKEN) else word for word in line) for line in LINES]
    found: list[str] = []
    for line in dict.fromkeys(given):
        found += suggested(turnlog("--store", str(elsewhere), *line))
    assert any(name[:8] in shlex.split(command) for command in found)
    for command in found:
        words = shlex.shlex(command, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        assert not [word for word in words if set(word) <= set("();<>|&")], command


EMPTY = "e0e00000-0000-4000-8000-000000000004"


def test_no_command_resumes_a_file_without_conversation(turnlog: Run, project: Path) -> None:
    path = project / f"{EMPTY}.jsonl"
    path.write_bytes(entry("summary", summary="budget", leaf_uuid=ID))
    for words in (
        ("show", EMPTY),
        ("ls",),
        ("ls", "--long"),
        ("search", "budget"),
        ("clone", EMPTY),
    ):
        outcome = turnlog(*words)
        assert "claude --resume" not in outcome.out + outcome.err
        hints = suggested(outcome)
        assert bool(hints) == (words[-1] in ("--long", "budget", EMPTY) and words[0] != "show")
        for command in hints:
            assert turnlog(*shlex.split(command)[1:]).code in (0, 1)
    assert turnlog("check", EMPTY).code == 1
    assert json.loads(turnlog("ls", "--json").out)[0]["resume"] is None


def test_a_session_that_only_the_archive_has_is_restored_first(turnlog: Run, project: Path) -> None:
    add_session(project.parent.parent, ID, "in the archive")
    turnlog("archive")
    turnlog("sync")
    (project / f"{ID}.jsonl").unlink()
    found = turnlog("search", "archive")
    assert f"turnlog restore {ID}" in suggested(found)
    assert "claude --resume" not in found.out
    restored = turnlog("restore", ID)
    assert f"claude --resume {ID}" in restored.out
