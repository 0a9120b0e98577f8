"""Rules with invalid patterns are named at the start, and affect no other rule."""

import json
from pathlib import Path

import pytest

from support.chat_process import ChatProcess
from support.scripted_api import called, said, scripted_api
from turnlog.agent.config.settings import load
from turnlog.agent.permissions import ApprovalMode, is_readable, parse_rule
from turnlog.errors import UsageError
from turnlog.store.paths import Store

INVALID, IDLE = "is not a valid pattern", "has no effect"


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("Read([z-a])", INVALID),
        ("Edit(src/x[b-a]y)", INVALID),
        ("Read(//etc/[^z-a])", INVALID),
        ("Write(~/[a-\\\\])", INVALID),
        ("Edit(x\\)", INVALID),
        ("Read(~/**/[)", IDLE),
        ("Read([])", IDLE),
        ("Read(!x)", IDLE),
    ],
)
def test_a_rule_with_a_senseless_pattern_is_refused(rule: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_rule(rule, Path("/work"), "settings.json")


@pytest.mark.parametrize(
    "rule",
    ["Read([a-z]*)", "Read(\\[z-a])", "Edit(a!b)", "Read([!a])", "Bash([z-a])", "Read(\\!x)"],
)
def test_other_rules_are_taken(rule: str) -> None:
    assert parse_rule(rule, Path("/work"), "settings.json").text == rule


@pytest.mark.parametrize(("pattern", "name"), [("[A-_]x", "Bx"), ("[A-_]x", "_x"), ("[Z-a]", "a")])
def test_a_range_that_is_none_in_lower_case_still_denies(
    store: Store, tmp_path: Path, pattern: str, name: str
) -> None:
    path = tmp_path / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"permissions": {"deny": [f"Read({pattern})"]}}))
    policy = load(store, tmp_path).policy(ApprovalMode.DEFAULT, tmp_path)
    assert not is_readable(tmp_path / name, policy)
    assert is_readable(tmp_path / "other", policy)


def test_one_bad_rule_keeps_no_file_from_being_read(tmp_path: Path) -> None:
    read, hidden = (("t1", "Read", {"file_path": "a.txt"}), ("t2", "Read", {"file_path": ".env"}))
    with scripted_api(called(read, hidden), said("Done.")) as api:
        chat = ChatProcess(tmp_path, api.url)
        path = chat.work / ".claude" / "settings.json"
        path.parent.mkdir()
        path.write_text(json.dumps({"permissions": {"deny": ["Read([z-a])", "Read(.env)"]}}))
        (chat.work / "a.txt").write_text("CONTENT")
        (chat.work / ".env").write_text("SECRET")
        told = chat.run("-p", "hello")
    results = json.dumps(api.requests[-1].body["messages"][-1])
    assert ("CONTENT" in results, "SECRET" in results) == (True, False)
    assert f"{path}: 'Read([z-a])' is not a valid pattern: bad character range" in told.err
    assert "so it does NOT deny any call" in told.err


def test_bad_rules_of_the_command_line_are_named(tmp_path: Path) -> None:
    with scripted_api(said("Done.")) as api:
        chat = ChatProcess(tmp_path, api.url)
        told = chat.run(
            "-p", "hello", "--disallowed-tools", "Grep(.env)", "--allowedTools", "Glob(x)"
        )
    assert told.err.splitlines() == [
        "turnlog: the command line: 'Glob(x)' has no effect; it is skipped",
        "turnlog: the command line: 'Grep(.env)' has no effect; it is skipped,"
        " so it does NOT deny any call",
    ]
