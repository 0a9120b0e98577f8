"""A rule for `git add` does not cover files that a Read rule denies, however they get in."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agent.permissions.scratch_repository import Repository
from turnlog.agent.permissions import VerdictKind

DENIED = "Read(secret)"
PROGRAMS = "git cp mv rm sed bash eval env npm cd"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    found = Repository(tmp_path / "shop")
    found.commit(".gitignore", "secret\n")
    found.write("secret", "KEY")
    return found


def verdicts(repository: Repository, command: str) -> set[VerdictKind]:
    """Return the verdicts with a rule that denies reading `secret`, in two modes."""
    allowed = repository.verdict(command, DENIED, allow=PROGRAMS)
    return {allowed, repository.verdict(command, DENIED, is_bypass=True)}


@pytest.mark.parametrize(
    "command",
    [
        *("git checkout -q plain && git add -A", "git rm -q .gitignore && git add ."),
        *("git mv .gitignore x; git add -A", "git reset -q plain; git commit -am x"),
        *("rm .gitignore && git add -A", "cp a.txt .gitignore && git add -A"),
        *("npm run build && git add -A", "git add -A | rm .gitignore", "mv a.txt b && git add ."),
        *("git config core.excludesFile x && git add -A", "rm .gitignore; git commit -m x ."),
        *('bash -c "git add -A"', "eval git add -A", "env -C . git add -A", "git add -f ."),
        *("GIT_DIR=.git git add -A", "git -C none add -A", "git --work-tree=. add -A"),
    ],
)
def test_what_git_adds_is_known_before_it_runs(command: str, repository: Repository) -> None:
    assert verdicts(repository, command) == {VerdictKind.ASK}


@pytest.mark.parametrize(
    "command",
    [
        *("git add -A", "git add . && git commit -m x", "git checkout -b new && git add -A"),
        *("git add -A && git commit -qm x && git add -A", "git add a.txt", "git commit -am x"),
        *("git fetch && git add -A", "git tag v1 && git commit --amend --no-edit"),
    ],
)
def test_ignored_files_are_no_reason_to_ask(command: str, repository: Repository) -> None:
    assert verdicts(repository, command) == {VerdictKind.ALLOW}


def test_a_file_that_git_add_names_is_added_behind_a_change(repository: Repository) -> None:
    for command in ("sed -i s/1/2/ a.txt && git add a.txt", "npm run build; git add -- a.txt"):
        assert repository.verdict(command, "Read(other)", allow=PROGRAMS) is VerdictKind.ALLOW


def test_without_read_rules_files_are_added_behind_a_change(repository: Repository) -> None:
    for denied in ((), ("Edit(secret)",)):
        command = "git checkout plain && git add -A"
        assert repository.verdict(command, *denied, allow=PROGRAMS) is VerdictKind.ALLOW


def test_a_directory_without_a_repository_is_searched() -> None:
    # `make test` keeps temporary files below turnlog's own checkout, which is a repository.
    with TemporaryDirectory(dir="/tmp") as place:
        repository = Repository(Path(place, "shop"))
        (repository.top / ".git").rename(Path(place, "moved"))
        commands = ("git init && git add -A && git commit -m init", "git init; git add -f .")
        for command in commands:
            assert verdicts(repository, command) == {VerdictKind.ALLOW}
        repository.write("secret", "KEY")
        for command in commands:
            assert verdicts(repository, command) == {VerdictKind.ASK}


def test_a_repository_inside_of_another_one_ignores_other_files(repository: Repository) -> None:
    repository.write("sub/secret", "KEY")
    command = "cd sub && git init && git add -A"
    assert verdicts(repository, command) == {VerdictKind.ASK}


def test_new_content_of_a_tracked_file_that_is_denied_asks(repository: Repository) -> None:
    repository.git("add", "-f", "secret")
    repository.git("commit", "-qm", "x")
    commands = ("git commit -am x", "git commit -m x .", "git commit --amend -a", "git add -u")
    for command in commands[:2]:
        assert verdicts(repository, command) == {VerdictKind.ALLOW}
    repository.write("secret", "NEW")
    for command in commands:
        assert verdicts(repository, command) == {VerdictKind.ASK}
    assert verdicts(repository, "git commit -m x") == {VerdictKind.ALLOW}
