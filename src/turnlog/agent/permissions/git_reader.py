"""Ask git about trees and names, to judge a call of git before it runs.

The calls of git here only read the index, objects and settings, and run no program that the
repository configures.
"""

import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from turnlog.agent.permissions.bash import UnknownValue
from turnlog.agent.permissions.file_verdicts import READING, WRITING, restricted_names
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
CONVERTING = ("eol", "filter", "ident", "working-tree-encoding")
"""Attributes with which git writes another content than it stores."""
UNCONVERTED = frozenset(("unset", "unspecified"))
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

    def is_selective(self) -> bool:
        """Return whether git checks out only some files, and removes others."""
        names = r"^core\.sparsecheckout(cone)?$"
        return "true" in self._settings("--type=bool", "--get-regexp", names)

    def has_merge_options(self) -> bool:
        """Return whether settings add options to merges, such as the strategy `subtree`."""
        names = r"^(branch\..*\.mergeoptions|pull\.(octopus|twohead))$"
        return bool(self._settings("--get-regexp", names))

    def aliases(self, name: str) -> list[str]:
        """Return what the configuration defines an alias as."""
        return self._settings("--get-regexp", rf"^alias\.{re.escape(name.lower())}(\..*)?$")

    def addresses(self) -> dict[str, list[str]]:
        """Return the addresses of all remotes by their names."""
        pairs = self._pairs("--get-regexp", r"^remote\..*\.(push)?url$")
        found: dict[str, list[str]] = {}
        for key, value in pairs:
            name = key.removeprefix("remote.").rpartition(".")[0]
            found.setdefault(name, []).append(value)
        return found

    def branch_remotes(self) -> list[str]:
        """Return the remotes or addresses that branches are pushed to."""
        names = r"^(branch\..*\.(push)?remote|remote\.pushdefault)$"
        return self._settings("--get-regexp", names)

    def address_starts(self) -> list[str]:
        """Return what settings replace the start of addresses with: `url.X.insteadOf` gives X."""
        pairs = self._pairs("--get-regexp", r"^url\..*\.(push)?insteadof$")
        return [key.removeprefix("url.").rpartition(".")[0] for key, _ in pairs]

    def _settings(self, *arguments: str) -> list[str]:
        """Return the values of settings."""
        return [value or key for key, value in self._pairs(*arguments)]

    def _pairs(self, *arguments: str) -> list[tuple[str, str]]:
        """Return settings with their values; with `--get`, the value is in place of the name."""
        done = self._run("config", "-z", *arguments)
        lines = os.fsdecode(done.stdout).split("\0")[:-1]
        return [(key, value) for key, _, value in (line.partition("\n") for line in lines)]

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
        """Return staged files, and modified files that are protected or that a rule restricts.

        A file that is written in another form than it is stored in counts as modified.
        """
        staged = self.names_from("diff-index", "--cached", "--name-only", "--no-renames", head)
        tracked = self._tracked()
        watched = list(self.watched(tracked, policy))
        return [*staged, *self._modified(watched, tracked), *self._converted(watched)]

    def unsaved(self, policy: Policy, *limits: str) -> list[str]:
        """Return the tracked files that differ from the index and that a Read rule restricts."""
        tops, tracked = names_of(self._top), self._tracked(*limits)
        named = (
            name
            for name in tracked
            if restricted_names(tuple(top / name for top in tops), policy, READING)
        )
        return list(self._modified(named, tracked))

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

    def _tracked(self, *limits: str) -> dict[str, str]:
        """Return mode, hash and stage of the tracked files by their names."""
        lines = self.names_from("ls-files", "--stage", "--full-name", "--", *(limits or (":/",)))
        return {name: about for about, _, name in (line.partition("\t") for line in lines)}

    def _modified(self, names: Iterable[str], tracked: Mapping[str, str]) -> Iterator[str]:
        # Hashed here, because git would run filters on the files.
        for name in names:
            mode, digest, _ = tracked[name].split()
            if not self._is_same(name, mode, digest):
                yield name

    def _converted(self, names: list[str]) -> Iterator[str]:
        """Yield the names of files that settings or attributes let git write in another form."""
        endings = r"^core\.(autocrlf|eol)$"
        if not {"true", "crlf"}.isdisjoint(self._settings("--get-regexp", endings)):
            yield from names
            return
        given = b"".join(os.fsencode(name) + b"\0" for name in names)
        # The names are relative to the top.
        arguments = ("-C", str(self._top), "check-attr", "-z", "--stdin", *CONVERTING)
        done = self._run(*arguments, given=given)
        if done.returncode != 0:
            raise ValueError("check-attr")
        fields = [os.fsdecode(field) for field in done.stdout.split(b"\0")]
        for name, attribute, value in zip(fields[::3], fields[1::3], fields[2::3], strict=False):
            if value not in UNCONVERTED and (attribute, value) != ("eol", "lf"):
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
