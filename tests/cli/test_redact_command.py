"""Secrets replaced from the command line, reported without being shown, and forgotten for good."""

import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cli.conftest import Run
from support.build import SESSION, assistant, call, result, session, user
from support.planted import SECRETS, contents, plant, prompt, write
from turnlog.edit.journal import Journal
from turnlog.secrets import placeholder_for
from turnlog.store.paths import Store

TOKEN = "gh" + "p_" + "Q7" + "x4Jq0Zb8mT" * 3 + "Rk4d"
HIDDEN = placeholder_for("github-token", TOKEN)
PASSWORD = "tr0ub4dor&3" + "xyz"


@pytest.fixture
def store(project: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("TURNLOG_HOME", str(project.parent.parent / "turnlog"))
    return Store(project.parent.parent)


@pytest.fixture
def path(project: Path, store: Store) -> Path:
    return write(project / f"{SESSION}.jsonl", session(user(f"it is {TOKEN}")))


@pytest.fixture
def journal(store: Store) -> Journal:
    return Journal(store.root / "turnlog" / "journal")


def test_redact_tells_what_it_did_and_how_to_go_on(
    path: Path, store: Store, turnlog: Run, journal: Journal
) -> None:
    write(store.history, prompt(f"typed {TOKEN} twice {TOKEN}"))
    done = turnlog("redact", SESSION)
    name = journal.records()[0].id
    assert done.out.splitlines() == [
        "1 secret (1 kind) in 2 files replaced; rescanned: none left",
        "kind          replaced  where",
        "github-token         3  prompt history 2, transcript 1",
        f"  turnlog undo {name}",
        f"turnlog keeps the originals for undo; to delete them: turnlog forget {name}",
    ]
    assert (done.code, done.err) == (0, "")
    again = turnlog("redact", SESSION)
    assert (again.code, again.out) == (0, "no secrets found\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name a session, or use --all"),
        (["last", "--all"], "SESSION cannot be combined with --all"),
    ],
)
def test_sessions_are_named_or_all(turnlog: Run, words: list[str], message: str) -> None:
    done = turnlog("redact", *words)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"turnlog: {message} (try: turnlog redact last --dry-run)\n"


def test_a_dry_run_shows_places_but_no_secret_and_touches_nothing(
    path: Path, store: Store, turnlog: Run
) -> None:
    plant(store, [secret.text for secret in SECRETS])
    before = contents(store.root)
    for arguments in (["--dry-run"], ["--dry-run", "--json"]):
        told = turnlog("redact", "--all", *arguments)
        assert told.code == 0
        assert [secret for secret in SECRETS if secret.value in told.out] == []
        for secret in SECRETS:
            assert placeholder_for(secret.kind, secret.value) in told.out
    assert contents(store.root) == before


def test_a_dry_run_shows_what_surrounds_each_value(path: Path, turnlog: Run) -> None:
    command = {"command": f"curl -u ada:{TOKEN} https://example.com"}
    lines = [user(f"Push with {TOKEN} 日本語"), assistant(call("Bash", command))]
    write(path, session(*lines))
    shown = turnlog("redact", SESSION, "--dry-run").out.splitlines()
    assert shown == [
        f"projects/{path.parent.name}/{path.name}",
        "  line  value                  length  key      context (▒ is the value)",
        f"     1  {HIDDEN}      40  content  Push with ▒ 日本語",
        f"     2  {HIDDEN}      40  command  curl -u ada:▒ https://example…",
        "1 secret (1 kind) in 1 file would be replaced",
    ]
    found = json.loads(turnlog("redact", SESSION, "--dry-run", "--json").out)["matches"]
    assert [(each["line"], each["key"], each["before"]) for each in found] == [
        (1, "content", "Push with "),
        (2, "command", "curl -u ada:"),
    ]


def test_context_never_shows_another_secret(path: Path, turnlog: Run) -> None:
    write(path, session(user(f"one {TOKEN} two DB_PASSWORD={PASSWORD} three")))
    for options in ([], ["--json"]):
        shown = turnlog("redact", SESSION, "--dry-run", *options).out
        assert TOKEN[4:] not in shown
        assert PASSWORD not in shown


def test_json_counts_by_kind_and_file(path: Path, store: Store, turnlog: Run) -> None:
    done = json.loads(turnlog("redact", "--all", "--also", r"\bis\b", "--json").out)
    redacted = placeholder_for("redacted", "is")
    assert done["secrets"] == 2
    assert done["kinds"] == {"github-token": {"transcript": 1}, "redacted": {"transcript": 1}}
    assert done["files"] == [{"path": str(path), "kinds": {"redacted": 1, "github-token": 1}}]
    assert [find["placeholder"] for find in done["finds"]] == [redacted, HIDDEN]
    assert (done["left"], done["skipped"], len(done["changes"]), done["done"]) == ([], [], 1, True)


def test_a_session_in_use_is_refused(path: Path, turnlog: Run) -> None:
    os.utime(path)
    before = path.read_bytes()
    refused = turnlog("redact", SESSION)
    assert (refused.code, refused.out, refused.err.count("\n")) == (1, "", 1)
    assert path.read_bytes() == before


def test_with_all_a_session_in_use_is_skipped_and_only_the_others_count(
    path: Path, turnlog: Run
) -> None:
    other = write(path.with_name("other.jsonl"), session(user(f"it is {TOKEN}")))
    os.utime(path)
    done = turnlog("redact", "--all")
    assert done.code == 1
    first, *rest = done.out.splitlines()
    assert first == (
        "1 secret (1 kind) in 1 file replaced; rescanned: none left in these, 1 session skipped"
    )
    why = f"{path} was written to a moment ago, perhaps by a client that is running"
    assert f"skipped: {why}: 1 secret (1 kind) in 1 file not replaced" in rest
    assert (TOKEN in path.read_text(), TOKEN in other.read_text()) == (True, False)


def test_with_all_nothing_is_claimed_where_all_sessions_are_in_use(
    path: Path, turnlog: Run
) -> None:
    os.utime(path)
    done = turnlog("redact", "--all")
    assert (done.code, done.out.startswith("0 secrets (0 kinds) in 0 files replaced;")) == (1, True)
    told = json.loads(turnlog("redact", "--all", "--json").out)
    assert (told["secrets"], told["finds"], told["changes"]) == (0, [], [])
    assert [len(each["finds"]) for each in told["skipped"]] == [1]


@pytest.mark.parametrize(
    "split",
    ["{0}\x1b[0m\x1b[31m{1}", "{0}\u200b{1}", "{0}\u2060\u200d{1}", "{0}\x1b[K{1}", "xx{0}{1}"],
)
def test_a_split_or_glued_token_is_replaced(path: Path, turnlog: Run, split: str) -> None:
    write(path, session(user("it is " + split.format(TOKEN[:12], TOKEN[12:]))))
    done = turnlog("redact", SESSION)
    assert (done.code, "none left" in done.out) == (0, True)
    assert TOKEN[14:] not in path.read_text()
    assert HIDDEN in path.read_text()


def test_a_secret_that_only_a_directory_holds_is_not_said_to_be_gone(
    path: Path, turnlog: Run
) -> None:
    write(path, session(user("hello", cwd=f"/home/ada/{TOKEN}")))
    done = turnlog("redact", SESSION)
    assert done.code == 1
    assert f"left: {HIDDEN} in projects/-home-ada-shop/{path.name}:1\n" in done.out


def test_a_secret_in_the_name_of_a_project_is_told(path: Path, turnlog: Run) -> None:
    folder = path.parent.rename(path.parent.with_name(f"-home-{TOKEN}"))
    done = turnlog("redact", SESSION)
    assert done.code == 1
    assert f"left: {HIDDEN} in the name of projects/-home-{HIDDEN}/{path.name}\n" in done.out
    assert TOKEN not in (folder / path.name).read_text()


@pytest.mark.parametrize(
    "given",
    [
        {"api_key": "hunter2-hunter2"},
        {"env": [{"name": "DB_PASSWORD", "value": "hunter2-hunter2"}]},
        {"args": ["--token", "hunter2hunter2Zq9"]},
        {"body": '{"client_secret": "hunter2-hunter2"}'},
    ],
)
def test_what_a_name_tells_in_the_input_of_a_tool_is_replaced(
    path: Path, turnlog: Run, given: dict[str, object]
) -> None:
    write(path, session(user("go"), assistant(call("mcp__x__y", given)), result("toolu_1")))
    done = turnlog("redact", SESSION)
    assert (done.code, "hunter2" in path.read_text()) == (0, False)


def test_what_cannot_be_redacted_is_told(path: Path, store: Store, turnlog: Run) -> None:
    write(store.root / "uploads" / SESSION / "a.bin", b"\0" + TOKEN.encode("utf-16-le"))
    done = turnlog("redact", SESSION)
    assert done.code == 1
    assert f"left: {HIDDEN} in uploads/{SESSION}/a.bin, which is not text" in done.out


def test_a_secret_in_what_a_session_hangs_on_is_told(path: Path, turnlog: Run) -> None:
    write(path, session(user(f"it is {TOKEN}", cwd=f"/home/ada/{TOKEN}")))
    done = turnlog("redact", SESSION)
    assert (done.code, done.out.splitlines()[0][-6:]) == (1, "1 left")
    assert f"left: {HIDDEN} in projects/-home-ada-shop/{path.name}:1\n" in done.out


def test_task_outputs_are_redacted(
    path: Path, store: Store, turnlog: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = store.root / f"claude-{os.getuid()}" / "-home-ada-shop" / SESSION / "tasks"
    monkeypatch.setattr("tempfile.tempdir", str(store.root))
    output = write(folder / "b1.output", TOKEN.encode())
    for name in (SESSION, "--all"):
        write(output, TOKEN.encode())
        turnlog("redact", name)
        assert output.read_text() == HIDDEN


def test_fields_that_stay_are_told(path: Path, turnlog: Run) -> None:
    done = turnlog("redact", SESSION, "--also", "/home/ada", "--also", "it")
    assert "not replaced, as the session depends on them: cwd 1\n" in done.out
    assert done.code == 0


def test_earlier_changes_are_named(path: Path, turnlog: Run, journal: Journal) -> None:
    turnlog("redact", SESSION)
    first = journal.records()[0].id
    turnlog("undo")
    os.utime(path, (0, 0))
    done = turnlog("redact", SESSION)
    assert f"Earlier changes keep copies of the same files: turnlog forget {first}\n" in done.out


@pytest.mark.parametrize("arguments", [[], ["--all", "last"], ["last", "--also", "("]])
def test_a_wrong_command_line_is_told(path: Path, turnlog: Run, arguments: list[str]) -> None:
    assert turnlog("redact", *arguments).code == 2


# Forgetting


@pytest.fixture
def change(path: Path, turnlog: Run, journal: Journal) -> str:
    turnlog("redact", SESSION)
    return journal.records()[0].id


def test_a_change_that_is_forgotten_cannot_be_undone(
    change: str, store: Store, turnlog: Run
) -> None:
    done = turnlog("forget", change, "--yes")
    assert (done.code, done.out.startswith("Forgot 1 change, ")) == (0, True)
    assert TOKEN.encode() not in b"".join(contents(store.root).values())
    assert turnlog("undo").code == 1
    assert turnlog("history").out == ""


def test_what_an_undo_brought_back_frees_nothing_when_forgotten(
    change: str, path: Path, turnlog: Run
) -> None:
    turnlog("undo", change)
    before = path.read_bytes()
    size = len((path.parent.parent.parent / f"turnlog/journal/{change}/record.json").read_bytes())
    assert turnlog("forget", "--all", "--yes").out == f"Forgot 1 change, {size} B freed\n"
    assert path.read_bytes() == before


def test_only_older_changes_are_forgotten(change: str, turnlog: Run, journal: Journal) -> None:
    record = journal.records()[0]
    assert turnlog("forget", "--older-than", "1", "--yes").out == "nothing to forget\n"
    record.time = (datetime.now(UTC) - timedelta(days=2)).isoformat()
    journal.finish(record)
    assert turnlog("forget", "--older-than", "1", "--yes").code == 0
    assert journal.records() == []


def test_an_interrupted_change_is_not_forgotten(
    change: str, turnlog: Run, journal: Journal
) -> None:
    record = journal.records()[0]
    record.is_done = False
    journal._save(record)
    refused = turnlog("forget", change, "--yes")
    assert (refused.code, f"turnlog undo {change}" in refused.err) == (1, True)
    assert turnlog("forget", "--all", "--yes").out == "nothing to forget\n"
    assert journal.records() == [record]


def test_on_a_terminal_forget_asks(
    change: str, turnlog: Run, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, follower = os.openpty()
    with os.fdopen(follower) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        os.write(leader, b"n\n")
        assert turnlog("forget", change).code == 130
        assert len(journal.records()) == 1
        os.write(leader, b"y\n")
        assert turnlog("forget", change).code == 0
    os.close(leader)
    assert journal.records() == []


@pytest.mark.parametrize("arguments", [[], ["--all", "x"], ["--all", "--older-than", "1"]])
def test_forget_needs_to_know_what(path: Path, turnlog: Run, arguments: list[str]) -> None:
    assert turnlog("forget", *arguments).code == 2


def test_an_unknown_or_unclear_change_is_told(change: str, path: Path, turnlog: Run) -> None:
    assert turnlog("forget", "nosuch").code == 1
    turnlog("undo")
    os.utime(path, (0, 0))
    turnlog("redact", SESSION)
    unclear = turnlog("forget", "20")
    assert (unclear.code, unclear.err.count(SESSION)) == (1, 2)
