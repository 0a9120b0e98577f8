"""A rule for git does not cover protected files that another branch, commit or stash brings."""

import subprocess
from pathlib import Path

import pytest

from agent.permissions.scratch_repository import SETTINGS, Repository
from turnlog.agent.permissions import ApprovalMode, Policy, VerdictKind, decide, parse_rule
from turnlog.agent.workspace.access import Runs
from turnlog.agent.workspace.shell.git_environment import steady_git


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return Repository(tmp_path / "shop")


@pytest.mark.parametrize(
    "command",
    [
        *("git checkout hooked", "git checkout -q hooked --", "git switch hooked"),
        *("git checkout -b new hooked", "git switch -c new hooked", "git checkout --detach hooked"),
        *("git reset --hard hooked", "git merge hooked", "git merge -m text hooked"),
        *("git cherry-pick hooked", "git cherry-pick plain..hooked", "git rebase hooked"),
        *("git restore --source=hooked .", "git restore -s hooked .", "git checkout hooked -- ."),
        *("git read-tree -u --reset hooked", "git -C . checkout hooked", "git checkout @{-1}"),
        *("git checkout far", 'git checkout "$x"', "git fetch && git checkout plain"),
        *("git branch -f plain hooked && git checkout plain", "git checkout -"),
        *("git reset --har hooked", "git restore -shooked .", "git restore --sour hooked ."),
        *("git checkout ':/settings'", "git cherry-pick ':/settings'", "git cherry-pick --all"),
        *("git merge FETCH_HEAD", "git checkout main...hooked", "git restore --sou=hooked ."),
        *("git switch --orphan x", "git restore --staged --wor -s hooked .", "git revert hooked"),
        *(
            "echo hooked | git cherry-pick --stdin",
            "git checkout hooke[d]",
            "git checkout -tq hooked",
        ),
        *("git merge -- hooked", "git merge -m -- hooked", "git rebase -- hooked"),
        *("git switch -- hooked", "git cherry-pick -- hooked", "git cherry-pick hooked^!"),
        *("git cherry-pick hooked^-", "git cherry-pick ^main plain"),
        *("git merge-recursive main -- main hooked", "git merge-ort main -- main hooked"),
        *("git merge -s subtree plain", "git cherry-pick -Xsubtree plain", "git cherry-pick --all"),
        *("git checkout --recurse-submodules plain", "git -c Submodule.recurse=1 checkout plain"),
        *("git checkout --rec plain", "git --attr-source x checkout hooked"),
        *("git sparse-checkout set src", "git cherry-pick plain --not main"),
        *("git checkout 'hooked^{/..}'", "git checkout 'hooked@{0..}'", "git merge 'hooked^{/..}'"),
        *("git checkout deep", "git switch near", "git --icase-pathspecs checkout hooked -- X"),
        *("git tag v1 hooked && git checkout v1", "git tag v1 hooked; git merge v1"),
        *("git add -A && git reset --hard", "git commit -m x && git checkout HEAD~2"),
        *("git merge --abort --no-abort", "git cherry-pick plain HEAD..plain"),
        *("git merge -s foo plain", "git rebase --strategy=foo plain", "git merge plain..hooked"),
        *("git merge -Sm hooked", "git cherry-pick -nSX hooked", "git rebase -SX hooked"),
        *("git cherry-pick ':/settings..json'", "git cherry-pick 'hooked^{/.claude..x}'"),
        *("git checkout 'plain@{3.seconds.ago}'", "git reset --hard 'plain@{yesterday}'"),
        *("git stash apply ٣", "git stash apply hooked", "git stash pop 0 1"),
        *("git --shallow-file x checkout hooked", "git --no-replace-objects checkout plain"),
    ],
)
def test_a_branch_with_other_protected_files_asks(command: str, repository: Repository) -> None:
    repository.git("update-ref", "refs/remotes/origin/far", "hooked")
    repository.git("update-ref", "refs/kept/x-deep", "hooked")
    repository.git("update-ref", "refs/kept/other", "hooked")
    repository.git("config", "remote.origin.fetch", "+refs/heads/*:refs/kept/x-*")
    repository.git("config", "--add", "remote.origin.fetch", "refs/heads/near:refs/kept/other")
    assert repository.verdict(command) is VerdictKind.ASK


@pytest.mark.parametrize(
    "command",
    [
        *("git checkout plain", "git switch plain", "git checkout -qb new", "git switch -qc new"),
        *("git checkout -b new plain", "git merge plain", "git reset --hard plain"),
        *("git reset hooked", "git checkout hooked -- b.txt", "git cherry-pick plain"),
        *("git stash", "git stash push -m text", "git stash list", "git checkout ."),
        *("git restore .", "git restore --staged .", "git checkout a.txt", "git rebase plain"),
        *("git commit -m x && git switch -c new", "git checkout plain && git pull"),
        *("git rebase --abort", "git stash -u", "git checkout none", "git rebase main plain"),
        *("git cherry-pick main..plain", "git checkout -q -- a.txt", "git stash -m list"),
        *("git bisect good", "git sparse-checkout list", "git merge -m subtree-fix plain"),
        *("git merge -Xtheirs plain", "git merge -X theirs -s ort plain", "git rebase --skip"),
        *("git --no-pager -P merge plain", "git merge -m -- plain", "git push -u origin plain"),
    ],
)
def test_other_branches_need_no_question(command: str, repository: Repository) -> None:
    repository.write("new.txt", "1")
    assert repository.verdict(command) is VerdictKind.ALLOW


@pytest.mark.parametrize(
    "command",
    [
        *(
            "git stash",
            "git checkout .",
            "git restore .",
            "git reset --hard",
            "git checkout -f plain",
        ),
        *("git checkout -- .", "git stash push -m x", "git checkout-index -f -a"),
        *("git stash -m list", "git stash -q --message show", "git stash -m pop"),
    ],
)
def test_changes_to_protected_files_are_not_lost_unasked(
    command: str, repository: Repository
) -> None:
    repository.git("checkout", "-q", "hooked")
    repository.write("b.txt", "2")
    repository.git("stash")  # `git stash -m pop` does not take it back
    assert repository.verdict(command) is (
        VerdictKind.ASK if command.endswith("plain") else VerdictKind.ALLOW
    )
    repository.write(SETTINGS, '{"permissions": {"deny": ["Read(.env)"]}}')
    assert repository.verdict(command) is VerdictKind.ASK
    repository.git("add", SETTINGS)
    assert repository.verdict(command) is VerdictKind.ASK


@pytest.mark.parametrize("options", [(), ("-u",)])
def test_a_stash_with_protected_files_asks(
    options: tuple[str, ...], repository: Repository
) -> None:
    repository.write(".envrc", "x")
    assert repository.verdict("git stash -u") is VerdictKind.ASK
    assert repository.verdict("git stash -a") is VerdictKind.ASK
    if not options:
        repository.git("add", ".envrc")
    repository.git("stash", *options)
    taking = ("git stash pop", "git stash apply 0", "git stash apply stash@{0}")
    for command in (*taking, "git stash branch new", "git stash branch new 0"):
        assert repository.verdict(command) is VerdictKind.ASK
    assert repository.verdict("git stash drop") is VerdictKind.ALLOW


def test_a_tag_of_the_same_name_hides_no_branch(repository: Repository) -> None:
    repository.git("tag", "hooked", "plain")
    for command in ("git checkout hooked", "git switch hooked", "git rebase main hooked"):
        assert repository.verdict(command) is VerdictKind.ASK


def test_commits_on_the_way_count_as_git_stops_at_conflicts(repository: Repository) -> None:
    repository.git("checkout", "-q", "hooked")
    repository.commit("a.txt", "conflict")
    repository.git("rm", "-q", SETTINGS)
    repository.git("commit", "-qm", "remove")
    repository.commit("c.txt", "1")
    repository.git("checkout", "-q", "main")
    for command in ("cherry-pick main..hooked", "rebase main hooked", "revert main..hooked"):
        assert repository.verdict(f"git {command}") is VerdictKind.ASK
    assert repository.verdict("git merge hooked") is VerdictKind.ALLOW


def test_a_rebase_applies_the_commits_of_its_own_branch_again(repository: Repository) -> None:
    repository.git("checkout", "-q", "hooked")
    repository.git("rm", "-q", SETTINGS)
    repository.git("commit", "-qm", "remove")
    for command in ("git rebase main", "git rebase main hooked", "git rebase --root"):
        assert repository.verdict(command) is VerdictKind.ASK
    assert repository.verdict("git rebase HEAD") is VerdictKind.ALLOW


@pytest.mark.parametrize(
    "options",
    ["-5 --grep=settings", "--max-count=5", "--do-walk", "-n --grep=x -2", "-g", "--since=1970"],
)
@pytest.mark.parametrize("subcommand", ["cherry-pick", "revert"])
def test_options_that_choose_among_commits_ask(
    subcommand: str, options: str, repository: Repository
) -> None:
    assert repository.verdict(f"git {subcommand} {options} plain") is VerdictKind.ASK
    assert repository.verdict(f"git {subcommand} -x --no-edit -m1 plain") is VerdictKind.ALLOW


@pytest.mark.parametrize("command", ["git checkout .", "git restore .", "git checkout-index -fa"])
def test_hooks_in_the_work_tree_are_not_brought_from_the_index(
    command: str, repository: Repository
) -> None:
    repository.git("config", "core.hooksPath", "tools/hooks")
    (repository.top / "tools").mkdir()
    repository.commit("tools/hooks/pre-commit", "1")
    assert repository.verdict(command) is VerdictKind.ALLOW
    repository.git("rm", "-q", "tools/hooks/pre-commit")
    repository.git("commit", "-qm", "remove")
    repository.git("reset", "-q", "HEAD~")
    assert repository.verdict(command) is VerdictKind.ASK


@pytest.mark.parametrize("place", ["home", "included", "same line"])
def test_hooks_are_protected_wherever_git_finds_their_directory(
    place: str, repository: Repository, tmp_path: Path
) -> None:
    repository.git("checkout", "-q", "plain")
    (repository.top / "tools").mkdir()
    repository.commit("tools/hooks/pre-commit", "1")
    repository.git("checkout", "-q", "main")
    assert repository.verdict("git checkout plain") is VerdictKind.ALLOW
    setting = "[core] hooksPath = tools/hooks\n"
    if place == "same line":
        with (repository.top / ".git/config").open("a") as file:
            file.write(setting)
    else:
        (tmp_path / ".gitconfig").write_text("[include]\n\tpath = more\n")
        (tmp_path / (".gitconfig" if place == "home" else "more")).write_text(setting)
    assert repository.verdict("git checkout plain") is VerdictKind.ASK
    assert repository.verdict("curl -o tools/hooks/pre-commit x.org", allow="curl") is (
        VerdictKind.ASK
    )


def test_a_branch_with_several_upstreams_asks(repository: Repository) -> None:
    repository.git("config", "branch.main.remote", ".")
    repository.git("config", "branch.main.merge", "refs/heads/plain")
    for command in ("git merge", "git rebase"):
        assert repository.verdict(command) is VerdictKind.ALLOW
    repository.git("config", "--add", "branch.main.merge", "refs/heads/hooked")
    for command in ("git merge", "git rebase"):
        assert repository.verdict(command) is VerdictKind.ASK


@pytest.mark.parametrize(
    "command",
    [
        *("git checkout {} -- key", "git checkout {} -- '*'", "git restore -s {} -- key"),
        *("git reset {} -- key", "git restore --staged --source={} key", "git reset -q {} key"),
    ],
)
def test_a_directory_of_a_commit_brings_no_denied_file_under_another_name(
    command: str, repository: Repository
) -> None:
    repository.commit("config/key", "secret")
    tree = repository.hash_of("HEAD:config").strip()
    for text in (tree, tree[:10], "HEAD:config"):
        for is_bypass in (False, True):
            verdict = repository.verdict(
                command.format(text), "Read(config/**)", is_bypass=is_bypass
            )
            assert verdict is VerdictKind.ASK
    assert repository.verdict(command.format("HEAD"), "Read(/other/**)") is VerdictKind.ALLOW


def test_a_path_with_the_name_of_a_branch_is_reset(repository: Repository) -> None:
    repository.write("app/.envrc", "1")
    repository.git("add", ".")
    repository.git("commit", "-qm", "app")
    repository.git("branch", "app")
    assert repository.verdict("git checkout HEAD app") is VerdictKind.ALLOW
    repository.write("app/.envrc", "2")
    assert repository.verdict("git checkout HEAD app") is VerdictKind.ASK


@pytest.mark.parametrize(
    "command",
    [
        *("git merge --into-name x plain", "git merge --aut plain", "git merge -F x plain"),
        *("git rebase --au plain", "git rebase --unheard-of plain", "git read-tree -u plain"),
        *("git checkout --pathspec-from-f x", "git checkout-index --prefix=x/ -a"),
        *("git switch --unheard-of plain", "git reset --ke plain", "git restore --sour plain ."),
    ],
)
def test_options_that_are_not_known_ask(command: str, repository: Repository) -> None:
    assert repository.verdict("git merge --no-ff -m text plain") is VerdictKind.ALLOW
    assert repository.verdict(command) is VerdictKind.ASK


@pytest.mark.parametrize(
    "command", ["git merge --squash --autostash plain", "git rebase --autostash x"]
)
def test_changes_that_are_put_away_may_not_come_back(command: str, repository: Repository) -> None:
    repository.write("a.txt", "2")
    assert repository.verdict(command, "Edit(/a.txt)") is VerdictKind.ASK
    assert repository.verdict(command, "Edit(/c.txt)") is VerdictKind.ALLOW


def test_a_value_that_looks_like_an_option_hides_no_branch(repository: Repository) -> None:
    for option in ("--pathspec-from-file", "--conflict"):
        assert repository.verdict(f"git checkout {option} -b hooked") is VerdictKind.ASK


def test_denied_files_stay_as_they_are_if_nothing_else_asks(repository: Repository) -> None:
    for command in ("git checkout plain", "git merge plain", "bash -c 'git checkout plain'"):
        assert repository.verdict(command, "Edit(/b.txt)", is_bypass=True) is VerdictKind.ASK
    for command in ("git checkout plain", "git checkout hooked", "git merge plain", "git reset a"):
        assert repository.verdict(command, "Edit(/c.txt)", is_bypass=True) is VerdictKind.ALLOW
        assert repository.verdict(command, is_bypass=True) is VerdictKind.ALLOW


def test_a_merge_may_be_reverted_to_each_of_its_parents(repository: Repository) -> None:
    repository.commit(SETTINGS, "{}")
    repository.git("checkout", "-q", "-b", "side")
    repository.commit("side.txt", "1")
    repository.git("checkout", "-q", "main")
    repository.commit(SETTINGS, '{"permissions": {}}')
    repository.git("merge", "-q", "--no-ff", "-m", "both", "side")
    assert repository.verdict("git revert -m 2 HEAD") is VerdictKind.ASK


def test_files_that_a_rule_denies_count_as_well(repository: Repository) -> None:
    assert repository.verdict("git checkout plain", "Edit(/b.txt)") is VerdictKind.ASK
    assert repository.verdict("git checkout plain", "Edit(/c.txt)") is VerdictKind.ALLOW


def test_changes_to_denied_files_are_not_lost_unasked(repository: Repository) -> None:
    commands = ("git checkout -f", "git checkout -f main", "git reset --hard", "git stash")
    for command in commands:
        assert repository.verdict(command, "Edit(/a.txt)") is VerdictKind.ALLOW
    repository.write("a.txt", "2")
    for command in commands:
        assert repository.verdict(command, "Edit(/a.txt)") is VerdictKind.ASK
        assert repository.verdict(command, "Edit(/b.txt)") is VerdictKind.ALLOW


def test_a_parent_directory_is_no_range(repository: Repository) -> None:
    repository.git("checkout", "-q", "hooked")
    repository.write("sub/x.txt", "1")
    assert repository.verdict("cd sub && git checkout ..") is VerdictKind.ALLOW
    repository.write(SETTINGS, '{"permissions": {}}')
    assert repository.verdict("cd sub && git checkout ..") is VerdictKind.ASK


def test_a_template_of_the_repository_quotes_no_file_elsewhere(repository: Repository) -> None:
    command = "git commit --no-edit --allow-empty-message"
    (repository.top / "link").symlink_to("/etc/passwd")
    for value in ("/etc/passwd", "../x", "~/x", "link", "%(prefix)/x"):
        repository.git("config", "commit.template", value)
        assert repository.verdict(command) is VerdictKind.ASK
        assert repository.verdict("git add a.txt") is VerdictKind.ALLOW
    repository.git("config", "commit.template", "a.txt")
    assert repository.verdict(command) is VerdictKind.ALLOW
    assert repository.verdict(command, "Read(./a.txt)") is VerdictKind.DENY


def test_git_runs_no_program_of_the_repository(repository: Repository) -> None:
    canary = repository.top.parent / "canary"
    program = repository.top / "run.sh"
    program.write_text(f"#!/bin/sh\ntouch {canary}\ncat\n")
    program.chmod(0o700)
    for key in ("core.fsmonitor", "filter.x.clean", "diff.external", "core.sshCommand"):
        repository.git("config", key, str(program))
    repository.write(".gitattributes", "* filter=x\n")
    repository.write("a.txt", "changed")
    for command in ("git checkout .", "git stash -u", "git checkout hooked"):
        repository.verdict(command)
    assert not canary.exists()


def test_a_file_in_place_of_a_directory_asks(repository: Repository) -> None:
    repository.git("checkout", "-q", "-b", "filed")
    repository.commit("sub", "a file")
    repository.git("checkout", "-q", "main")
    assert repository.verdict("git checkout filed") is VerdictKind.ALLOW
    repository.write("sub/.env", "ignored by git, and gone with the directory")
    assert repository.verdict("git checkout filed") is VerdictKind.ASK


@pytest.mark.parametrize("key", ["pull.twohead", "pull.octopus"])
def test_a_strategy_that_the_repository_names_asks(key: str, repository: Repository) -> None:
    assert repository.verdict("git cherry-pick plain") is VerdictKind.ALLOW
    repository.git("config", key, "x/y")
    assert repository.verdict("git cherry-pick plain") is VerdictKind.ASK


UPSTREAM_OPTIONS = ("", "-m x", "-X theirs", "-Xours", "-s recursive", "--cleanup=strip", "--log")


@pytest.mark.parametrize(
    "command",
    [
        *(f"git merge {options}" for options in UPSTREAM_OPTIONS),
        *("git rebase -X theirs", "git rebase --empty=drop", "git rebase --onto plain"),
    ],
)
def test_the_value_of_an_option_is_no_branch(command: str, repository: Repository) -> None:
    repository.git("config", "branch.main.remote", ".")
    repository.git("config", "branch.main.merge", "refs/heads/hooked")
    assert repository.verdict(command) is VerdictKind.ASK
    repository.git("config", "branch.main.merge", "refs/heads/plain")
    assert repository.verdict(command) is VerdictKind.ALLOW


def test_a_merge_that_follows_a_rename_to_a_protected_file_asks(repository: Repository) -> None:
    repository.commit("s.txt", "one\ntwo\nthree\nfour\n")
    repository.git("checkout", "-q", "-b", "topic")
    repository.commit("s.txt", "one\ntwo\nthree\nevil\n")
    repository.git("checkout", "-q", "main")
    repository.write("s.txt", "one\ntwo\nthree\n4\n")
    repository.git("stash")
    commands = ("merge topic", "cherry-pick topic", "cherry-pick -n topic", "stash apply")
    for command in commands:
        assert repository.verdict(f"git {command}") is VerdictKind.ALLOW
    repository.git("mv", "s.txt", ".envrc")
    # What is staged counts as well: `git stash apply` and `cherry-pick -n` merge with the index.
    assert repository.verdict("git stash apply") is VerdictKind.ASK
    repository.git("commit", "-qm", "rename")
    for command in commands:
        assert repository.verdict(f"git {command}") is VerdictKind.ASK
    for ends in ("main..topic", "..topic", "topic~1..topic"):
        assert repository.verdict(f"git cherry-pick {ends}") is VerdictKind.ASK


def test_a_tag_does_not_hide_the_previous_branch(repository: Repository) -> None:
    repository.git("checkout", "-q", "-b", "topic")
    repository.git("checkout", "-q", "main")
    assert repository.verdict("git checkout -") is VerdictKind.ALLOW
    repository.git("branch", "-f", "topic", "hooked")
    repository.git("tag", "topic", "main")
    for command in ("git checkout -", "git switch -", "git checkout -b new -", "git merge -"):
        assert repository.verdict(command) is VerdictKind.ASK


def test_a_remote_branch_does_not_hide_a_path(repository: Repository) -> None:
    repository.commit("src/.envrc", "1")
    repository.git("update-ref", "refs/remotes/origin/src", "main")
    assert repository.verdict("git checkout src") is VerdictKind.ALLOW
    repository.write("src/.envrc", "2")
    assert repository.verdict("git checkout src") is VerdictKind.ASK


def test_a_hook_that_was_switched_off_stays_off(repository: Repository) -> None:
    repository.write(".husky/pre-commit", "x")
    (repository.top / ".husky/pre-commit").chmod(0o755)
    repository.git("add", ".")
    repository.git("commit", "-qm", "hook")
    assert repository.verdict("git checkout .") is VerdictKind.ALLOW
    (repository.top / ".husky/pre-commit").chmod(0o644)
    assert repository.verdict("git checkout .") is VerdictKind.ASK


def test_settings_that_stash_changes_count(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.git("checkout", "-q", "hooked")
    repository.write(SETTINGS, '{"a": 1}')
    for subcommand in ("merge", "rebase"):
        assert repository.verdict(f"git {subcommand} HEAD") is VerdictKind.ALLOW
        (tmp_path / ".gitconfig").write_text(f"[{subcommand}]\n\tautoStash = yes\n")
        assert repository.verdict(f"git {subcommand} HEAD") is VerdictKind.ASK
        (tmp_path / ".gitconfig").unlink()
    (tmp_path / "own/git").mkdir(parents=True)
    (tmp_path / "own/git/config").write_text("[rebase]\n\tautoStash = true\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    assert repository.verdict("git rebase HEAD") is VerdictKind.ASK
    (repository.top / ".git/MERGE_AUTOSTASH").write_text(repository.hash_of("hooked"))
    assert repository.verdict("git commit -m x") is VerdictKind.ASK


@pytest.mark.parametrize("is_bypass", [False, True])
def test_a_denied_file_is_not_added_unasked(is_bypass: bool, repository: Repository) -> None:
    rule = "Read(./.env)"
    repository.write("new.txt", "1")
    for command in ("git add .", "git add -A", "git add new.txt", "git add -f ."):
        assert repository.verdict(command, rule, is_bypass=is_bypass) is VerdictKind.ALLOW
    repository.write(".env", "KEY=1")
    for command in ("git add .", "git add -A", "git add '*'", "git add -f ."):
        assert repository.verdict(command, rule, is_bypass=is_bypass) is VerdictKind.ASK
    assert repository.verdict("git add new.txt", rule, is_bypass=is_bypass) is VerdictKind.ALLOW
    repository.write(".gitignore", ".env")
    for command in ("git add .", "git add -A"):
        assert repository.verdict(command, rule, is_bypass=is_bypass) is VerdictKind.ALLOW
    assert repository.verdict("git add -f .", rule, is_bypass=is_bypass) is VerdictKind.ASK


def test_a_branch_poses_as_no_stash(repository: Repository) -> None:
    repository.git("branch", "stash", "hooked")
    for command in ("git stash apply stash@{0}", "git stash apply", "git stash pop 0"):
        assert repository.verdict(command) is VerdictKind.ASK


def test_a_merge_asks_if_a_tag_has_the_name_of_the_branch(repository: Repository) -> None:
    for command in ("git rebase main plain", "git merge plain", "git cherry-pick plain"):
        assert repository.verdict(command) is VerdictKind.ALLOW
    repository.git("tag", "plain", "main")
    for command in ("git rebase main plain", "git merge plain", "git cherry-pick plain"):
        assert repository.verdict(command) is VerdictKind.ASK


def test_a_link_does_not_replace_a_file_with_the_same_text(repository: Repository) -> None:
    repository.write(".envrc", "use flake")
    repository.git("add", ".envrc")
    assert repository.verdict("git checkout .envrc") is VerdictKind.ASK
    repository.git("commit", "-qm", "x")
    assert repository.verdict("git checkout .") is VerdictKind.ALLOW
    blob = repository.hash_of("HEAD:.envrc").strip()
    repository.git("update-index", "--cacheinfo", f"120000,{blob},.envrc")
    repository.git("commit", "-qm", "link")
    assert repository.verdict("git checkout .") is VerdictKind.ASK


def test_a_push_that_enters_submodules_asks(repository: Repository) -> None:
    repository.write(".gitmodules", "")
    for command in ("git push origin main", "git push --recurse-submodules=check origin main"):
        assert repository.verdict(command) is VerdictKind.ALLOW
    for option in ("--recurse-submodules=on-demand", "--recurse-submodules", "--rec=only"):
        assert repository.verdict(f"git push {option} origin main") is VerdictKind.ASK
    repository.git("config", "push.recurseSubmodules", "on-demand")
    assert repository.verdict("git push origin main") is VerdictKind.ASK


def test_files_of_another_work_tree_are_not_changed_unasked(repository: Repository) -> None:
    repository.git("init", "-q", "vendor")
    repository.git("-C", "vendor", "commit", "-q", "--allow-empty", "-m", "x")
    commands = ("git -C vendor checkout -f", "git -C vendor reset --hard", "cd vendor && git stash")
    for is_moved in (False, True):
        if is_moved:
            repository.git("-C", "vendor", "config", "core.worktree", "../..")
        for command in commands:
            verdict = repository.verdict(command, "Edit(/docs/**)", is_bypass=True)
            assert (verdict is VerdictKind.ASK) is is_moved


class Conflict:
    """A repository in which an operation has stopped at a conflict."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        repository.git("checkout", "-q", "-b", "topic")
        repository.commit("a.txt", "2")
        repository.git("checkout", "-q", "main")
        repository.commit("a.txt", "3")

    def stop_at(self, *arguments: str) -> None:
        with pytest.raises(subprocess.CalledProcessError):
            self.repository.git(*arguments)


@pytest.mark.parametrize("subcommand", ["merge", "cherry-pick", "revert"])
def test_aborting_asks_if_the_branch_has_moved(subcommand: str, repository: Repository) -> None:
    conflict = Conflict(repository)
    conflict.stop_at(subcommand, "topic" if subcommand != "revert" else "HEAD~1")
    for option in ("--abort", "--continue", "--quit"):
        assert repository.verdict(f"git {subcommand} {option}") is VerdictKind.ALLOW
    repository.git("update-ref", "refs/heads/main", "hooked")
    assert repository.verdict(f"git {subcommand} --abort") is VerdictKind.ASK
    assert repository.verdict(f"git {subcommand} --continue") is VerdictKind.ALLOW
    (repository.top / ".git/sequencer").mkdir()
    assert repository.verdict(f"git {subcommand} --continue") is VerdictKind.ASK


def test_a_rebase_continues_unless_a_commit_changes_protected_files(repository: Repository) -> None:
    conflict = Conflict(repository)
    conflict.stop_at("rebase", "topic")
    todo = repository.top / ".git/rebase-merge/git-rebase-todo"
    for option in ("--continue", "--skip", "--abort"):
        assert repository.verdict(f"git rebase {option}") is VerdictKind.ALLOW
    for line in (f"pick {repository.hash_of('hooked').strip()} x", "exec ./x", "merge -C x y"):
        todo.write_text(f"{line}\n")
        assert repository.verdict("git rebase --continue") is VerdictKind.ASK
    todo.write_text(f"# x\n\npick {repository.hash_of('plain').strip()} x\ndrop abc\n")
    assert repository.verdict("git rebase --continue") is VerdictKind.ALLOW
    (repository.top / ".git/rebase-merge/orig-head").write_text(repository.hash_of("hooked"))
    assert repository.verdict("git rebase --abort") is VerdictKind.ASK


def test_a_rebase_that_ends_with_a_stash_asks(repository: Repository) -> None:
    conflict = Conflict(repository)
    conflict.stop_at("rebase", "topic")
    (repository.top / ".git/rebase-merge/autostash").write_text(repository.hash_of("hooked"))
    for option in ("--continue", "--abort"):
        assert repository.verdict(f"git rebase {option}") is VerdictKind.ASK


def test_a_push_to_a_repository_in_the_project_asks(repository: Repository) -> None:
    repository.git("init", "-q", "--bare", "vendor/evil.git")
    other = repository.top.parent / "elsewhere"
    repository.git("init", "-q", "--bare", str(other))
    for destination in ("./vendor/evil.git", "vendor/evil", ".", f"file://{repository.top}"):
        assert repository.verdict(f"git push {destination} main") is VerdictKind.ASK
        assert repository.verdict(f"git push -o x {destination} main") is VerdictKind.ASK
        assert repository.verdict(f"git push --rep={destination}") is VerdictKind.ASK
    (repository.top / "topic").mkdir()
    for command in (f"git push -q {other} main", "git push -u origin topic", "git push"):
        assert repository.verdict(command) is VerdictKind.ALLOW
    encoded = f"file://{repository.top.parent}/shop%2fvendor/evil.git"
    (repository.top / "file").write_text("gitdir: vendor/evil.git")
    for destination in (encoded, "'~/shop/vendor/evil.git'", "./file"):
        assert repository.verdict(f"git push {destination} main") is VerdictKind.ASK
    repository.git("config", "branch.main.pushRemote", "vendor/evil.git")
    assert repository.verdict("git push") is VerdictKind.ASK
    repository.git("config", "branch.main.pushRemote", ".")
    repository.git("remote", "add", "origin", "vendor/evil.git")
    assert repository.verdict("git push") is VerdictKind.ASK
    repository.git("remote", "set-url", "origin", "https://example.com/x.git")
    assert repository.verdict("git push") is VerdictKind.ALLOW
    repository.git("remote", "set-url", "--push", "origin", str(repository.top / "vendor/evil.git"))
    assert repository.verdict("git push origin main") is VerdictKind.ASK


@pytest.mark.parametrize(
    "command",
    [
        *("git fetch 'ext::sh -c x'", "git pull foo::x main", "git clone ext::x y"),
        *("git archive --remote=vendor main", "git archive --remot vendor main"),
        *("git fetch . x:refs/replace/abc", "git push . a:refs/replace/b"),
        *("git update-ref refs/replace/a b", "git fetch . 'refs/tags/repl*:refs/repl*'"),
    ],
)
def test_addresses_that_run_programs_and_replaced_objects_ask(
    command: str, repository: Repository
) -> None:
    assert repository.verdict(command) is VerdictKind.ASK


def test_an_address_runs_no_denied_program_in_any_mode(repository: Repository) -> None:
    for command in ("git fetch 'ext::curl x'", "git pull ext::curl", "git push ext::curl main"):
        assert repository.verdict(command, "Bash(curl:*)", is_bypass=True) is VerdictKind.ASK
    for command in ("git fetch origin", "git push origin curl"):
        assert repository.verdict(command, "Bash(curl:*)", is_bypass=True) is VerdictKind.ALLOW


def test_replaced_objects_show_no_other_content(repository: Repository) -> None:
    assert steady_git()["GIT_NO_REPLACE_OBJECTS"] == "1"
    repository.git("replace", "plain", "hooked")
    assert repository.verdict("git checkout plain") is VerdictKind.ALLOW


def test_with_file_rules_no_object_replaces_another_in_any_mode(repository: Repository) -> None:
    runs = [Runs("git checkout plain")]
    for text, expected in (("Edit(x)", True), ("Bash(x)", False)):
        rules = (parse_rule(text, repository.top, "test"),)
        folders = (repository.top,)
        policy = Policy(rules, (), (), ApprovalMode.BYPASS, repository.top, folders)
        verdict = decide("Bash", runs, policy)
        assert (verdict.kind, verdict.steadies_git) == (VerdictKind.ALLOW, expected)


@pytest.mark.parametrize(
    "command",
    [
        *("git checkout hooked", "git merge hooked", "git rebase hooked", "git cherry-pick hooked"),
        *("git reset --hard hooked", "git switch -c new hooked"),
    ],
)
def test_a_protected_file_hides_no_denied_one(command: str, repository: Repository) -> None:
    assert repository.verdict(command, "Edit(other)", is_bypass=True) is VerdictKind.ALLOW
    repository.git("checkout", "-q", "hooked")
    repository.commit("z.txt", "1")
    repository.git("checkout", "-q", "main")
    assert repository.verdict(command, "Edit(z.txt)", is_bypass=True) in (
        (VerdictKind.ASK, VerdictKind.DENY) if "pick" not in command else (VerdictKind.ASK,)
    )


@pytest.mark.parametrize(
    "command",
    [
        *(
            "while git checkout -q HEAD~1; do :; done",
            "until git switch --detach -q main; do :; done",
        ),
        *("for i in 1 2; do git reset -q --hard; done", "while git stash pop -q; do :; done"),
        *("git reset --hard; git reset --hard", "git stash pop; timeout 9 git stash pop"),
        "f() { git reset -q --hard; }; f; f",
    ],
)
def test_a_call_that_runs_twice_asks(command: str, repository: Repository) -> None:
    for is_bypass in (False, True):
        verdict = repository.verdict(
            command, "Edit(other)", is_bypass=is_bypass, allow="git timeout f"
        )
        assert verdict is VerdictKind.ASK


def test_a_wrapper_runs_a_call_once(repository: Repository) -> None:
    for command in ("timeout 9 git checkout plain", "git checkout plain | cat"):
        assert repository.verdict(command, "Edit(other)") is VerdictKind.ALLOW


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("core.sparseCheckout", "true"), ("branch.main.mergeOptions", "-X subtree=x")),
        ("pull.twohead", "subtree"),
    ],
)
def test_settings_that_choose_files_are_doubts_in_every_mode(
    key: str, value: str, repository: Repository
) -> None:
    assert repository.verdict("git merge plain", "Edit(x)", is_bypass=True) is VerdictKind.ALLOW
    repository.git("config", key, value)
    assert repository.verdict("git merge plain", "Edit(x)", is_bypass=True) is VerdictKind.ASK


def test_a_repository_that_cannot_be_checked_is_a_doubt_in_every_mode(
    repository: Repository,
) -> None:
    (repository.top / ".git").rename(repository.top / "real")
    repository.write(".git", "gitdir: real\n")
    for command in ("git checkout plain", "git -C none checkout plain"):
        assert repository.verdict(command, "Edit(x)", is_bypass=True) is VerdictKind.ASK
    assert repository.verdict("git fetch", "Edit(x)", is_bypass=True) is VerdictKind.ALLOW


def test_files_that_git_converts_may_change_though_their_content_is_stored(
    repository: Repository,
) -> None:
    assert repository.verdict("git reset --hard", "Edit(a.txt)") is VerdictKind.ALLOW
    for attribute in ("eol=lf", "text=auto", "-filter"):
        repository.write(".git/info/attributes", f"* {attribute}\n")
        assert repository.verdict("git reset --hard", "Edit(a.txt)") is VerdictKind.ALLOW
    for attribute in ("eol=crlf", "working-tree-encoding=UTF-16", "ident", "filter=x"):
        repository.write(".git/info/attributes", f"* {attribute}\n")
        assert repository.verdict("git checkout -f", "Edit(a.txt)") is not VerdictKind.ALLOW
        assert repository.verdict("git checkout -f", "Edit(none)") is VerdictKind.ALLOW
    repository.write(".git/info/attributes", "")
    repository.git("config", "core.autocrlf", "true")
    assert repository.verdict("git checkout -f", "Edit(a.txt)") is not VerdictKind.ALLOW


def test_a_rebase_with_two_states_asks(repository: Repository) -> None:
    repository.git("checkout", "-q", "plain")
    (repository.top / ".git/rebase-merge").mkdir()
    repository.write(".git/rebase-merge/orig-head", repository.hash_of("main"))
    assert repository.verdict("git rebase --abort") is VerdictKind.ALLOW
    (repository.top / ".git/rebase-apply").mkdir()
    assert repository.verdict("git rebase --abort") is VerdictKind.ASK


def test_a_rebase_that_runs_programs_asks(repository: Repository) -> None:
    command = "git rebase -x 'git reset --hard hooked' plain"
    assert repository.verdict(command, "Edit(x)", is_bypass=True) is VerdictKind.ASK


def test_a_stash_of_named_files_needs_no_question(repository: Repository) -> None:
    for command in ("git stash push -m wip -- a.txt", "git stash -- a.txt"):
        assert repository.verdict(command) is VerdictKind.ALLOW
    for command in ("git stash drop", "git stash clear"):
        assert repository.verdict(command, "Read(x)") is VerdictKind.ALLOW


@pytest.mark.parametrize(
    ("setting", "value", "command"),
    [
        ("remote.up.url", "https://example.com/x", "git push origin main"),
        ("remote.up.fetch", "x", "git push up main"),
        ("remote.up.url", "", "git push up main"),
        ("url.up/.insteadOf", "gh:", "git push gh:x main"),
        ("url.up/.pushInsteadOf", "gh:", "git push gh:x main"),
        ("branch.main.remote", "up", "git push"),
    ],
)
def test_a_push_asks_if_an_address_leads_here(
    setting: str, value: str, command: str, repository: Repository
) -> None:
    (repository.top / "up").mkdir()
    if "origin" in command:
        repository.git("config", "remote.origin.url", "up")
    repository.git("config", setting, value)
    assert repository.verdict(command) is VerdictKind.ASK


def test_a_name_of_a_remote_is_no_address(repository: Repository) -> None:
    (repository.top / "up").mkdir()
    repository.git("config", "remote.up.url", "https://example.com/x")
    repository.git("config", "url.git@example.com:.insteadOf", "gh:")
    repository.git("config", "branch.main.remote", "up")
    repository.git("config", "--global", "url.https://example.com/.insteadOf", "ex:")
    repository.git("config", "--unset", "url.git@example.com:.insteadOf")
    for command in ("git push up main", "git push", "git commit -m x && git push -u up main"):
        assert repository.verdict(command) is VerdictKind.ALLOW


def test_a_push_reads_addresses_of_old_versions(repository: Repository) -> None:
    for name in ("remotes", "branches"):
        folder = repository.top / ".git" / name
        folder.mkdir(exist_ok=True)
        assert repository.verdict("git push up main") is VerdictKind.ALLOW
        (folder / "up").write_text("URL: vendor/x\n")
        assert repository.verdict("git push up main") is VerdictKind.ASK
        (folder / "up").unlink()


def test_an_address_starts_at_the_top_of_the_repository(repository: Repository) -> None:
    for name in ("vendor/n/s", "vendor/n/y"):
        (repository.top / name).mkdir(parents=True)
    repository.git("init", "-q", "vendor/n")
    for command in ("cd vendor/n/s && git push y HEAD:z", "git -C vendor/n/s push y HEAD:z"):
        assert repository.verdict(command, allow="git cd") is VerdictKind.ASK


def test_a_push_behind_other_calls_asks_if_they_may_create_the_repository(
    repository: Repository,
) -> None:
    repository.git("config", "remote.origin.url", "https://example.com/x")
    for command in ("git commit -m x && git push", "git checkout -b n && git push -u origin n"):
        assert repository.verdict(command) is VerdictKind.ALLOW
    for command in (
        "git remote set-url origin x && git push",
        "git config remote.origin.url x; git push origin main",
        "git checkout plain && git push bare main",
    ):
        assert repository.verdict(command) is VerdictKind.ASK
