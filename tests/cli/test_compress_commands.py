"""Sessions compressed from the command line, with and without a model."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.conftest import Run
from support.build import SESSION, assistant, call, nth, result, session, text, user
from support.scripted_api import ScriptedApi, refused, said, scripted_api, text_of
from turnlog.conversation.session import open_session

CONTENT = session(
    user("fix the shop"),
    assistant(text("It is mended.")),
    user("now the window"),
    assistant(text("Done.")),
)


@pytest.fixture
def path(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session that no client has touched lately, in a home without keys."""
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(project.parent.parent))
    monkeypatch.setenv("TURNLOG_HOME", str(project.parent.parent / "turnlog"))
    path = project / f"{SESSION}.jsonl"
    path.write_bytes(CONTENT)
    os.utime(path, (0, 0))
    return path


@pytest.fixture
def api(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    with scripted_api(said("The shop is mended.")) as running:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "not-a-key")
        yield running


def first_text(path: Path) -> str:
    return open_session(path).context()[0]["content"][0]["text"]


def test_edit_compresses_in_place_and_undo_brings_all_back(path: Path, turnlog: Run) -> None:
    done = turnlog("edit", SESSION, "--compress", "--keep-last", "1")
    assert done.code == 0
    assert "add            3" in done.out
    assert "4 → 5 entries" in done.out
    assert "USER: fix the shop" in first_text(path)
    assert "transcript" not in first_text(path)
    again = turnlog("edit", SESSION, "--compress", "--keep-last", "1")
    assert again.out.startswith("Nothing to change")
    assert turnlog("undo").code == 0
    assert path.read_bytes() == CONTENT


def test_a_compressed_clone_names_the_file_of_its_source(path: Path, turnlog: Run) -> None:
    made = json.loads(turnlog("clone", SESSION, "--compress", "--json").out)
    assert first_text(Path(made["path"])).endswith(f"read the full transcript at: {path}")
    assert path.read_bytes() == CONTENT


def test_the_tokens_of_the_context_are_told_before_and_after(path: Path, turnlog: Run) -> None:
    answer = assistant(text("a long answer. " * 2000))
    path.write_bytes(session(user("fix the shop"), answer, user("now the window"), answer))
    told = turnlog("clone", SESSION, "--compress", "--keep-last", "1", "--dry-run", "--json")
    effect = json.loads(told.out)["effect"]
    assert 14_500 < effect["context_before"] < 15_500
    assert 7_200 < effect["context_after"] < 8_200
    shown = turnlog("clone", SESSION, "--compress", "--keep-last", "1")
    counts = f"{effect['context_before']:,} → {effect['context_after']:,}"
    assert f"  context: about {counts} tokens\n" in shown.out


def test_the_context_of_another_branch_is_counted_after(path: Path, turnlog: Run) -> None:
    path.write_bytes(
        session(
            user("start"),
            user("short", parent=nth(1)),
            assistant(text("long. " * 2000)),
            user("other", parent=nth(1)),
            assistant(text("brief")),
        )
    )
    made = turnlog("clone", SESSION, "--branch", nth(3), "--json", "--dry-run")
    effect = json.loads(made.out)["effect"]
    assert effect["context_before"] < 50
    assert effect["context_after"] > 2900


@pytest.mark.parametrize("more", [(), ("--stub-results",), ("--dry-run",)])
def test_a_clone_that_nothing_would_be_compressed_in_is_not_made(
    path: Path, turnlog: Run, more: tuple[str, ...]
) -> None:
    refusal = turnlog("clone", SESSION, "--compress", "--keep-last", "2", *more)
    assert (refusal.code, refusal.out) == (1, "")
    assert refusal.err == (
        f"turnlog: nothing to compress in {SESSION}: --keep-last 2 keeps all of its 2 turns "
        f"(try: turnlog clone {SESSION})\n"
    )
    assert list(path.parent.iterdir()) == [path]


def test_straightening_for_an_old_client_is_no_reason_to_copy_what_is_not_compressed(
    path: Path, turnlog: Run
) -> None:
    calls = [call("Bash", {"command": name}, name) for name in "AB"]
    lines = (
        user("two at once"),
        *(assistant(each, message_id="m1", version="2.1.45") for each in calls),
        result("A", parent=nth(2), version="2.1.45"),
        result("B", parent=nth(3), version="2.1.45"),
        assistant(text("done"), version="2.1.45"),
    )
    path.write_bytes(session(*lines))
    assert "straightened" in turnlog("clone", SESSION, "--dry-run").out
    refusal = turnlog("clone", SESSION, "--compress", "--keep-last", "5")
    assert (refusal.code, refusal.out) == (1, "")
    assert "--keep-last 5 keeps its only turn" in refusal.err


def test_a_model_writes_the_summary(path: Path, turnlog: Run, api: ScriptedApi) -> None:
    assert turnlog("edit", SESSION, "--compress", "--with-model", "--keep-last", "1").code == 0
    assert "Summary:\nThe shop is mended." in first_text(path)
    (request,) = api.requests
    assert request.body["model"] == "claude-haiku-5-5"
    assert "USER: fix the shop" in text_of(request)
    assert "now the window" not in text_of(request)


def test_the_model_can_be_named(path: Path, turnlog: Run, api: ScriptedApi) -> None:
    assert turnlog("clone", SESSION, "--compress", "--with-model", "claude-opus-5-5").code == 0
    assert [request.body["model"] for request in api.requests] == ["claude-opus-5-5"]


def test_a_dry_run_asks_no_model(path: Path, turnlog: Run, api: ScriptedApi) -> None:
    for command in ("edit", "clone"):
        told = turnlog(command, SESSION, "--compress", "--with-model", "--dry-run")
        assert "4 → 3 entries" in told.out
    assert api.requests == []


def test_without_a_key_one_line_says_so_and_nothing_changes(path: Path, turnlog: Run) -> None:
    refusal = turnlog("edit", SESSION, "--compress", "--with-model")
    assert (refusal.code, refusal.out) == (1, "")
    assert refusal.err == (
        "turnlog: no key for the Messages API (try: export ANTHROPIC_API_KEY=KEY)\n"
    )
    assert path.read_bytes() == CONTENT


def test_what_the_api_refuses_changes_nothing(path: Path, turnlog: Run, api: ScriptedApi) -> None:
    api.replies[:] = [refused(401, "invalid x-api-key")]
    refusal = turnlog("clone", SESSION, "--compress", "--with-model")
    assert refusal.code == 1
    assert "invalid x-api-key (status 401, request req_1)" in refusal.err
    assert list(path.parent.iterdir()) == [path]


def test_a_session_in_use_is_refused_before_a_model_is_asked(
    path: Path, turnlog: Run, api: ScriptedApi
) -> None:
    os.utime(path)
    assert turnlog("edit", SESSION, "--compress", "--with-model").code == 1
    assert api.requests == []


def test_a_model_without_anything_to_compress_is_a_wrong_command_line(
    path: Path, turnlog: Run
) -> None:
    assert turnlog("edit", SESSION, "--with-model").code == 2
