"""Messages and hints: they name what was asked for, and commands that work."""

import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import LONG_AGO, Run
from support.build import SESSION, assistant, session, text, user
from turnlog.text import short_count


def test_a_clone_with_repair_does_not_complain_about_the_name_it_replaced(
    conversation: Path, turnlog: Run
) -> None:
    odd = conversation.rename(conversation.with_name("notes.jsonl"))
    done = turnlog("clone", str(odd), "--repair")
    assert done.code == 0
    assert "left" not in done.out
    assert json.loads(turnlog("clone", str(odd), "--repair", "--json").out)["left"] == []


def test_the_overview_suggests_a_command_that_lists_all_sessions(
    conversation: Path, turnlog: Run
) -> None:
    for number in range(15):
        conversation.with_name(f"{number}.jsonl").write_bytes(conversation.read_bytes())
    assert "turnlog ls --limit 0" in turnlog().err
    assert turnlog("ls", "--limit", "0").out.count("hello") == 16


@pytest.mark.parametrize("command", ["ls", "inspect", "search hello"])
def test_a_store_without_sessions_hints_at_the_samples(
    project: Path, turnlog: Run, command: str
) -> None:
    done = turnlog(*command.split())
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"turnlog: no sessions in {project.parent} (try: turnlog --samples ")


def test_a_project_that_matches_nothing_is_named(conversation: Path, turnlog: Run) -> None:
    done = turnlog("ls", "--project", "zzz")
    assert done.code == 1
    assert "a project that matches 'zzz'" in done.err
    assert done.err.endswith("(try: turnlog ls)\n")


def test_the_hint_of_a_session_without_calls_is_another_command(
    conversation: Path, turnlog: Run
) -> None:
    told = turnlog("calls", SESSION).err
    assert told == f"turnlog: no calls in {SESSION}.jsonl (try: turnlog show {SESSION})\n"


def test_where_lists_index_journal_and_archive(project: Path, turnlog: Run) -> None:
    places = json.loads(turnlog("where", "--json").out)
    assert {"index", "journal", "archive"} <= places.keys()


def test_messages_without_a_model_have_a_name_in_the_report(
    conversation: Path, turnlog: Run
) -> None:
    odd = assistant(text("hi"), message={"model": ""})
    conversation.write_bytes(session(user("hello"), odd, user("bye")))
    assert "(none)" in turnlog("stats", "model").out


def test_billions_are_written_with_a_b() -> None:
    assert short_count(3_000_000_000) == "3.0B"


def test_a_hint_names_the_directory_that_could_not_be_written(
    conversation: Path, turnlog: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.access("/sys/turnlog", os.F_OK) or not Path("/sys/kernel").is_dir():
        pytest.skip("there is no /sys, which nobody can create directories in")
    monkeypatch.setenv("TURNLOG_HOME", "/sys/turnlog")
    done = turnlog("rename", SESSION, "x")
    assert done.code == 1
    assert done.err.endswith("; nothing was changed (try: ls -ld /sys)\n")


def test_a_change_of_which_nothing_was_made_says_so(conversation: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, resource.RLIM_INFINITY))

    before = conversation.read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", "turnlog", "rename", SESSION, "x"],
        capture_output=True,
        text=True,
        timeout=30,
        preexec_fn=limit,
        check=False,
    )
    assert conversation.read_bytes() == before
    assert "File too large; nothing was changed" in done.stderr
    assert f"df -h {conversation.parent}" in done.stderr


LONG_NAME = "n" * 5000


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", f"/tmp/{LONG_NAME}"),
        ("unbundle", LONG_NAME),
        ("unbundle", f"/tmp/{LONG_NAME}"),
        ("sync-with", f"/tmp/{LONG_NAME}"),
        ("bundle", SESSION, "-o", LONG_NAME),
        ("show", "/proc/self/mem"),
        ("unbundle", "/proc/self/mem"),
        ("unbundle", "a\nb"),
        ("sync-with", "/nonexistent/a\nb"),
        ("--store", "a\nb", "ls"),
    ],
)
def test_names_of_any_kind_yield_one_line_with_a_hint(
    conversation: Path, turnlog: Run, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["turnlog", *arguments])
    done = turnlog(*arguments)
    assert done.code in (1, 2)
    assert done.err.count("\n") == 1
    assert re.fullmatch(r"turnlog: .*\(try: (turnlog|ls|df) .*\)\n", done.err)
    assert len(done.err) < 1000


def test_a_chat_without_a_key_leaves_no_session_behind(project: Path, tmp_path: Path) -> None:
    keys = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    environment = {name: value for name, value in os.environ.items() if name not in keys}
    done = subprocess.run(
        [sys.executable, "-m", "turnlog", "chat", "-p", "hello"],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment | {"HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 1
    assert "no key for the Messages API" in done.stderr
    assert not list((tmp_path / "projects").rglob("*.jsonl"))


def test_cost_fits_80_columns(conversation: Path, turnlog: Run) -> None:
    usage = dict.fromkeys(
        ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
        123_456_789,
    )
    odd = assistant(text("hi"), message={"usage": usage, "model": "claude-" + "long-" * 12})
    conversation.write_bytes(session(user("hello"), odd, user("bye")))
    table = turnlog("cost", SESSION).out.splitlines()[:3]
    assert table[0].split() == [
        "model",
        "input",
        "output",
        "cache",
        "write",
        "cache",
        "read",
        "cost",
    ]
    assert max(map(len, table)) <= 80


def test_check_all_lists_the_worst_first_and_filters(conversation: Path, turnlog: Run) -> None:
    noted = conversation.with_name("notes.jsonl")
    noted.write_bytes(conversation.read_bytes())
    os.utime(conversation, LONG_AGO)
    found = [each["id"] for each in json.loads(turnlog("check", "--all", "--json").out)]
    assert found == ["notes", SESSION]
    fatal = json.loads(turnlog("check", "--all", "--severity", "fatal", "--json").out)
    assert all(one["severity"] == "fatal" for each in fatal for one in each["findings"])
    assert json.loads(turnlog("check", "--all", "--project", "zzz", "--json").out) == []
    assert json.loads(turnlog("check", "--all", "--since", "2027-01-01", "--json").out) == []
    assert turnlog("check", SESSION, "--since", "3d").code == 2


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["stats", "--sort", "cost"], "turnlog stats --order"),
        (["cost", "x", "--sort"], "turnlog cost --help"),
        (["chart"], "turnlog stats"),
        (["ui"], "turnlog web"),
        (["html"], "turnlog export"),
        (["ps"], "turnlog live"),
    ],
)
def test_names_of_other_programs_lead_to_those_of_turnlog(
    turnlog: Run, arguments: list[str], hint: str
) -> None:
    assert turnlog(*arguments).err.endswith(f"(try: {hint})\n")
