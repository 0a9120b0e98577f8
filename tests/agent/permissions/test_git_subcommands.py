"""A word in place of a git subcommand hides nothing, whoever defines it as an alias."""

from pathlib import Path

import pytest

from agent.permissions.scratch_repository import Repository
from turnlog.agent.permissions import VerdictKind

DENIED = "Edit(b.txt)"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    (tmp_path / ".gitconfig").write_text(
        "[alias]\nco = checkout\nc = co -q\nst = status -s\nlg = log --format='%h %s'\n"
        "x = !sh\nloop = loop\np = push\nbad = log 'x\nswap = -c a.b=c checkout\n"
    )
    return Repository(tmp_path / "shop")


@pytest.mark.parametrize(
    "command",
    [
        *("git co hooked", "git c hooked", "git x", "git loop", "git bad", "git swap hooked"),
        *("git chekcout hooked", "git -c alias.d=checkout d hooked", "git CO hooked"),
        *("git --config-env=alias.d=HOME d hooked", "git -c alias.st=checkout st hooked"),
        *("git -c core.sparseCheckout=true checkout plain", "git --unknown x"),
        *("git co plain && git co main", "unset GIT_DIR; git checkout plain"),
    ],
)
def test_words_that_may_be_another_subcommand_ask(command: str, repository: Repository) -> None:
    assert repository.verdict(command, allow="git unset") is VerdictKind.ASK
    assert repository.verdict(command, DENIED, is_bypass=True) is VerdictKind.ASK


@pytest.mark.parametrize(
    "command",
    [
        *("git co plain", "git st", "git lg", "git c -b new", "git -c user.name=x commit -m x"),
        *("git -c core.editor=true rebase plain", "git -c color.ui=never log", "git --no-pager st"),
    ],
)
def test_plain_aliases_and_settings_need_no_question(command: str, repository: Repository) -> None:
    assert repository.verdict(command) is VerdictKind.ALLOW


def test_rules_see_what_an_alias_stands_for(repository: Repository) -> None:
    for is_bypass in (False, True):
        for command in ("git p origin main", "git -P p"):
            verdict = repository.verdict(command, "Bash(git push:*)", is_bypass=is_bypass)
            assert verdict is VerdictKind.ASK


def test_a_program_of_git_runs_unless_files_are_denied(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert repository.verdict("git flow init") is VerdictKind.ASK
    program = tmp_path / "git-flow"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert repository.verdict("git flow init") is VerdictKind.ALLOW
    assert repository.verdict("git flow init", DENIED) is VerdictKind.ASK
