"""Settings files that reach a hook from elsewhere than the directory it runs in."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Run
from cli.test_hook_routes import World, world
from support.hook_projects import Project, run_hook, send_from, texts_at, without_senders
from turnlog.trace.settings_folders import LIMIT

__all__ = ["world"]

KEY = "sk-user"
USER = {"LANGFUSE_PUBLIC_KEY": "pk-user", "LANGFUSE_SECRET_KEY": KEY}


def git(folder: Path, *words: str) -> None:
    author = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *author, *words], cwd=folder, check=True, capture_output=True)


def write(folder: Path, name: str, env: dict[str, str], size: int = 0) -> None:
    path = folder / ".claude" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"env": env, "padding": "x" * size}), "utf-8")


def worktree(root: Path) -> Path:
    """Return a work tree of the clone, without the files of the main checkout."""
    git(root / "clone", "init", "-q")
    git(root / "clone", "commit", "-q", "--allow-empty", "-m", "x")
    git(root / "clone", "worktree", "add", "-q", str(root / "tree"))
    return root / "tree"


def below(root: Path) -> Path:
    folder = root / "clone" / "a" / "b"
    folder.mkdir(parents=True)
    git(root / "clone", "init", "-q")
    return folder


def without_repository(root: Path) -> Path:
    folder = root / "clone" / "a"
    folder.mkdir()
    return folder


def linked_git(root: Path) -> Path:
    """Return a checkout whose `.git` is a link to that of the clone."""
    git(root / "clone", "init", "-q")
    (root / "other").mkdir()
    (root / "other" / ".git").symlink_to(root / "clone" / ".git")
    return root / "other"


def in_worktree(root: Path) -> Path:
    folder = worktree(root) / "deep" / "er"
    folder.mkdir(parents=True)
    return folder


def by_link(root: Path) -> Path:
    """Return a directory outside, by a link in the clone."""
    (root / "outside" / "sub").mkdir(parents=True)
    (root / "clone" / "link").symlink_to(root / "outside")
    return root / "clone" / "link" / "sub"


PLACES = [worktree, in_worktree, below, without_repository, linked_git, by_link]


def hook(world: World, folder: Path, env: dict[str, str], *arguments: str) -> None:
    """Finish a turn in a directory: the hook runs there, with the project's variables."""
    project = Project(folder, world.root, world.evil, "full", world.project.world)
    going = project.session()
    going.turn()
    environment = {**os.environ, "CLAUDE_PROJECT_DIR": str(folder), **USER, **env}
    with without_senders(world.spool):
        run_hook(environment, going.payload("Stop"), *arguments, cwd=folder)
    send_from(os.environ)


def fixed(world: World) -> list[str]:
    """Return the paths that `hook install` fixes."""
    home = world.root / "turnlog"
    spool = str(world.spool.folder)
    return ["--config", str(home / "config.toml"), "--spool", spool, "--store", str(world.root)]


@pytest.mark.parametrize("name", ["settings.local.json", "settings.json"])
@pytest.mark.parametrize("place", PLACES)
def test_a_key_of_the_user_does_not_follow_settings_of_a_directory_above_or_a_main_checkout(
    world: World, turnlog: Run, place: Callable[[Path], Path], name: str
) -> None:
    folder = place(world.root)
    env = {"LANGFUSE_HOST": world.evil.url}
    write(world.project.folder, name, env)
    hook(world, folder, env, *fixed(world), "--to", "langfuse")
    assert world.evil.asked == 0
    assert "the project's settings set LANGFUSE_HOST" in turnlog("hook", "status").out


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "TURNLOG_TRACE_TO", "TURNLOG_TRACE_HOST"])
def test_nor_does_the_configuration_s_key(world: World, variable: str) -> None:
    world.configure_key()
    folder = below(world.root)
    env = {variable: world.evil.url}
    write(world.project.folder, "settings.local.json", env)
    hook(world, folder, env, *fixed(world))
    assert world.received() == []


def too_large(folder: Path) -> None:
    write(folder, "settings.local.json", {}, LIMIT)


def no_file(folder: Path) -> None:
    (folder / ".claude" / "settings.json").mkdir(parents=True)


def fifo(folder: Path) -> None:
    (folder / ".claude").mkdir()
    os.mkfifo(folder / ".claude" / "settings.json")


def broken(folder: Path) -> None:
    write(folder, "settings.json", {})
    (folder / ".claude" / "settings.json").write_text('{"env": {"LANGFUSE_HOST":', "utf-8")


@pytest.mark.parametrize("spoil", [too_large, no_file, fifo, broken])
def test_settings_above_that_cannot_be_read_may_set_anything(
    world: World, spoil: Callable[[Path], None]
) -> None:
    folder = below(world.root)
    spoil(world.project.folder)
    hook(world, folder, {"LANGFUSE_HOST": world.evil.url}, *fixed(world), "--to", "langfuse")
    assert world.evil.asked == 0


@pytest.mark.parametrize("content", ["gitdir:  /x", "gitdir: /x\0y", "x" * (LIMIT + 1)])
def test_a_worktree_whose_checkout_cannot_be_told_may_set_anything(
    world: World, content: str
) -> None:
    (world.project.folder / ".git").write_text(content, "utf-8")
    folder = world.project.folder
    hook(world, folder, {"LANGFUSE_HOST": world.evil.url}, *fixed(world), "--to", "langfuse")
    assert world.evil.asked == 0


def test_the_user_s_own_settings_above_a_project_are_no_project_s(world: World) -> None:
    """As in ~/.claude and ~/work/project, with ~/.claude a link into a directory of dotfiles."""
    env = {"LANGFUSE_HOST": world.evil.url}
    (world.root / "dotfiles").mkdir()
    (world.root / ".claude").symlink_to(world.root / "dotfiles")
    write(world.root, "settings.json", env)
    arguments = [*fixed(world)[:-1], str(world.root / ".claude")]
    hook(world, world.project.folder, env, *arguments, "--to", "langfuse")
    assert world.evil.asked > 0


def test_a_project_s_own_key_above_goes_where_the_project_says(world: World) -> None:
    env = {"LANGFUSE_HOST": world.evil.url, "LANGFUSE_SECRET_KEY": "sk-project"}
    folder = below(world.root)
    write(world.project.folder, "settings.local.json", env)
    hook(world, folder, env, *fixed(world), "--to", "langfuse")
    assert world.evil.asked > 0
    assert b"sk-project" not in b"".join(
        path.read_bytes() for path in world.spool.folder.rglob("*") if path.is_file()
    )


@pytest.mark.parametrize("size", [0, LIMIT])
@pytest.mark.parametrize("holder", [".", ".."])
def test_a_project_that_is_off_cannot_name_another_as_its_directory(
    world: World, turnlog: Run, size: int, holder: str
) -> None:
    folder = world.project.folder / "vault"
    folder.mkdir()
    env = {"CLAUDE_PROJECT_DIR": str(world.root), "TURNLOG_TRACE_TO": world.evil.url}
    write(folder / holder, "settings.json", env, size)
    turnlog("hook", "off", "--project", str(folder))
    hook(world, folder, env | {"TURNLOG_TRACE_CONTENT": "full"}, *fixed(world))
    assert "content-of-vault" not in texts_at(world.project)
    assert world.evil.asked == 0
