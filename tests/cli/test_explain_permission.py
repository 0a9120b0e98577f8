"""`turnlog chat --explain-permission`: the parts of a command, the rule and the verdict."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run


@pytest.fixture(autouse=True)
def shop(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    # Not below the user's configuration, which is protected.
    folder = tmp_path_factory.mktemp("shop")
    (folder / "docs").mkdir(parents=True)
    for name in ("a.md", "b.md"):
        (folder / "docs" / name).write_text("text\n")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    return folder


def explain(turnlog: Run, *arguments: str) -> Any:
    outcome = turnlog("chat", "--json", *arguments)
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def test_a_command_is_split_into_the_parts_that_rules_are_compared_with(turnlog: Run) -> None:
    found = explain(turnlog, "--explain-permission", "timeout 5 head docs/*.md | wc -l && npm test")
    assert found["parts"] == ["timeout 5 head docs/*.md", "wc -l", "npm test"]


def test_the_rule_that_decides_is_named(turnlog: Run) -> None:
    found = explain(
        turnlog, "--allowed-tools", "Bash(npm test:*)", "--explain-permission", "npm test"
    )
    assert found["verdict"] == "allow"
    assert found["reason"] == "Bash(npm test:*) allows it"
    denied = explain(
        turnlog, "--disallowed-tools", "Bash(rm:*)", "--explain-permission", "sudo rm x"
    )
    assert (denied["verdict"], denied["reason"]) == ("deny", "Bash(rm:*) denies it")


def test_the_settings_and_the_mode_count(turnlog: Run, shop: Path, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"permissions": {"deny": ["Read(docs/**)"]}}')
    found = explain(turnlog, "--explain-permission", "cat docs/a.md")
    assert found["denied_files"] == ["Read(docs/**)"]
    edits = ("--permission-mode", "acceptEdits", "--explain-permission", "touch new")
    assert explain(turnlog, *edits)["verdict"] == "allow"


def test_untrusted_and_invalid_rules_are_named(turnlog: Run, shop: Path) -> None:
    (shop / ".claude").mkdir()
    settings = shop / ".claude" / "settings.json"
    settings.write_text('{"permissions": {"allow": ["Bash(npm test)"]}}')
    outcome = turnlog("chat", "--explain-permission", "npm test", "--allowed-tools", "Read()")
    assert "rule" not in outcome.out
    assert f"{settings} (permissions.allow) (try: --trust)" in outcome.err
    assert "'Read()' is not a permission rule" in outcome.err
    trusted = turnlog("chat", "--trust", "--explain-permission", "npm test")
    assert "Bash(npm test)" in trusted.out
    assert trusted.err == ""


def test_hidden_characters_are_shown_escaped(turnlog: Run) -> None:
    outcome = turnlog("chat", "--explain-permission", "ls \r; touch \u202epwned")
    assert outcome.code == 0
    assert "\r" not in outcome.out
    assert "\u202e" not in outcome.out
    assert "unclear: it has hidden characters" in outcome.out
    assert "ls <CR>; touch <U+202E>pwned" in outcome.out


def test_json_alone_is_refused_with_the_option_that_prints_it(turnlog: Run) -> None:
    outcome = turnlog("chat", "--json", "-p", "hi")
    assert outcome.code == 2
    assert "--json needs --explain-permission (try: --output-format json)" in outcome.err
