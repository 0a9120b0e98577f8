"""Everyday commands that need no question, and attacks of the same shape that still do.

Commands run through the gate and the Bash tool, so an answer that is wrong shows a canary.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agent.permissions.test_execution_state import ASKED, DENIED, World, background
from agent.permissions.test_shifting_paths import git
from turnlog.agent.permissions.git_index import tracked_names

GIT = ("Bash(git:*)",)
DENY = ("Read(/config/prod.key)", "Read(.env)", "Edit(/docs/keep.md)")
MESSAGE = "\"$(cat <<'EOF'\nfix: read src/app.py\n\nSee docs/a.md.\nEOF\n)\""


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A repository with a branch that turns a plain file into a link."""
    world = World(tmp_path)
    world.file("notes.txt", "own\n")
    world.file("src/app.py", "KEY = 1\n")
    world.file("sub/f")
    git(world, "init", "-q")
    for name, value in (("user.name", "a"), ("user.email", "a@b"), ("commit.gpgsign", "false")):
        git(world, "config", name, value)
    git(world, "add", "notes.txt", "src", "sub", "docs")
    git(world, "commit", "-qm", "x")
    git(world, "checkout", "-qb", "evil")
    (world.root / "notes.txt").unlink()
    (world.root / "notes.txt").symlink_to("config/prod.key")
    (world.root / "sub/up").symlink_to("../..")
    git(world, "add", "notes.txt", "sub")
    git(world, "commit", "-qm", "y")
    git(world, "checkout", "-q", "-")
    world.file(".env", f"KEY={DENIED}\n")
    return world


def test_changes_are_added_and_committed_without_a_question(world: World) -> None:
    world.file("src/app.py", "KEY = 2\n")
    world.file("new.md")
    told = world.session(
        f"git add src/app.py && git commit -q -m {MESSAGE}",
        "git checkout -q -b topic/new && git add new.md sub/ && git commit -qm 'add new.md; done'",
        "git log --oneline | wc -l",
        allow=GIT,
        deny=DENY,
    )
    assert ASKED not in told
    assert told[-1].strip() == "3"


@pytest.mark.parametrize(
    "command",
    [
        "cat notes.txt && git checkout -q evil",
        "grep -c own notes.txt; head -1 sub/f; git commit -q --allow-empty -m x",
        "wc -l < notes.txt && git add -A sub && git status --short",
        "[ -f notes.txt ] && cat notes.txt && rm notes.txt && ls sub",
        "mv notes.txt sub/n.txt && cat sub/f && mv src/app.py sub/",
        "rm -r sub && mkdir sub && touch sub/g && ls sub",
        "rm notes.txt && rmdir sub/none; ls",
    ],
)
def test_a_file_that_is_read_before_the_first_change_does_not_ask(
    command: str, world: World
) -> None:
    assert ASKED not in world.session(command, allow=GIT, deny=DENY)


@pytest.mark.parametrize(
    "command",
    [
        "git checkout -q evil && cat notes.txt",
        "git add sub && git checkout -q evil && cat notes.txt",
        "cat notes.txt | git checkout -q evil",
        "cat notes.txt & git checkout -q evil",
        "cat notes.txt <(git checkout -q evil)",
        "echo `cat notes.txt & git checkout -q evil`",
        "for i in 1 2; do cat notes.txt; git checkout -q evil; done",
        "until cat notes.txt; git checkout -q evil; do cat notes.txt; done",
        "f() { cat notes.txt; }; git checkout -q evil; f",
        "trap 'cat notes.txt' EXIT; git checkout -q evil",
        "git checkout -q evil && git commit -qm 'x' -F notes.txt",
        "git checkout -q evil && { cat; } < notes.txt",
        "cd sub && git checkout -q evil && cat up/secret.txt",
        "git add notes.txt && git -c alias.x='!cat notes.txt' x; git checkout -q evil",
        "coproc cat notes.txt; git checkout -q evil",
        "git commit -q --allow-empty -m x && cat notes.txt",
    ],
)
@pytest.mark.parametrize("mode", ["acceptEdits", "bypassPermissions"])
def test_a_file_that_may_be_read_after_a_change_asks(command: str, mode: str, world: World) -> None:
    allow = (*GIT, "Bash(trap:*)")
    (told,) = world.session(command, mode=mode, allow=allow, deny=DENY)
    assert told == ASKED


@pytest.mark.parametrize(
    "command",
    [
        "mv sub x && cat x/f",
        "mv src/l x && cat x",
        "rm l && mkdir l && cat l/f",
        "mv notes.txt l && cat l/notes.txt",
        "rm src/l; cat src/app.py",
        "cp -r src x && cat x/l",
    ],
)
def test_moving_and_removing_links_and_directories_asks(command: str, world: World) -> None:
    (world.root / "l").symlink_to("sub")
    (world.root / "src/l").symlink_to("../secret.txt")
    assert world.session(command) == [ASKED]


@pytest.mark.parametrize(
    "command",
    [
        "grep -rn --include='*.py' KEY .",
        "grep -r KEY --include=\"*.py\" --include='*.toml' --exclude-dir=node_modules | head",
        "cd src; grep -rl --include=app.py KEY .",
    ],
)
def test_a_search_of_files_of_another_name_does_not_ask(command: str, world: World) -> None:
    (told,) = world.session(command, mode="default", deny=(*DENY, "Read(./secrets/**)"))
    assert "app.py" in told


@pytest.mark.parametrize(
    "command",
    [
        "grep -rn KEY .",
        "grep -rn --include='*.env' KEY .",
        "grep -rn --include='*.ENV' KEY .",
        "grep -rn --include='*' KEY .",
        "grep -rn --include='.*' KEY .",
        "grep -rn --include='*.[e]nv' KEY .",
        "grep -rn --include='*.py' --include='?env' KEY .",
        "grep -rn --exclude='*.md' --include='*.py' KEY .",
        "grep -rn --include='*.py' --exclude='*.md' KEY .",
        "grep -rn -e --include='*.py' -e KEY .",
        "grep -rn -e KEY -- --include='*.py' .",
        "grep -rn --include '*.py' KEY .",
        "grep -rn --include='*.py' KEY . .env",
        "grep -rn --include='*.key' CANARY .",
        "grep -rn --include='*.pem' KEY .",
        "grep -Rn --include='*.py' KEY .",
        "sleep 0; grep -rn --include='*.py' KEY .",
    ],
)
def test_a_search_that_may_reach_a_denied_file_asks(command: str, world: World) -> None:
    world.file("secrets/deep/x.pem", f"KEY={DENIED}\n")
    (told,) = world.session(command, mode="default", deny=(*DENY, "Read(./secrets/**)"))
    assert told == ASKED or (DENIED not in told and "denies" in told)


@pytest.mark.parametrize(
    "command",
    [
        "git log --oneline --ancestry-path HEAD..evil",
        "git log --oneline --all --source --left-only --boundary -3",
        "[ -f gone ] || exit 3",
        "echo oops >&2; exit 0",
    ],
)
def test_reading_commands_of_everyday_need_no_permission(command: str, world: World) -> None:
    assert ASKED not in world.session(command, mode="default", deny=DENY)


@pytest.mark.parametrize("command", ["exit $x", "exit 'a[$(touch P)]'", "exit 1+1", "exit 1 2"])
def test_an_exit_code_that_bash_calculates_asks(command: str, world: World) -> None:
    assert world.session(command, mode="default") == [ASKED]
    assert not (world.root / "P").exists()


def test_changes_of_tracked_files_are_shown_without_a_question(world: World) -> None:
    world.file("src/app.py", "KEY = 2\n")
    told = world.session(
        "git diff",
        "git diff src/app.py | head -20",
        "git diff -w --stat -p -- src/ sub && git status --short",
        "git diff -- s*",
        "cd src; git diff .",
        "git diff --exit-code app.py",
        mode="default",
        deny=DENY,
    )
    assert ASKED not in told
    assert all("+KEY = 2" in each for each in told)


@pytest.mark.parametrize("name", [".env", "deep/.ENV", "config/prod.key"])
@pytest.mark.parametrize("command", ["git diff", "git diff -- src/app.py", "git diff sub"])
def test_a_diff_asks_if_a_denied_file_is_tracked(name: str, command: str, world: World) -> None:
    world.file(name, "old\n")
    git(world, "add", "-f", name)
    world.file(name, f"{DENIED}\n")
    assert world.session(command, mode="default", deny=DENY) == [ASKED]


@pytest.mark.parametrize(
    "command",
    [
        "git diff HEAD",
        "git diff evil",
        "git diff evil -- notes.txt",
        "git diff main..evil",
        "git diff HEAD^ src/app.py",
        "git diff --cached",
        "git diff --staged src",
        "git diff --merge-base evil",
        "git diff --all",
        "git diff @ -- src",
        "git diff :0:src/app.py",
        "git diff gone",
        "git diff -- ../secret.txt src/app.py",
        "git diff src/../../secret.txt src/app.py",
        "git diff /dev/null .env",
        "git diff --no-index sub config",
        "git diff $x",
        "git show :src/app.py",
        "git log -p -- src/app.py",
        "git blame src/app.py",
        "git add -f . && git diff",
        "git reset -q HEAD~1; git diff",
        "git read-tree evil && git diff",
        "git update-index --index-info < list; git diff",
        "sleep 1; git diff",
        "git diff & git reset -q HEAD~1",
        "GIT_INDEX_FILE=other git diff",
        "GIT_DIR=other; git diff",
        "git -C sub diff",
        "git --git-dir=.git diff",
        "git --work-tree=config diff",
        "git -c core.worktree=config diff",
        "cd config && git diff",
    ],
)
@pytest.mark.parametrize("mode", ["default", "bypassPermissions"])
def test_a_diff_that_may_show_more_than_tracked_files_asks(
    command: str, mode: str, world: World
) -> None:
    allow = () if mode == "default" else GIT
    told = world.session(command, mode=mode, allow=allow, deny=(*DENY, "Read(/config/**)"))
    assert told == [ASKED] or "denies" in told[0]


def spoil_checksum(index: Path) -> None:
    data = index.read_bytes()
    index.write_bytes(data[:-20] + bytes(20))


@pytest.mark.parametrize(
    "change",
    [
        ("config", "core.worktree", "config"),
        ("config", "include.path", "other"),
        ("config", "core.fsmonitor", "true"),
        ("update-index", "--split-index"),
        ("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub2"),
    ],
)
def test_a_diff_asks_in_a_repository_whose_files_are_not_known_for_certain(
    change: tuple[str, ...], world: World
) -> None:
    git(world, *change)
    assert world.session("git diff", mode="bypassPermissions", deny=DENY) == [ASKED]


def test_a_diff_asks_if_the_index_is_damaged_or_missing(world: World) -> None:
    index = world.root / ".git/index"
    spoil_checksum(index)
    assert world.session("git diff", mode="bypassPermissions", deny=DENY) == [ASKED]
    index.unlink()
    assert world.session("git diff", mode="bypassPermissions", deny=DENY) == [ASKED]


@pytest.mark.parametrize("command", ["git diff a b", "git diff -- a/ b", "git diff a b sub"])
@pytest.mark.parametrize("has_repository", [True, False])
def test_a_diff_of_two_directories_with_a_denied_file_asks(
    command: str, has_repository: bool, world: World
) -> None:
    world.file("a/.env", f"{DENIED}\n")
    world.file("b/.env")
    if not has_repository:
        shutil.rmtree(world.root / ".git")
    assert world.session(command, mode="bypassPermissions", deny=DENY) == [ASKED]


def test_a_diff_shows_no_denied_file_behind_a_link(world: World) -> None:
    (world.root / "notes.txt").unlink()
    (world.root / "notes.txt").symlink_to(".env")
    world.file("linked/f")
    git(world, "add", "linked")
    (world.root / "linked/f").unlink()
    (world.root / "linked").rmdir()
    (world.root / "linked").symlink_to("config")
    (world.root / "config/f").write_text(f"{DENIED}\n")
    (told,) = world.session("git diff", mode="bypassPermissions", deny=(*DENY, "Read(/config/**)"))
    assert told != ASKED
    assert DENIED not in told


def test_a_diff_asks_while_another_command_runs(world: World) -> None:
    told = world.session(background("sleep 1; git reset -q evil"), "git diff", allow=GIT, deny=DENY)
    assert told[1] == ASKED


@pytest.mark.parametrize(
    "command",
    [
        "git update-index --add --cacheinfo 100644,{oid},x.txt",
        "echo '100644 {oid} 0\tx.txt' | git update-index --index-info",
        "git read-tree --prefix=x/ HEAD~1",
        "git replace HEAD:notes.txt {oid}",
        "git -C . update-index --add --cacheinfo 100644,{oid},x.txt",
    ],
)
def test_the_content_of_a_denied_file_is_not_tracked_under_another_name_unasked(
    command: str, world: World
) -> None:
    git(world, "add", "-f", "config")
    git(world, "commit", "-qm", "with a key")
    git(world, "rm", "-q", "--cached", "-r", "config")
    git(world, "commit", "-qm", "without")
    found = subprocess.run(
        ["git", "rev-parse", "HEAD~1:config/prod.key"],
        cwd=world.root,
        check=True,
        capture_output=True,
    )
    oid = found.stdout.decode().strip()
    told = world.session(command.replace("{oid}", oid), "git diff", allow=GIT, deny=DENY)
    assert told[0] == ASKED
    assert DENIED not in told[1]


def test_all_names_in_an_index_are_read(world: World) -> None:
    for length in range(1, 40):
        world.file(f"n/{'x' * length}")
    world.file("n/ä ö/\udcff.txt")
    git(world, "add", "-A", "n")
    git(world, "add", "-N", "-f", ".env")  # has extended flags, which only version 3 stores
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=world.root, check=True, capture_output=True
    ).stdout
    names = [os.fsdecode(each) for each in listed.split(b"\0") if each]
    assert list(tracked_names(world.root / ".git/index")) == names


@pytest.mark.parametrize(
    "command",
    [
        "base64 -w 0 notes.txt | base64 -d",
        "cksum notes.txt src/app.py",
        "column -t -s = src/app.py",
        "comm -12 notes.txt src/app.py",
        "expand -t 4 notes.txt | unexpand -a",
        "fold -s -w 40 notes.txt",
        "free -h",
        "hostname",
        "od -A d -t x1 -N 16 notes.txt",
        "paste -s -d , notes.txt",
    ],
)
def test_programs_that_only_print_run_without_a_question(command: str, world: World) -> None:
    (told,) = world.session(command, deny=DENY)
    assert ASKED not in told


@pytest.mark.parametrize(
    "command",
    [
        "base64 .env",
        "base64 -o new.txt notes.txt",
        "base64 notes.txt .env",
        "cksum --check notes.txt",
        "column -t config/prod.key",
        "comm notes.txt .env",
        "expand ../outside.txt",
        "fold .env",
        "free -s 1",
        "hostname evil",
        "hostname -F notes.txt",
        "od -c .env",
        "od -tc -- .env",
        "paste notes.txt config/prod.key",
    ],
)
def test_the_same_programs_do_nothing_else(command: str, world: World) -> None:
    before = world.root.joinpath("notes.txt").read_text()
    (told,) = world.session(command, deny=DENY)
    assert DENIED not in told
    assert ASKED in told or "denie" in told
    assert not world.root.joinpath("new.txt").exists()
    assert world.root.joinpath("notes.txt").read_text() == before
