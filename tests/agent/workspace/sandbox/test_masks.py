"""What rules deny is hidden under every name that leads to it, and stays so."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import sleep, time

import pytest

from turnlog.agent.tools.bash import BASH
from turnlog.agent.workspace.access import Basis
from turnlog.agent.workspace.sandbox import masks
from turnlog.agent.workspace.sandbox.masks import MAX_MASKS, Masks, TooManyMasks, find_masks
from turnlog.agent.workspace.sandbox.patterns import PathPattern
from turnlog.agent.workspace.sandbox.profile import Profile
from turnlog.agent.workspace.tool import Grant
from turnlog.agent.workspace.workspace import Workspace

MAX_SECONDS = 0.1 if os.getloadavg()[0] < 2 * (os.cpu_count() or 1) else 1.0
"""A command ends that fast, unless the machine is busy with other things."""
SECRET = "denied-canary-93ab"
IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    place = tmp_path / "project"
    write(place / ".env", SECRET)
    write(place / "src/app.py")
    return place


def write(path: Path, text: str = "x\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def git(place: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *IDENTITY, *arguments], cwd=place, check=True, capture_output=True
    )
    return done.stdout.decode()


def profile(
    root: Path, *patterns: str, locked: tuple[str, ...] = (), basis: Basis = Basis.WRITE
) -> Profile:
    hidden = tuple(PathPattern(root, each) for each in patterns or (".env",))
    return Profile(basis, (root,), hidden, tuple(PathPattern(root, each) for each in locked))


def masked(root: Path, *patterns: str) -> list[str]:
    found = find_masks(profile(root, *patterns)).hidden
    return sorted(os.path.relpath(path, root) for path in found)


def run(command: str, wanted: Profile, meanwhile: Callable[[], object] | None = None) -> str:
    """Run a command in a sandbox, with a change as soon as it prints; return what it prints."""
    place = wanted.roots[0]
    workspace = Workspace(place, place.parent / "session", place)

    async def go() -> str:
        printed = asyncio.Event()
        value = BASH.read({"command": command, "timeout": 20_000})
        grant = Grant(wanted.basis, profile=wanted)
        call = asyncio.ensure_future(BASH.run(value, workspace, lambda text: printed.set(), grant))
        if meanwhile:
            await printed.wait()
            await asyncio.to_thread(meanwhile)
        return str((await call).content)

    return asyncio.run(go())


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (".env", [".env", "sub/.env"]),
        ("/.env", [".env"]),
        ("./sub/.env", ["sub/.env"]),
        ("**/.env", [".env", "sub/.env"]),
        ("sub/**", ["sub"]),
        ("*.KEY", ["sub/a.key"]),
        ("s?b/[.]env", ["sub/.env"]),
        ("s\u00e9cret", ["se\u0301cret"]),
        ("link", ["src/app.py"]),
        ("keys", ["sub"]),
        ("none", []),
    ],
)
def test_a_pattern_hides_files_whatever_their_case_composition_and_links(
    pattern: str, found: list[str], root: Path
) -> None:
    for name in ("sub/.env", "sub/a.key", "sub/b", "se\u0301cret"):
        write(root / name)
    (root / "link").symlink_to("src/app.py")
    (root / "keys").symlink_to("sub")
    assert masked(root, pattern) == found


def test_hard_links_are_hidden_and_links_that_lead_there_are_no_masks(root: Path) -> None:
    write(root / "deep/other")
    (root / "deep/key").hardlink_to(root / ".env")
    (root / "link").symlink_to(".env")
    (root / "loop").symlink_to("loop")
    (root / "gone").symlink_to("nowhere")
    assert masked(root) == [".env", "deep/key"]
    assert SECRET not in run("cat .env deep/key link", profile(root))
    assert run("sleep 0.3; echo done", profile(root)) == "done"


def test_rules_reach_beyond_the_roots_and_through_links(root: Path, tmp_path: Path) -> None:
    write(tmp_path / "dotfiles/ssh/id", SECRET)
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.ssh").symlink_to(tmp_path / "dotfiles/ssh")
    hidden = (PathPattern(tmp_path / "home", "/.ssh/**"), PathPattern(Path("/"), "/**/.env"))
    found = find_masks(Profile(Basis.RULE, (root,), hidden)).hidden
    assert set(found) == {tmp_path / "dotfiles/ssh", root / ".env"}


@pytest.mark.needs_bwrap
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_other_mounts_of_the_same_files_are_hidden(root: Path, tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from turnlog.agent.workspace.sandbox import *\n"
        "from turnlog.agent.workspace.sandbox.masks import find_masks\n"
        "from turnlog.agent.workspace.sandbox.profile import Profile\n"
        "from turnlog.agent.workspace.sandbox.patterns import PathPattern\n"
        "from turnlog.agent.workspace.access import Basis\n"
        "r = Path(sys.argv[1]); p = Profile(Basis.RULE, (r,), (PathPattern(r, '/.env'),))\n"
        "print(*find_masks(p).hidden)"
    )
    again = tmp_path / "again"
    again.mkdir()
    script = f'mount --bind {root} {again} && exec {sys.executable} -c "$0" {root}'
    command = ["unshare", "-m", "sh", "-c", script, program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "mount" in done.stderr:
        pytest.skip(done.stderr)
    assert done.stdout.split() == [str(root / ".env"), str(again / ".env")], done.stderr


def test_a_directory_of_denied_files_takes_one_mask(root: Path) -> None:
    for number in range(MAX_MASKS + 50):
        write(root / f"keys/{number}.key")
        write(root / f"tree/{number}/a")
    assert masked(root, "*.key") == ["keys"]
    assert masked(root, "tree/**") == ["tree"]


def test_more_masks_than_mounts_can_cover_are_an_error(root: Path) -> None:
    for number in range(MAX_MASKS + 1):
        write(root / f"keys/{number}/secret.key")
        write(root / f"keys/{number}/plain")
    with pytest.raises(TooManyMasks, match="name a directory"):
        find_masks(profile(root, "*.key"))
    assert masked(root, "/keys") == ["keys"]


def test_a_walk_counts_until_something_changes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[object] = []
    search = masks._search

    def count(*arguments: object, **options: object) -> masks.Walk:
        searched.append(arguments)
        return search(*arguments, **options)  # pyright: ignore[reportArgumentType, reportCallIssue]

    monkeypatch.setattr(masks, "_search", count)
    for number, change in enumerate(
        (
            lambda: None,
            lambda: write(root / "new/.env"),
            lambda: (root / "new").rename(root / "src/newer"),
            (root / ".env").unlink,
        )
    ):
        sleep(0.01)
        change()
        find_masks(profile(root))
        find_masks(profile(root))
        assert len(searched) == number + 1
    assert masked(root) == ["src/newer/.env"]


def test_a_directory_that_cannot_be_read_does_not_end_the_search(root: Path) -> None:
    (root / "closed").mkdir(mode=0o000)
    write(root / "zone/.env")
    assert masked(root) == [".env", "zone/.env"]
    (root / "closed").chmod(0o700)


def _commit(root: Path) -> None:
    git(root, "add", "-f", ".env")
    git(root, "commit", "-qm", "x")
    git(root, "rm", "-q", "--cached", ".env")
    git(root, "commit", "-qm", "y")


def _stash(root: Path) -> None:
    git(root, "add", "-f", ".env")
    git(root, "stash", "-q")
    write(root / ".env", SECRET)


def _dangle(root: Path) -> None:
    git(root, "hash-object", "-w", ".env")


def _rename(root: Path) -> None:
    write(root / "copy", SECRET)
    git(root, "add", "copy")
    git(root, "commit", "-qm", "x")


def _forget(root: Path) -> None:
    git(root, "switch", "-qc", "other")
    _commit(root)
    git(root, "switch", "-q", "main")
    git(root, "branch", "-qD", "other")
    write(root / ".env", "another")


def _nest(root: Path) -> None:
    write(root / "lib/sub/.env")
    git(root / "lib/sub", "init", "-q")
    git(root / "lib/sub", "add", ".env")
    git(root / "lib/sub", "commit", "-qm", "x")


def _merge(root: Path) -> None:
    git(root, "switch", "-qc", "other")
    git(root, "commit", "-qm", "x", "--allow-empty")
    git(root, "switch", "-q", "main")
    git(root, "commit", "-qm", "x", "--allow-empty")
    git(root, "merge", "-q", "--no-ff", "--no-commit", "other")
    git(root, "add", "-f", ".env")
    git(root, "commit", "-qm", "merge")
    git(root, "rm", "-q", "--cached", ".env")
    git(root, "commit", "-qm", "y")
    write(root / ".env", "another")


def _fail(root: Path) -> None:
    (root / ".git/HEAD").write_text("garbage\n")


def _erase(root: Path) -> None:
    _forget(root)
    assert find_masks(profile(root)).hides_git
    for name in ("logs", "refs/heads/other"):
        shutil.rmtree(root / ".git" / name, ignore_errors=True)


def _packed(root: Path) -> None:
    _commit(root)
    git(root, "gc", "-q")


def test_git_is_asked_again_only_after_a_change(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(root, "init", "-qb", "main")
    git(root, "add", "src")
    git(root, "commit", "-qm", "one")
    assert not find_masks(profile(root)).hides_git
    with monkeypatch.context() as patch:
        patch.setattr(masks, "_run", None)
        assert not find_masks(profile(root)).hides_git
    (root / ".env").write_text("def f(): pass\n")
    shutil.copy(root / ".env", root / "src/copy.py")
    git(root, "add", "src/copy.py")
    assert find_masks(profile(root)).hides_git


@pytest.mark.parametrize(
    "change",
    [None, _commit, _packed, _stash, _dangle, _rename, _forget, _nest, _merge, _fail, _erase],
    ids=lambda change: change.__name__ if change else "never committed",
)
def test_objects_are_hidden_once_a_denied_file_is_among_them(
    change: Callable[[Path], None] | None, root: Path
) -> None:
    git(root, "init", "-qb", "main")
    git(root, "add", "src")
    git(root, "commit", "-qm", "one")
    assert not find_masks(profile(root)).hides_git
    assert run("git log --format=%s", profile(root)) == "one"
    if change is None:
        git(root, "commit", "-qm", "two", "--allow-empty")
        assert not find_masks(profile(root)).hides_git
        return
    change(root)
    found = find_masks(profile(root))
    assert found.hides_git
    assert any(path.name == "objects" for path in found.hidden)
    everything = (
        "git cat-file --batch-all-objects --batch; git -C lib/sub log -p; git stash show -p"
    )
    assert SECRET not in run(f"{everything}; git show :.env HEAD~1:.env", profile(root))


def test_repositories_above_and_work_trees_count(root: Path) -> None:
    git(root.parent, "init", "-qb", "main")
    git(root.parent, "add", "-f", "project/.env")
    git(root.parent, "commit", "-qm", "x")
    git(root.parent, "worktree", "add", "-q", "tree")
    for place in (root, root.parent / "tree/project"):
        assert root.parent / ".git/objects" in find_masks(profile(place)).hidden


@pytest.mark.needs_bwrap
@pytest.mark.parametrize("basis", [Basis.READ, Basis.RULE, Basis.USER])
@pytest.mark.parametrize("way", ["replaced", "removed", "moved"])
def test_a_command_ends_at_once_if_a_hidden_file_is_replaced(
    way: str, basis: Basis, root: Path
) -> None:
    """An editor saves a file by renaming a new one: then the mount over it is gone."""
    at: list[float] = []

    def change() -> None:
        at.append(time())
        match way:
            case "replaced":
                write(root / "new", SECRET).replace(root / ".env")
            case "removed":
                (root / ".env").unlink()
            case _:
                (root / ".env").rename(root / "away")

    command = "echo started; for i in {1..900}; do cat .env away 2>/dev/null; sleep 0.01; done"
    text = run(command, profile(root, basis=basis), change)
    assert time() - at[0] < MAX_SECONDS
    assert "was replaced meanwhile" in text
    assert SECRET not in text  # what it printed before it was killed is dropped


@pytest.mark.needs_bwrap
@pytest.mark.parametrize("folder", [".claude/x", ".git/modules/sub"])
def test_a_hidden_file_opens_no_protected_directory(folder: str, root: Path) -> None:
    write(root / folder / "config", "own")
    write(root / folder / "keys/a.pem", SECRET)
    wanted = profile(root, "*.pem")
    run(f"echo x > {folder}/config; echo x > {folder}/new; cat {folder}/keys/a.pem", wanted)
    assert (root / folder / "config").read_text() == "own"
    assert not (root / folder / "new").exists()


@pytest.mark.needs_bwrap
def test_parents_of_locked_files_stay_where_they_are(root: Path) -> None:
    write(root / "a/b/keep.md", "keep")
    wanted = profile(root, locked=("/a/b/keep.md",))
    for command in (
        "echo x > a/b/keep.md",
        "rm a/b/keep.md",
        "mv a/b c; mkdir a/b; echo x > a/b/keep.md",
        "mv a c",
        "mv a/b/keep.md x",
        "ln a/b/keep.md x; echo x > x",
        "chmod 777 a/b/keep.md; touch -d 2001-01-01 a/b/keep.md",
    ):
        run(command, wanted)
        assert (root / "a/b/keep.md").read_text() == "keep"
    run("echo x > a/b/other; echo x > a/new", wanted)
    assert (root / "a/b/other").exists()
    assert (root / "a/new").exists()


@pytest.mark.needs_bwrap
@pytest.mark.parametrize("basis", [Basis.WRITE, Basis.RULE, Basis.USER])
def test_a_denied_file_gets_no_other_name_for_the_next_command(basis: Basis, root: Path) -> None:
    write(root / "config/deep/prod.key", SECRET)
    wanted = profile(root, "/config/deep/prod.key", basis=basis)
    run("mv config c2; mv config/deep d2; mv config/deep/prod.key x; cp -al config c3", wanted)
    assert SECRET not in run("cat c2/deep/prod.key d2/prod.key x c3/deep/prod.key", wanted)
    assert (root / "config/deep/prod.key").read_text() == SECRET


def test_a_denied_program_is_hidden_wherever_it_is_found(root: Path) -> None:
    found = find_masks(
        Profile(Basis.RULE, (root,), programs=("git", "/usr/bin/env", "bash"))
    ).hidden
    assert Path("/usr/bin/git").resolve() in found
    assert Path("/usr/bin/env").resolve() in found
    # Without bash there would be no commands at all: that rule is one about words.
    assert Path("/usr/bin/bash").resolve() not in found


def test_nothing_to_hide_means_no_search(root: Path) -> None:
    assert find_masks(Profile(Basis.USER, (root,))) == Masks()
