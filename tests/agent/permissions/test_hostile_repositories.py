"""A project may bring its own `.git`: an index, settings and submodules that git never wrote.

Commands run through the gate and the Bash tool, so a wrong verdict shows a canary or leaves a mark.
"""

import hashlib
import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.permissions.test_execution_state import ASKED, DENIED, SECRET, World
from agent.permissions.test_shifting_paths import git
from support.chat_process import ChatProcess
from support.scripted_api import called, said, scripted_api
from turnlog.agent.permissions.git_index import submodules_in, tracked_names

BLOB = "ce013625030ba8dba906f756967f9e9ca394464a"
FILE, SUBMODULE = 0o100644, 0o160000


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A repository with one commit."""
    world = World(tmp_path)
    world.file("a.txt", "hello\n")
    git(world, "init", "-q", "-b", "main")
    for name, value in (("user.name", "a"), ("user.email", "a@b"), ("commit.gpgsign", "false")):
        git(world, "config", name, value)
    git(world, "add", "a.txt")
    git(world, "commit", "-qm", "x")
    world.file(".env", f"KEY={DENIED}\n")
    return world


def entry(name: str, *, length: int | None = None, mode: int = FILE) -> bytes:
    flags = len(name.encode()) if length is None else length
    packed = struct.pack(">10I", 1, 0, 1, 0, 1, 1, mode, 0, 0, 1) + bytes.fromhex(BLOB)
    packed += struct.pack(">H", flags) + name.encode()
    return packed + b"\0" * (8 - len(packed) % 8)


def write_index(world: World, *entries: bytes, extensions: bytes = b"") -> None:
    data = struct.pack(">4sII", b"DIRC", 2, len(entries)) + b"".join(entries) + extensions
    (world.root / ".git/index").write_bytes(data + hashlib.sha1(data).digest())


def set_keys(world: World, text: str) -> None:
    with (world.root / ".git/config").open("a") as config:
        config.write(text)


def add_submodule(world: World, name: str = "sub", *settings: str, tracked: bool = True) -> Path:
    """Make a repository inside of the work tree; return the mark that its monitor would leave."""
    world.file(f"{name}/x")
    for step in (("init", "-q"), ("add", "x"), ("commit", "-qm", "x")):
        git(world, "-C", name, *step)
    if tracked:
        git(world, "add", name)
        git(world, "commit", "-qm", "add it")
    mark = world.root.parent / "MARK"
    for setting in settings:
        git(world, "-C", name, "config", setting, f"echo ran >> {mark}; false")
    return mark


@pytest.mark.parametrize("mode", ["default", "plan"])
@pytest.mark.parametrize("command", ["git diff", "git grep CANARY", "git diff HEAD -- ."])
@pytest.mark.parametrize("name", ["../secret.txt", "{root}/../secret.txt", "docs/../../secret.txt"])
def test_an_index_that_names_files_outside_asks(
    name: str, command: str, mode: str, world: World
) -> None:
    write_index(world, entry(name.format(root=world.root)), entry("a.txt"))
    assert world.session(command, mode=mode) == [ASKED]


@pytest.mark.parametrize("allow", [(), ("Bash(git grep:*)",)])
def test_a_link_on_the_way_to_a_tracked_file_asks(allow: tuple[str, ...], world: World) -> None:
    (world.root / "l").symlink_to("..")
    write_index(world, entry("a.txt"), entry("l/secret.txt"))
    assert world.session("git grep CANARY", mode="default", allow=allow) == [ASKED]


def test_a_directory_that_the_user_replaced_by_a_link_asks(world: World) -> None:
    world.file("data/secret.txt")
    git(world, "add", "data")
    shutil.rmtree(world.root / "data")
    (world.root / "data").symlink_to("..")
    assert world.session("git grep CANARY", mode="default") == [ASKED]


def hidden_by_length() -> tuple[list[bytes], bytes]:
    """An entry that git takes for a longer one, so that it finds the next one in an extension."""
    real = entry(".env")
    extension = b"ZZZZ" + struct.pack(">I", len(real)) + real
    return [entry("$", length=70), entry("b")], extension


def hidden_by_offsets() -> tuple[list[bytes], bytes]:
    """A table that makes several threads of git read the entries from an extension."""
    shown, real = entry("a.txt"), entry(".env")
    end = 12 + len(shown)
    head, table = b"HIDE" + struct.pack(">I", len(real)), struct.pack(">III", 1, end + 8, 1)
    second = b"IEOT" + struct.pack(">I", len(table))
    digest = hashlib.sha1(head + second).digest()
    return [shown], head + real + second + table + b"EOIE" + struct.pack(">II", 24, end) + digest


@pytest.mark.parametrize("hide", [hidden_by_length, hidden_by_offsets])
def test_an_index_that_git_reads_in_another_way_asks(
    hide: Callable[[], tuple[list[bytes], bytes]], world: World
) -> None:
    git(world, "config", "index.threads", "3")
    entries, extensions = hide()
    write_index(world, *entries, extensions=extensions)
    assert world.session("git diff", mode="default", deny=["Read(./.env)"]) == [ASKED]


@pytest.mark.parametrize("version", ["2", "4"])
def test_ordinary_repositories_are_compared_without_a_question(version: str, world: World) -> None:
    for name in ("src/app.py", "src/apple.py", "src/ä ö/x", "src/b", f"src/{'n' * 200}"):
        world.file(name)
    git(world, "add", "src")
    git(world, "update-index", "--index-version", version)
    world.file("a.txt", "changed\n")
    diff, found = world.session("git diff", "git grep changed", mode="default")
    assert "+changed" in diff
    assert found.strip() == "a.txt:changed"
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=world.root)
    names = [os.fsdecode(each) for each in listed.split(b"\0") if each]
    assert list(tracked_names(world.root / ".git/index")) == names


@pytest.mark.parametrize(
    "command",
    ["[[ a || ./evil ]]", "[[ a > WROTE ]]", "echo $'a\\' ; ./evil #'", "ls"],
)
def test_without_bash_every_command_asks(command: str, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "ls", "cat"):
        (programs / name).symlink_to(shutil.which(name) or name)
    with scripted_api(called(("toolu_1", "Bash", {"command": command})), said("Done.")) as api:
        chat = ChatProcess(tmp_path, api.url)
        chat.environment["PATH"] = str(programs)
        (chat.work / "evil").write_text("#!/bin/sh\ntouch PWNED\n")
        (chat.work / "evil").chmod(0o755)
        chat.run("-p", "go")
        (result,) = api.requests[1].body["messages"][-1]["content"]
    assert "there is no bash" in str(result)
    assert sorted(path.name for path in chat.work.iterdir()) == ["evil"]


@pytest.mark.parametrize(
    ("settings", "attributes", "command"),
    [
        ('[filter ""]\n\tclean = "{program}; cat"\n', "* filter=", "git status"),
        ('[diff ""]\n\tcommand = "{program}"\n', "* diff=", "git diff"),
        ('[diff ""]\n\ttextconv = "{program}; cat"\n', "* diff=", "git diff"),
    ],
)
def test_a_driver_without_a_name_does_not_run(
    settings: str, attributes: str, command: str, world: World
) -> None:
    set_keys(world, settings.format(program=f"cat {world.root.parent}/secret.txt >&2"))
    world.file(".gitattributes", f"{attributes}\n")
    world.file("a.txt", "hellp\n")
    (told,) = world.session(command, mode="default", allow=["Bash(git:*)"])
    assert "a.txt" in told
    assert SECRET not in told


@pytest.mark.parametrize("value", ["none", "untracked", "dirty"])
@pytest.mark.parametrize("subcommand", ["status", "diff"])
def test_options_that_send_git_into_submodules_ask(
    subcommand: str, value: str, world: World
) -> None:
    mark = add_submodule(world, "sub", "filter.evil.clean")
    world.file("sub/.git/info/attributes", "* filter=evil\n")
    world.file("sub/x", "y\n")
    allow = [f"Bash(git {subcommand}:*)"]
    command = f"git {subcommand} --ignore-submodules={value}"
    assert world.session(command, mode="default", allow=allow) == [ASKED]
    assert not mark.exists()


@pytest.mark.parametrize(
    ("settings", "command"),
    [
        ("[alias]\n\tmerge-evil = !touch ../MARK\n", "git cherry-pick --strategy=evil side"),
        ("[rebase]\n\tinstructionFormat = %s%nexec touch ../MARK\n", "git pull"),
        ("[http]\n\tsaveCookies = true\n\tcookieFile = ../bashrc\n", "git fetch"),
        ("[init]\n\ttemplateDir = evil\n", "git submodule update --init"),
        ('[branch "main"]\n\tmergeOptions = -F ../secret.txt --no-ff\n', "git merge side"),
        ("[core]\n\thooksPath = x\n\tfsmonitor = evil\n", "git add ."),
        ("[core]\n\tprotectHFS = false\n", "git checkout topic"),
        ("[receive]\n\tdenyCurrentBranch = updateInstead\n", "git push -q . topic:main"),
    ],
)
def test_settings_that_only_changing_calls_obey_ask_there(
    settings: str, command: str, world: World
) -> None:
    set_keys(world, settings)
    assert world.session(command, allow=["Bash(git:*)"]) == [ASKED]


@pytest.mark.parametrize(
    ("name", "text", "command"),
    [
        ("sequencer/opts", "[options]\n\tstrategy = x/y\n", "git cherry-pick --skip"),
        ("sequencer/opts", "[options]\n\tstrategy = x/y\n", "git cherry-pick --continue"),
        ("rebase-merge/strategy", "x/y\n", "git rebase --continue"),
        ("rebase-merge/git-rebase-todo", "pick 1 a\nexec touch x\n", "git rebase --continue"),
        ("rebase-merge/git-rebase-todo", " x touch x\n", "git rebase --continue"),
    ],
)
def test_an_interrupted_operation_that_names_programs_asks(
    name: str, text: str, command: str, world: World
) -> None:
    world.file(f".git/{name}", text)
    for rule in ("Bash(git:*)", f"Bash({command})"):
        assert world.session(command, allow=[rule]) == [ASKED]
    assert ASKED not in world.session("git status", mode="default")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sequencer/opts", "[options]\n\tstrategy-option = ours\n"),
        ("rebase-merge/git-rebase-todo", "pick 1 exec the tests\nfixup 2 x\n# x, exec = run\n"),
    ],
)
def test_an_ordinary_interrupted_operation_does_not_ask(name: str, text: str, world: World) -> None:
    world.file(f".git/{name}", text)
    assert ASKED not in world.session("git add a.txt", allow=["Bash(git:*)"])


def test_aliases_and_hooks_are_no_reason_to_ask_where_they_do_no_harm(world: World) -> None:
    set_keys(world, "[alias]\n\tst = status\n[rebase]\n\tautoStash = true\n")
    assert ASKED not in world.session("git status", "git diff", mode="default")
    (world.root / ".git/config").write_text("[core]\n\tbare = false\n\thooksPath = .husky\n")
    git(world, "config", "user.name", "a")
    git(world, "config", "user.email", "a@b")
    assert ASKED not in world.session("git commit -qm y --allow-empty", allow=["Bash(git:*)"])


@pytest.mark.parametrize(
    "command",
    [
        "git add -A",
        "git commit -qam x",
        "git stash push",
        "git switch -q other",
        "git diff --output=/dev/null",
        "git status && git add .",
    ],
)
@pytest.mark.parametrize("name", ["sub", "deep/er/sub"])
def test_a_submodule_that_names_programs_asks(name: str, command: str, world: World) -> None:
    mark = add_submodule(world, name, "core.fsmonitor")
    git(world, "branch", "other")
    world.file("a.txt", "changed\n")
    assert world.session(command, allow=["Bash(git:*)"]) == [ASKED]
    assert not mark.exists()


@pytest.mark.parametrize(
    "command",
    [
        "git add -A && git commit -qam x",
        "git add -A; git add -A",
        "for i in 1 2; do git add -A; done",
        "git switch -q other",
        "mv sub new; git commit -qam x",
    ],
)
def test_a_repository_that_may_become_a_submodule_asks(command: str, world: World) -> None:
    git(world, "branch", "other")
    mark = add_submodule(world, "sub", "core.fsmonitor", tracked=False)
    assert world.session(command, allow=["Bash(git:*)", "Bash(mv:*)"]) == [ASKED]
    assert not mark.exists()


@pytest.mark.parametrize(
    "command",
    ['git commit -q --allow-empty -m "$(date)"', "ls && git add a.txt", "git tag x | cat"],
)
def test_a_repository_that_git_does_not_enter_does_not_ask(command: str, world: World) -> None:
    add_submodule(world, "sub", "core.fsmonitor", tracked=False)
    assert ASKED not in world.session(command, allow=["Bash(git:*)"])


def test_a_submodule_inside_of_a_submodule_asks(world: World) -> None:
    add_submodule(world, "sub")
    mark = add_submodule(world, "sub/inner", "core.fsmonitor", tracked=False)
    git(world, "-C", "sub", "add", "inner")
    git(world, "-C", "sub", "commit", "-qm", "inner")
    assert world.session("git commit -qam x", allow=["Bash(git:*)"]) == [ASKED]
    assert not mark.exists()


def test_hooks_of_a_submodule_ask(world: World) -> None:
    add_submodule(world)
    world.file("sub/.git/hooks/post-index-change", "#!/bin/sh\n")
    assert world.session("git add .", allow=["Bash(git:*)"]) == [ASKED]


@pytest.fixture
def absorbed(world: World, tmp_path: Path) -> World:
    """A repository with a submodule as `git submodule add` makes it."""
    other = World(tmp_path / "other")
    git(other, "init", "-q")
    git(other, "add", "docs")
    git(other, "commit", "-qm", "x")
    local = ("-c", "protocol.file.allow=always")
    git(world, *local, "submodule", "--quiet", "add", str(other.root), "sub")
    git(world, "commit", "-qm", "sub")
    return world


def test_ordinary_submodules_do_not_ask(absorbed: World) -> None:
    absorbed.file("a.txt", "changed\n")
    told = absorbed.session(
        "git add -A docs && git commit -qam x",
        "git switch -qc other",
        "git stash list && git add a.txt",
        allow=["Bash(git:*)"],
    )
    assert ASKED not in told


def test_linked_work_trees_and_nested_clones_do_not_ask(absorbed: World) -> None:
    local = ("-c", "protocol.file.allow=always")
    git(absorbed, *local, "clone", "-q", "--recurse-submodules", ".", "nested")
    git(absorbed, "worktree", "add", "-q", "tree")
    git(absorbed, "-C", "tree", *local, "submodule", "--quiet", "update", "--init")
    commands = ("git add a.txt && git commit -q --allow-empty -m x", "git switch -qc other")
    assert ASKED not in absorbed.session(*commands, allow=["Bash(git:*)"])
    inside = ("cd tree && git commit -q --allow-empty -m x", "git switch -qc third")
    assert ASKED not in absorbed.session(*inside, allow=["Bash(git:*)"])


@pytest.mark.parametrize("is_checked_out", [True, False])
def test_a_submodule_in_the_git_directory_that_names_programs_asks(
    is_checked_out: bool, absorbed: World
) -> None:
    git(absorbed, "-C", "sub", "config", "filter.evil.clean", "evil")
    if not is_checked_out:
        shutil.rmtree(absorbed.root / "sub")
    allow = ["Bash(git:*)"]
    assert absorbed.session("git submodule update", allow=allow) == [ASKED]
    assert absorbed.session("git commit -qam x", allow=allow) == [ASKED]


@pytest.mark.parametrize("mode", [SUBMODULE, SUBMODULE | 0o644, SUBMODULE | 1 << 16])
def test_a_submodule_is_known_by_its_type_alone(mode: int, world: World) -> None:
    write_index(world, entry("a.txt"), entry("sub", mode=mode))
    assert submodules_in(world.root / ".git/index") == ["sub"]
    assert world.session("git status", mode="default") == [ASKED]


@pytest.mark.parametrize(
    ("settings", "command"),
    [
        ("[blame]\n\tignoreRevsFile = ../secret.txt\n", "git blame a.txt"),
        ("[core]\n\texcludesFile = ../secret.txt\n", "git check-ignore -v OUTSIDE-CANARY"),
        ("[core]\n\tattributesFile = ../secret.txt\n", "git diff"),
        ("[include]\n\tpath = ../../secret.txt\n", "git status"),
        ("[mailmap]\n\tfile = ../secret.txt\n", "git log"),
        ("[core]\n\tfsmonitor = evil\n\texcludesFile = ../secret.txt\n", "git status"),
    ],
)
def test_settings_that_name_files_ask_whatever_rules_allow(
    settings: str, command: str, world: World
) -> None:
    set_keys(world, settings)
    assert world.session(command, mode="default", allow=["Bash(git:*)"]) == [ASKED]


def test_a_link_in_the_git_directory_asks_whatever_rules_allow(world: World) -> None:
    (world.root / ".git/info/grafts").symlink_to(world.root.parent / "secret.txt")
    assert world.session("git log", mode="default", allow=["Bash(git log:*)"]) == [ASKED]


def test_settings_that_are_overridden_do_not_ask_if_a_rule_allows_the_call(world: World) -> None:
    set_keys(
        world,
        '[filter "lfs"]\n\tclean = evil\n\trequired = true\n[credential]\n\thelper = store\n'
        '[core]\n\tpager = less\n\tfsmonitor = evil\n[url "x"]\n\tinsteadOf = y\n',
    )
    assert ASKED not in world.session("git status", "git diff", "git log", allow=["Bash(git:*)"])
