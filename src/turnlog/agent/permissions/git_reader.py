"""Ask git about trees and names, to judge a call of git before it runs.

The calls of git here only read the index, objects and settings, and run no program that the
repository configures.
"""

import hashlib
import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from turnlog.agent.permissions.bash import UnknownValue
from turnlog.agent.permissions.file_verdicts import WRITING, restricted_names
from turnlog.agent.permissions.git_repository import Repository, is_nested_git_place
from turnlog.agent.permissions.links import real_path
from turnlog.agent.permissions.path_access import guarded_places, has_protected_part, names_of
from turnlog.agent.permissions.policy import Policy
from turnlog.agent.workspace.shell.command_environment import search_path
from turnlog.agent.workspace.shell.git_environment import guard_git
from turnlog.format.regular_files import read_regular

PATIENCE = 10.0
"""Maximum seconds for one call of git; it usually takes 5 ms."""
CONFIGURING = "HOME XDG_CONFIG_HOME GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_CONFIG_NOSYSTEM".split()
"""Variables that say where git finds settings, for the reader as for the call that is judged."""
PLAIN, EXECUTABLE = "100644", "100755"
"""Modes of regular files."""
LARGEST = 1 << 22
"""Maximum size of a file to hash; a larger one counts as changed."""


class GitReader:
    """Asks git about trees and names, without running programs that the repository configures."""

    def __init__(self, place: Path, repository: Repository) -> None:
        self._place, self._top = place, repository.top
        known = {name: os.environ[name] for name in CONFIGURING if name in os.environ}
        known["PATH"] = search_path([repository.top])
        self._environment = known | guard_git("", place, known)

    def names_from(self, *arguments: str, given: bytes = b"") -> list[str]:
        """Run git with `-z` and return the names that it prints."""
        done = self._run(arguments[0], "-z", *arguments[1:], given=given)
        if done.returncode != 0:
            raise ValueError(arguments[0])
        return [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]

    def tree_of(self, revision: str) -> str:
        """Return the hash of a revision's tree; empty if there is no such revision.

        Raises `UnknownValue` for the tree of a directory, such as `HEAD:config`: its names are
        relative to that directory, so rules do not match them.
        """
        # In two steps: `:/text^{tree}` would look for another text.
        found = self._parse(revision)
        done = self._run("rev-parse", f"{found}^{{commit}}", f"{found}^{{tree}}") if found else None
        if done and done.returncode == 0:
            return done.stdout.decode().split()[-1]
        if found and self._parse(f"{found}^{{tree}}"):
            raise UnknownValue(revision)
        return ""

    def _parse(self, revision: str) -> str:
        done = self._run("rev-parse", "--verify", "--quiet", "--end-of-options", revision)
        return done.stdout.decode().split()[-1] if done.returncode == 0 else ""

    def head_tree(self) -> str:
        """Return the hash of the current commit's tree; empty if there is no commit yet."""
        # Without a commit, `HEAD` may be a tag of that name.
        return self.tree_of(self._branch() or "HEAD")

    def trees_of(self, text: str) -> list[str]:
        """Return the trees of a revision; empty ones if there is none.

        If a branch and a tag share a name, `git checkout` takes the branch, other calls the tag.
        """
        names = [text, f"refs/heads/{text}"]
        if text.startswith("@{-"):  # the name of an earlier branch
            done = self._run("check-ref-format", "--branch", text)
            names = [text, f"refs/heads/{os.fsdecode(done.stdout).strip()}"]
        return list(dict.fromkeys(map(self.tree_of, names)))

    def trees_named(self, text: str) -> list[str]:
        """Return the trees of a revision, or of the remote branches that git may check out."""
        found = self.trees_of(text)
        if any(found):
            return found
        if not text or any(mark in text for mark in "*?[\\"):
            return []
        refs = (f"refs/remotes/**/{text}", *self._tracking(f"refs/heads/{text}"))
        done = self._run("for-each-ref", "--format=%(objectname)", *refs)
        return [self.tree_of(each) for each in done.stdout.decode().split()]

    def is_ambiguous(self, text: str) -> bool:
        """Return whether a branch and another ref of the same name are different commits."""
        found = {self._parse(name) for name in (text, f"refs/heads/{text}")} - {""}
        return len(found) > 1

    def is_elsewhere(self) -> bool:
        """Return whether `core.worktree` makes git change files of another directory."""
        done = self._run("rev-parse", "--show-toplevel")
        return Path(os.fsdecode(done.stdout).rstrip("\n")) != real_path(self._top)

    def pushes_submodules(self) -> bool:
        """Return whether settings make `git push` enter submodules, which have remotes as well."""
        values = self._settings("--get-regexp", r"^(push\.recursesubmodules|submodule\.recurse)$")
        has_modules = (self._top / ".gitmodules").exists()
        return has_modules and not {"no", "check", "false"}.issuperset(values)

    def _branch(self) -> str:
        """Return the full name of the current branch; empty if HEAD is detached."""
        return os.fsdecode(self._run("symbolic-ref", "-q", "HEAD").stdout).strip()

    def has_several_upstreams(self) -> bool:
        """Return whether `git merge` without operands merges more than one branch."""
        key = f"branch.{self._branch().removeprefix('refs/heads/')}.merge"
        return len(self._settings("--get-all", key)) > 1

    def stashes_by_default(self) -> bool:
        """Return whether git stashes changes before a merge or rebase, without an option."""
        pattern = r"^(merge|rebase)\.autostash$"
        return "true" in self._settings("--type=bool", "--get-regexp", pattern)

    def remotes(self) -> frozenset[str]:
        """Return the names of all remotes."""
        return frozenset(os.fsdecode(self._run("remote").stdout).split())

    def addresses(self) -> list[str]:
        """Return the addresses of all remotes, and the remotes or addresses of all branches."""
        urls = self._settings("--get-regexp", r"^remote\..*\.(push)?url$")
        return urls + self._settings(
            "--get-regexp", r"^(branch\..*\.(push)?remote|remote\.pushdefault)$"
        )

    def _settings(self, *arguments: str) -> list[str]:
        """Return the values of settings."""
        done = self._run("config", "-z", *arguments)
        lines = os.fsdecode(done.stdout).split("\0")[:-1]
        return [line.partition("\n")[2] or line for line in lines]

    def _tracking(self, branch: str) -> Iterator[str]:
        """Yield the local refs that refspecs (`refs/heads/*:refs/x/*`) map a remote branch to."""
        done = self._run("config", "-z", "--get-regexp", r"^remote\..*\.fetch$")
        for line in done.stdout.decode().split("\0"):
            source, _, kept = line.partition("\n")[2].removeprefix("+").partition(":")
            start, has_star, end = source.partition("*")
            if source == branch:
                yield kept
            elif has_star and branch.startswith(start) and branch.endswith(end):
                yield kept.replace("*", branch[len(start) : len(branch) - len(end)])

    def differing(self, first: str, second: str, paths: tuple[str, ...]) -> list[str]:
        """Return the names whose content or mode differs between two trees."""
        options = ("-r", "--name-only", "--no-renames", "--no-ext-diff")
        return self.names_from("diff-tree", *options, first, second, "--", *paths)

    def touched(self, *revisions: str) -> list[str]:
        """Return the names that commits change, compared with each of their parents."""
        listed = self._run("rev-list", *revisions, "--")
        if listed.returncode != 0:
            raise ValueError(revisions)
        options = ("-r", "-m", "--root", "--no-commit-id", "--name-only", "--no-renames")
        return self.names_from(
            "diff-tree", "--stdin", *options, "--no-ext-diff", given=listed.stdout
        )

    def uncommitted(self, head: str, policy: Policy) -> list[str]:
        """Return staged files, and modified files that are protected or that a rule restricts."""
        staged = self.names_from("diff-index", "--cached", "--name-only", "--no-renames", head)
        return [*staged, *self._modified(policy)]

    def watched(self, names: Iterable[str], policy: Policy) -> Iterator[str]:
        """Yield the names of files that are protected or that a rule restricts."""
        tops = names_of(self._top)
        starts, single = guarded_places(policy.directories, policy.added_path)
        for name in dict.fromkeys(names):
            path = f"{self._top}/{name}"
            if (
                path.startswith(starts)
                or path in single
                or has_protected_part(Path(name))
                or is_nested_git_place(Path(path), policy.directories)
                or restricted_names(tuple(top / name for top in tops), policy, WRITING, "Edit")
            ):
                yield name

    def _modified(self, policy: Policy) -> Iterator[str]:
        # Hashed here, because git would run filters on the files.
        lines = self.names_from("ls-files", "--stage", "--full-name", ":/")
        staged = {name: about for about, _, name in (line.partition("\t") for line in lines)}
        for name in self.watched(staged, policy):
            mode, digest, _ = staged[name].split()
            if not self._is_same(name, mode, digest):
                yield name

    def added_since(self, tree: str) -> list[str]:
        """Return the names in the index that a tree does not have."""
        options = ("--cached", "--name-only", "--no-renames", "--diff-filter=A", "--no-ext-diff")
        return self.names_from("diff-index", *options, tree)

    def merge_bases(self, revision: str) -> list[str]:
        """Return the commits that HEAD and a revision both started from."""
        done = self._run("merge-base", "--all", "HEAD", "--end-of-options", revision)
        return done.stdout.decode().split()

    def boundaries(self, first: str, last: str) -> list[str]:
        """Return the commits outside of a range that commits in it started from."""
        done = self._run("rev-list", "--boundary", last, f"^{first}", "--")
        listed = done.stdout.decode().split()
        return [text.removeprefix("-") for text in listed if text.startswith("-")]

    def _is_same(self, name: str, mode: str, digest: str) -> bool:
        path = self._top / name
        try:
            content = read_regular(path, LARGEST)
        except OSError:
            return False
        # A hook that was disabled with `chmod -x` would become executable again, and a link with
        # the text of the file as its target would replace the file.
        if mode != (EXECUTABLE if os.access(path, os.X_OK) else PLAIN):
            return False
        blob = b"blob %d\0" % len(content) + content
        return digest in (hashlib.sha1(blob).hexdigest(), hashlib.sha256(blob).hexdigest())

    def _run(self, *arguments: str, given: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            ["git", *arguments],
            cwd=self._place,
            env=self._environment,
            input=given,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
