"""Worktrees of a repository, compared with what git itself says."""

import os
import subprocess
from pathlib import Path

import pytest

from turnlog.picker.session_source import scopes_of
from turnlog.store.worktrees import repository_name, worktrees_of


def git(folder: Path, *words: str) -> str:
    names = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
    environment = {**os.environ, **dict.fromkeys(names, "ada")}
    done = subprocess.run(
        ["git", *words], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def listed(folder: Path) -> set[Path]:
    lines = git(folder, "worktree", "list", "--porcelain").splitlines()
    return {Path(line.removeprefix("worktree ")) for line in lines if line.startswith("worktree ")}


def test_all_worktrees_are_found_from_each_of_them(tmp_path: Path) -> None:
    main = tmp_path / "main"
    main.mkdir()
    git(main, "init", "-q")
    git(main, "commit", "-q", "--allow-empty", "-m", "first")
    git(main, "worktree", "add", "-q", "-b", "fix", str(tmp_path / "fix it"))
    git(main, "worktree", "add", "-q", str(tmp_path / "other"))
    below = main / "src"
    below.mkdir()
    for folder in (main, below, tmp_path / "fix it", tmp_path / "other"):
        assert set(worktrees_of(folder)) == listed(folder), folder
    assert worktrees_of(below)[0] == main
    assert [scope.directories for scope in scopes_of(below)] == [
        (str(below),),
        tuple(map(str, worktrees_of(below))),
        None,
    ]


def test_a_scope_is_named_after_its_repository(tmp_path: Path) -> None:
    main = tmp_path / "main"
    below = main / "src"
    below.mkdir(parents=True)
    git(main, "init", "-q")
    assert [scope.name for scope in scopes_of(main)] == ["main", "all projects"]
    assert [scope.name for scope in scopes_of(below)] == ["src", "repository", "all projects"]
    git(main, "commit", "-q", "--allow-empty", "-m", "first")
    git(main, "worktree", "add", "-q", str(tmp_path / "other"))
    for folder in (main, below, tmp_path / "other"):
        assert scopes_of(folder)[1].name == "main: 2 worktrees"


@pytest.mark.parametrize("place", ["shop.git", "shop/.bare"])
def test_a_bare_repository_gives_its_name_to_all_worktrees(place: str, tmp_path: Path) -> None:
    bare = tmp_path / place
    bare.mkdir(parents=True)
    git(bare, "init", "-q", "--bare")
    tree = git(bare, "hash-object", "-t", "tree", "-w", "/dev/null").strip()
    first = git(bare, "commit-tree", tree, "-m", "first").strip()
    for name in ("fix", "zeal"):
        git(bare, "worktree", "add", "-q", "-b", name, str(tmp_path / name), first)
    assert scopes_of(tmp_path / "fix")[1].name == "shop: 2 worktrees"


def test_outside_of_a_repository_there_are_none() -> None:
    # The temporary directories of tests may be in a repository.
    assert worktrees_of(Path("/")) == []
    assert repository_name(Path("/")) == ""
    assert len(scopes_of(Path("/"))) == 2


def test_broken_links_are_ignored(tmp_path: Path) -> None:
    for content in ("", "gitdir: /nowhere/.git/worktrees/x", "nonsense", "gitdir: \0"):
        (tmp_path / ".git").write_text(content)
        assert worktrees_of(tmp_path) == [tmp_path]
