"""git in commands that run unprompted: no repository can make it run a program."""

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from support.tool_calls import Calls
from turnlog.agent.workspace.access import Basis
from turnlog.agent.workspace.tool import Grant

UNDERSTOOD = Grant(Basis.UNDERSTOOD)
SIGNED = """tree {tree}
author a <a@b> 1700000000 +0000
committer a <a@b> 1700000000 +0000
gpgsig -----BEGIN {kind} SIGNATURE-----
 \x20
 iQ==
 -----END {kind} SIGNATURE-----

signed
"""


class Repository:
    """A repository in the working directory, with a program that leaves a mark when it runs."""

    def __init__(self, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = calls.root
        self.mark = calls.root.parent / "canary-ran"
        self.canary = calls.root.parent / "canary"
        self.canary.write_text(f"#!/bin/sh\necho x >> {shlex.quote(str(self.mark))}\n")
        self.canary.chmod(0o755)
        # git has a home of its own here, so that no setting of this machine counts.
        monkeypatch.setenv("HOME", str(calls.root.parent))
        self.git("init", "-q", "-b", "main")
        self.write("file.txt", "one\n")
        self.git("add", ".")
        self.git("commit", "-qm", "first")

    def git(self, *arguments: str, cwd: Path | None = None, given: str = "") -> str:
        names = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
        argv = ["git", *names, *arguments]
        place = cwd or self.root
        done = subprocess.run(
            argv, cwd=place, check=True, capture_output=True, text=True, input=given
        )
        return done.stdout.strip()

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def set(self, name: str, value: object | None = None, cwd: Path | None = None) -> None:
        self.git("config", name, str(value or self.canary), cwd=cwd)

    def change(self, attributes: str = "") -> None:
        """Change a tracked file, so that git has to look at its content."""
        if attributes:
            self.write(".gitattributes", f"*.txt {attributes}\n")
        self.write("file.txt", "two\n")

    def sign(self, kind: str) -> None:
        text = SIGNED.format(tree=self.git("write-tree"), kind=kind)
        name = self.git("hash-object", "-t", "commit", "-w", "--stdin", "--literally", given=text)
        self.git("update-ref", "HEAD", name)


def plant_fsmonitor(repo: Repository) -> None:
    repo.set("core.fsmonitor")


def plant_hook(repo: Repository) -> None:
    hook = repo.root / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(repo.canary.read_text())
    hook.chmod(0o755)
    repo.git("config", "core.untrackedCache", "true")
    (repo.root / "file.txt").touch()


def plant_hooks_path(repo: Repository) -> None:
    plant_hook(repo)
    (repo.root / ".git" / "hooks").rename(repo.root / "own-hooks")
    repo.set("core.hooksPath", "own-hooks")


def plant_external_diff(repo: Repository) -> None:
    repo.set("diff.external")
    repo.change()


def plant_diff_driver(repo: Repository) -> None:
    repo.set("diff.Own.Driver.command")
    repo.change("diff=Own.Driver")


def plant_text_conversion(repo: Repository) -> None:
    repo.set("diff.own.textconv")
    repo.change("diff=own")


def plant_clean_filter(repo: Repository) -> None:
    repo.set("filter.own.clean")
    repo.set("filter.own.required", "true")
    repo.change("filter=own")


def plant_filter_process(repo: Repository) -> None:
    repo.set("filter.own.process")
    repo.change("filter=own")


def plant_filter_in_info(repo: Repository) -> None:
    repo.set("filter.own.clean")
    repo.write(".git/info/attributes", "* filter=own\n")
    repo.change()


def plant_included_filter(repo: Repository) -> None:
    repo.write("shared.config", f'[filter "own"]\n\tclean = {repo.canary}\n')
    repo.set("includeIf.onbranch:main.path", "../shared.config")
    repo.change("filter=own")


def plant_worktree_setting(repo: Repository) -> None:
    repo.set("extensions.worktreeConfig", "true")
    repo.git("config", "--worktree", "filter.own.clean", str(repo.canary))
    repo.change("filter=own")


def plant_signature(repo: Repository) -> None:
    repo.sign("PGP")
    repo.set("gpg.program")


def plant_ssh_signature(repo: Repository) -> None:
    repo.sign("SSH")
    repo.set("gpg.ssh.program")
    repo.set("gpg.ssh.allowedSignersFile", "/dev/null")
    repo.set("log.showSignature", "true")


def plant_merge_driver(repo: Repository) -> None:
    repo.write(".gitattributes", "*.txt merge=own\n")
    repo.set("merge.own.driver")
    repo.git("checkout", "-qb", "side")
    repo.write("file.txt", "side\n")
    repo.git("commit", "-qam", "side")
    repo.git("checkout", "-q", "main")
    repo.write("file.txt", "main\n")
    repo.git("add", ".")
    repo.git("commit", "-qm", "main")
    repo.git("merge", "-q", "-s", "ours", "side", "-m", "merged")
    repo.mark.unlink(missing_ok=True)


def plant_alias(repo: Repository) -> None:
    repo.set("alias.look", f"!{repo.canary}")


def plant_bare_repository(repo: Repository) -> None:
    repo.git("init", "-q", "--bare", "fix")
    repo.set("core.bare", "false", cwd=repo.root / "fix")
    repo.set("core.worktree", str(repo.root), cwd=repo.root / "fix")
    repo.set("core.fsmonitor", cwd=repo.root / "fix")


def _plant_submodule(repo: Repository) -> None:
    repo.git("clone", "-q", ".", "../other")
    repo.git("submodule", "--quiet", "add", "../other", "sub")
    repo.git("commit", "-qm", "submodule")
    inner = repo.root / "sub"
    repo.set("core.fsmonitor", cwd=inner)
    (inner / "file.txt").write_text("changed\n")


def plant_submodule(repo: Repository) -> None:
    _plant_submodule(repo)
    repo.git("config", "-f", ".gitmodules", "submodule.sub.ignore", "none")


def plant_submodule_of_the_index(repo: Repository) -> None:
    plant_submodule(repo)
    repo.git("add", ".gitmodules")
    repo.git("commit", "-qm", "ignore none")
    repo.mark.unlink(missing_ok=True)
    (repo.root / ".gitmodules").unlink()


def plant_submodule_diff(repo: Repository) -> None:
    plant_submodule(repo)
    repo.set("diff.submodule", "diff")


def plant_promisor(repo: Repository) -> None:
    repo.write("late.txt", "late\n")
    repo.git("add", ".")
    repo.git("commit", "-qm", "late")
    name = repo.git("rev-parse", "HEAD:late.txt")
    (repo.root / ".git" / "objects" / name[:2] / name[2:]).unlink()
    repo.set("core.repositoryFormatVersion", "1")
    repo.set("extensions.partialClone", "origin")
    repo.set("remote.origin.promisor", "true")
    repo.set("remote.origin.url", f"ext::{repo.canary}")
    repo.set("protocol.ext.allow", "always")


def plant_ssh_command(repo: Repository) -> None:
    repo.set("core.sshCommand")
    repo.set("remote.origin.url", "ssh://host.invalid/x")


def plant_upload_pack(repo: Repository) -> None:
    repo.set("remote.origin.uploadpack")
    repo.set("remote.origin.url", f"file://{repo.root}")


def plant_credential_helper(repo: Repository) -> None:
    repo.set("credential.helper", f"!{repo.canary}")


class Planted(NamedTuple):
    """A way to name a program, and the command that would run it."""

    plant: Callable[[Repository], None]
    command: str


PLANTED = [
    Planted(plant_fsmonitor, "git status"),
    Planted(plant_fsmonitor, "git diff --stat"),
    Planted(plant_hook, "git status"),
    Planted(plant_hooks_path, "git status"),
    Planted(plant_external_diff, "git diff"),
    Planted(plant_diff_driver, "git diff"),
    Planted(plant_text_conversion, "git diff"),
    Planted(plant_text_conversion, "git log -p"),
    Planted(plant_text_conversion, "git blame file.txt"),
    Planted(plant_clean_filter, "git status"),
    Planted(plant_clean_filter, "git diff"),
    Planted(plant_clean_filter, "g'i't status"),
    Planted(plant_clean_filter, "g\\it status"),
    Planted(plant_clean_filter, "$'\\x67it' status"),
    Planted(plant_filter_process, "git status"),
    Planted(plant_filter_in_info, "git diff"),
    Planted(plant_included_filter, "git status"),
    Planted(plant_worktree_setting, "git status"),
    Planted(plant_signature, "git log --show-signature"),
    Planted(plant_signature, "git log --format=%G?"),
    Planted(plant_ssh_signature, "git log"),
    Planted(plant_merge_driver, "git show --remerge-diff"),
    Planted(plant_alias, "git look"),
    Planted(plant_bare_repository, "cd fix && git status"),
    Planted(plant_submodule, "git status"),
    Planted(plant_submodule, "git diff"),
    Planted(plant_submodule_of_the_index, "git status"),
    Planted(plant_submodule_diff, "git diff"),
    Planted(plant_promisor, "git log -p"),
    Planted(plant_ssh_command, "git ls-remote origin"),
    Planted(plant_upload_pack, "git ls-remote origin"),
    Planted(plant_credential_helper, "echo url=https://host.invalid | git credential fill"),
]


@pytest.fixture
def repo(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> Repository:
    # Without a sandbox: the canary must not run at all, not only be confined.
    calls.workspace.confinement = replace(calls.workspace.confinement, program="/not/there")
    return Repository(calls, monkeypatch)


@pytest.mark.parametrize(
    "planted", PLANTED, ids=lambda each: f"{each.plant.__name__[6:]}: {each.command}"
)
def test_a_program_that_a_repository_names_does_not_run_unprompted(
    calls: Calls, repo: Repository, planted: Planted
) -> None:
    planted.plant(repo)
    calls.run_by(UNDERSTOOD, "Bash", command=planted.command)
    assert not repo.mark.exists()
    calls.workspace.cwd = calls.root
    # The trap works: the same command runs the program where a person confirmed it.
    calls.run("Bash", command=planted.command)
    assert repo.mark.exists()


def test_a_diff_stays_a_diff_where_programs_for_it_are_left_out(
    calls: Calls, repo: Repository
) -> None:
    for plant in (plant_external_diff, plant_diff_driver, plant_clean_filter):
        plant(repo)
    printed = str(calls.run_by(UNDERSTOOD, "Bash", command="git diff -- file.txt").content)
    assert "--- a/file.txt" in printed
    assert "-one\n+two" in printed


def test_git_does_not_read_files_of_a_work_tree_elsewhere(calls: Calls, repo: Repository) -> None:
    other = repo.root.parent / "elsewhere"
    other.mkdir()
    (other / "file.txt").write_text("SECRET\n")
    repo.set("core.worktree", other)
    assert "SECRET" in str(calls.run("Bash", command="git diff").content)
    assert "SECRET" not in str(calls.run_by(UNDERSTOOD, "Bash", command="git diff").content)


def test_commands_that_a_rule_allows_run_the_repositorys_hooks(
    calls: Calls, repo: Repository
) -> None:
    hook = repo.root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(repo.canary.read_text())
    hook.chmod(0o755)
    repo.change()
    command = "git -c user.name=a -c user.email=a@b commit -qam second"
    calls.run_by(Grant(Basis.RULE), "Bash", command=command)
    assert repo.mark.exists()


def test_a_merge_that_a_rule_allows_follows_no_renamed_directories(
    calls: Calls, repo: Repository
) -> None:
    asked = "git config merge.directoryRenames; git config am.threeWay; git config commit.verbose"
    shown = calls.run_by(Grant(Basis.RULE), "Bash", command=asked).content
    assert str(shown).split() == ["false", "false", "0"]
