"""A repository that leads elsewhere, or shows what a rule hides, is not looked at unprompted."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.capabilities import without_privileges
from turnlog.agent.permissions import (
    ApprovalMode,
    Policy,
    VerdictKind,
    decide,
    is_readable,
    parse_rule,
)
from turnlog.agent.workspace.access import Reads, Runs, Writes

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A repository with one commit."""
    return make_repository(tmp_path / "work")


def make_repository(place: Path) -> Path:
    place.mkdir(parents=True)
    (place / "README.md").write_text("hello\n")
    run(place, "init", "-q", "-b", "main", ".")
    run(place, "add", ".")
    run(place, "commit", "-q", "-m", "first")
    return place


def run(place: Path, *arguments: str) -> None:
    subprocess.run([*GIT, *arguments], cwd=place, check=True, capture_output=True)


def kind_of(command: str, place: Path, *deny: str) -> VerdictKind:
    rules = tuple(parse_rule(text, place, "settings.json") for text in deny)
    policy = Policy(rules, (), (), ApprovalMode.DEFAULT, place, (place,))
    return decide("Bash", [Runs(command)], policy).kind


@pytest.mark.parametrize("command", ["git status", "git log --oneline", "git diff", "git show"])
def test_an_ordinary_repository_is_looked_at(work: Path, command: str) -> None:
    assert kind_of(command, work) is VerdictKind.ALLOW


@pytest.mark.parametrize(
    "name",
    [
        "info/grafts",
        "shallow",
        "rebase-merge/git-rebase-todo",
        "worktrees/x/locked",
        "worktrees/x/gitdir",
        "refs/heads/token",
        "refs/heads/hooks",
        "logs/refs/heads/x",
        "objects/ab/cdef",
        "FETCH_HEAD",
        "MERGE_MSG",
    ],
)
def test_a_link_anywhere_in_the_git_directory_asks(work: Path, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "secret.txt"
    outside.write_text("canary\n")
    link = work / ".git" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside)
    assert kind_of("git log --oneline", work) is VerdictKind.ASK
    assert kind_of("git status", work) is VerdictKind.ASK


def test_linked_packs_of_another_repository_ask(work: Path, tmp_path: Path) -> None:
    other = make_repository(tmp_path / "other")
    pack = work / ".git" / "objects" / "pack"
    pack.rmdir()
    pack.symlink_to(other / ".git" / "objects" / "pack")
    assert kind_of("git show", work) is VerdictKind.ASK


def test_linked_hooks_do_not_ask(work: Path, tmp_path: Path) -> None:
    for path in (work / ".git" / "hooks").iterdir():
        path.unlink()
    (work / ".git" / "hooks").rmdir()
    (tmp_path / "hooks").mkdir()
    (work / ".git" / "hooks").symlink_to(tmp_path / "hooks")
    assert kind_of("git status", work) is VerdictKind.ALLOW


def test_a_linked_work_tree_is_looked_at(work: Path, tmp_path: Path) -> None:
    run(work, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert kind_of("git log", tmp_path / "tree") is VerdictKind.ALLOW


def foreign_common(project: Path, private: Path) -> None:
    """A work tree that the project made up, with another repository behind it."""
    made = project / "g" / "wt"
    made.mkdir(parents=True)
    (project / ".git").write_text("gitdir: g/wt\n")
    (made / "HEAD").write_text("ref: refs/heads/main\n")
    (made / "commondir").write_text(f"../../../{private.name}/.git\n")
    (made / "gitdir").write_text("../../.git\n")


def foreign_worktrees(project: Path, private: Path) -> None:
    """The same below a directory that is called `worktrees`."""
    made = project / "worktrees" / "wt"
    made.mkdir(parents=True)
    (project / ".git").write_text("gitdir: worktrees/wt\n")
    (made / "HEAD").write_text("ref: refs/heads/main\n")
    (made / "commondir").write_text(f"{private}/.git\n")
    (made / "gitdir").write_text("../../.git\n")


@pytest.mark.parametrize("pose", [foreign_common, foreign_worktrees])
def test_a_made_up_work_tree_of_another_repository_asks(
    tmp_path: Path, pose: Callable[[Path, Path], None]
) -> None:
    private = make_repository(tmp_path / "private")
    project = tmp_path / "project"
    project.mkdir()
    pose(project, private)
    assert kind_of("git log -p", project) is VerdictKind.ASK
    assert kind_of("git status", project) is VerdictKind.ASK


@pytest.mark.parametrize(
    "command",
    [
        "git log -p --follow -- .env.example",
        "git log -p -- old",
        "git diff HEAD -- README.md",
        "git diff --cached -- README.md",
        "git grep -- KEY",
        "git grep -e KEY -- README.md",
        "git stash show -p -- 0",
        "git show HEAD -- README.md",
        "git blame README.md",
        "git log --oneline -G '^KEY=a'",
        "git log -SKEY=a",
        "git diff --stat -GKEY",
        "git rev-list -p HEAD",
    ],
)
def test_git_shows_no_content_while_a_rule_hides_a_file(work: Path, command: str) -> None:
    for name in ("old", "KEY", "0", ".env.example"):
        (work / name).touch()
    assert kind_of(command, work, "Read(.env)") is VerdictKind.ASK


@pytest.mark.parametrize("command", ["git status", "git log --oneline", "git diff --stat"])
def test_git_shows_names_while_a_rule_hides_a_file(work: Path, command: str) -> None:
    assert kind_of(command, work, "Read(.env)") is VerdictKind.ALLOW


@pytest.mark.parametrize("name", ["objects", "refs"])
def test_a_repository_that_git_skips_asks(work: Path, name: str) -> None:
    """Git would take the work tree for a bare repository, with the `config` that lies there."""
    allow = (parse_rule("Bash(git add *)", work, "settings.json"),)
    policy = Policy((), (), allow, ApprovalMode.DEFAULT, work, (work,))
    assert decide("Bash", [Runs("git add x")], policy).kind is VerdictKind.ALLOW
    shutil.rmtree(work / ".git" / name)
    (work / ".git" / name).mkdir(mode=0o444)
    verdict = without_privileges(lambda: decide("Bash", [Runs("git add x")], policy))
    assert verdict.kind is VerdictKind.ASK


@pytest.mark.parametrize(
    "command",
    [
        *("git status -v -v", "git status -svv", "git status --verbose", "git -C . status -vv"),
        *("git commit -a --dry-run -v", "git commit --dry-run --verb", "git commit -p"),
        *("git -c commit.verbose=true commit --dry-run", "git add -p", "git add -i", "git add -e"),
        *("git commit -am x --dry-run", "git commit -m x --long", "git commit", "git commit -a"),
        *("git commit --amend", "git commit -em x", "git commit --reedit-message=HEAD"),
        *("git cherry-pick -e topic", "git cherry-pick --edit topic", "git revert -xe HEAD"),
        "git commit -a --trailer -mx",
        *("git checkout -p HEAD", "git reset --patch", "git restore -p ."),
        *("git reflog -p", "git fast-export HEAD", "git bundle create - HEAD", "git notes show"),
        *("git rebase --show-current-patch", "git for-each-ref '--format=%(raw)'", "git my-alias"),
    ],
)
def test_a_rule_for_git_shows_no_content_while_a_rule_hides_a_file(
    work: Path, command: str
) -> None:
    assert kind_under_rules(command, work) is VerdictKind.ASK


@pytest.mark.parametrize(
    "command",
    [
        *("git commit -m 'improve'", "git commit -am improve", "git commit -mimprove -s"),
        *("git commit --amend --no-edit", "git commit -C HEAD", "git commit --fixup=HEAD -q"),
        *("git commit -F msg", "git commit --date=x -m y", "git revert --no-edit HEAD"),
        *("git cherry-pick -x topic", "git cherry-pick -Xpatience topic"),
        *("git add -A", "git add -v .", "git checkout -b topic-p", "git reset --hard HEAD"),
        *("git push -v", "git fetch -p", "git switch -c pv", "git -C . pull", "git lfs pull"),
        *("git -c user.name=x commit -m y", "git rebase main", "git merge topic", "git tag v1"),
        *("git restore --staged .", "git rm x", "git status -sb"),
        "git clone https://example.org/a b",
    ],
)
def test_a_rule_for_git_is_about_its_everyday_uses_while_a_rule_hides_a_file(
    work: Path, command: str
) -> None:
    assert kind_under_rules(command, work) is VerdictKind.ALLOW


@pytest.mark.parametrize(
    "command",
    [
        *("git rm -r docs", "git rm -rq --cached docs", "git mv docs old", "git clean -fdx"),
        *("git clean -fd docs", "git checkout HEAD~1 -- docs", "git checkout .", "git restore ."),
        *("git rm -r 'docs/*'", "git rm -r :/", "git rm ':(glob)**/k*'", "git -C docs rm -r ."),
        *("timeout 5 git rm -r docs", "git rm -r ./docs/../docs", "git restore --staged -W ."),
        *("git clean -fd -e x", "git clean -fde x", "git clean -fd --excl x"),
        *("git rm -r --pathspec-from-file=x", "git checkout --pathspec-fr x"),
    ],
)
@pytest.mark.parametrize("rule", ["Edit(/docs/keep.md)", "Read(./docs/keep.md)"])
def test_git_changes_no_directory_with_a_file_that_a_rule_is_about(
    work: Path, command: str, rule: str
) -> None:
    (work / "docs").mkdir()
    (work / "docs" / "keep.md").write_text("keep\n")
    assert kind_under_rules(command, work, rule) is VerdictKind.ASK


@pytest.mark.parametrize(
    "command",
    [
        *("git rm -r src", "git mv src lib", "git mv a.txt docs", "git checkout main"),
        *("git checkout -b docs-1", "git restore --staged .", "git restore README.md"),
        *("git commit -m clean docs", "git add docs", "git clean -n src"),
    ],
)
def test_git_changes_other_directories_beside_a_rule(work: Path, command: str) -> None:
    for name in ("docs", "src"):
        (work / name).mkdir()
    (work / "docs" / "keep.md").write_text("keep\n")
    assert kind_under_rules(command, work, "Edit(/docs/keep.md)") is VerdictKind.ALLOW


@pytest.mark.parametrize(
    "name",
    ["COMMIT_EDITMSG", "rebase-apply/0001", "rebase-merge/patch", "worktrees/x/ADD_EDIT.patch"],
)
def test_a_patch_in_the_git_directory_is_not_shown_while_a_rule_hides_its_file(
    work: Path, name: str
) -> None:
    file = work / ".git" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("x\n# ---- >8 ----\ndiff --git a/.env b/.env\n+KEY=1\n")
    policy = Policy(
        (parse_rule("Read(./.env)", work, "settings.json"),),
        *((), (), ApprovalMode.DEFAULT, work, (work,)),
    )
    for command in (f"cat .git/{name}", "grep -r KEY .git"):
        assert kind_of(command, work, "Read(./.env)") is VerdictKind.ASK
        assert kind_of(command, work, "Read(./.secret)") is VerdictKind.ALLOW
    assert decide("Read", [Reads(file)], policy).kind is VerdictKind.ASK
    assert not is_readable(file, policy)
    file.write_text("ignore .env\n")
    assert is_readable(file, policy)
    file.write_text("x" * (1 << 21))
    assert not is_readable(file, policy)


def kind_under_rules(command: str, place: Path, denied: str = "Read(./.env)") -> VerdictKind:
    deny, allow = ((parse_rule(text, place, "settings.json"),) for text in (denied, "Bash(git *)"))
    policy = Policy(deny, (), allow, ApprovalMode.DEFAULT, place, (place,))
    return decide("Bash", [Runs(command)], policy).kind


def edit_of(command: str, place: Path) -> VerdictKind:
    policy = Policy((), (), (), ApprovalMode.ACCEPT_EDITS, place, (place,))
    return decide("Bash", [Runs(command)], policy).kind


@pytest.mark.parametrize("command", ["cp e {}/hooks/pre-commit", "cp e {}/config", "mv d {}"])
@pytest.mark.parametrize("is_link", [False, True])
def test_a_git_directory_is_protected_whatever_its_name_is(
    command: str, is_link: bool, work: Path
) -> None:
    (work / "d").mkdir()
    (work / "e").write_text("")
    (work / ".git").rename(work / ".bare")
    if is_link:
        (work / ".git").symlink_to(".bare")
    else:
        (work / ".git").write_text("gitdir: ./.bare\n")
    assert edit_of(command.format(".bare"), work) is VerdictKind.ASK
    assert edit_of("cp e f", work) is VerdictKind.ALLOW


def test_the_own_files_of_a_bare_repository_are_protected(tmp_path: Path) -> None:
    run(tmp_path, "init", "-q", "--bare", ".")
    (tmp_path / "e").write_text("")
    for name in ("hooks/pre-receive", "config", "worktrees/x/gitdir"):
        assert edit_of(f"cp e {name}", tmp_path) is VerdictKind.ASK
    assert edit_of("cp e f", tmp_path) is VerdictKind.ALLOW


@pytest.mark.parametrize(
    "command",
    [
        *("cp e vendor/tools/hooks/pre-commit", "mkdir -p vendor/tools/hooks", "mv d vendor/tools"),
        *(
            "echo x > vendor/tools/hooks/pre-commit",
            "cp e link/tools/hooks/x",
            "cp -r d/tools vendor",
        ),
        "cp e vendor/store.git/hooks/pre-receive",
    ],
)
def test_hooks_of_a_nested_repository_are_protected(command: str, work: Path) -> None:
    make_repository(work / "vendor")
    run(work / "vendor", "config", "core.hooksPath", "tools/hooks")
    run(work / "vendor", "init", "-q", "--bare", "store.git")
    (work / "link").symlink_to("vendor")
    (work / "d/tools").mkdir(parents=True)
    (work / "d/tools/hooks").write_text("")
    (work / "e").write_text("")
    assert edit_of(command, work) is VerdictKind.ASK
    policy = Policy((), (), (), ApprovalMode.ACCEPT_EDITS, work, (work,))
    hook = work / "vendor/tools/hooks/pre-commit"
    assert decide("Write", [Writes(hook)], policy).kind is VerdictKind.ASK


@pytest.mark.parametrize(
    "command", ["cp e vendor/", "cp e vendor/x", "mkdir -p vendor/src", "rm -r d", "cp e tools"]
)
def test_other_files_of_a_nested_repository_are_ordinary(command: str, work: Path) -> None:
    make_repository(work / "vendor")
    run(work / "vendor", "config", "core.hooksPath", "tools/hooks")
    (work / "d").mkdir()
    (work / "e").write_text("")
    assert edit_of(command, work) is VerdictKind.ALLOW
