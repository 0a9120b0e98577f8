"""A verdict holds for the file that a command opens, however its path is spelled or changes.

Paths that are too long to look at, links whose meaning another command changes, and commands of
which one part changes what another one reads. Commands run through the gate and the Bash tool.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from agent.permissions.test_execution_state import ASKED, DENIED, SECRET, World, background, ended
from support.capabilities import without_privileges

LONG = 250


class DeepWorld(World):
    """A project with a directory so deep that the links in it have no absolute path."""

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        deep, self.names = self.root, list[str]()
        while len(str(deep)) < 3_860:
            self.names.append("d" * min(60, 3_900 - len(str(deep))))
            deep /= self.names[-1]
        deep.mkdir(parents=True)
        self.file(".env", f"{DENIED}\n")
        self._deep = os.open(deep, os.O_RDONLY | os.O_DIRECTORY)
        up = "/".join([".."] * (len(self.names) + 1))
        for letter, target in (
            ("k", f"{up}/secret.txt"),
            ("u", up),
            ("e", str(self.root / ".env")),
            ("w", str(self.root / ".envrc")),
            ("x", str(self.root / "docs/keep.md")),
        ):
            os.symlink(target, letter * LONG, dir_fd=self._deep)
        os.mkdir("g" * LONG, dir_fd=self._deep)
        inner = os.open("g" * LONG, os.O_RDONLY, dir_fd=self._deep)
        file = os.open(".env", os.O_WRONLY | os.O_CREAT, dir_fd=inner)
        os.write(file, f"{DENIED}\n".encode())
        for each in (file, inner, self._deep):
            os.close(each)

    def deep_session(
        self, command: str, mode: str, allow: Sequence[str] = (), deny: Sequence[str] = ()
    ) -> str:
        """Run a command in the deep directory; a letter in brackets stands for a long name."""
        for letter in "kuewxg":
            command = command.replace(f"<{letter}>", letter * LONG)
        told = self.session(*self._moves(), command, mode=mode, allow=allow, deny=deny)
        assert ASKED not in told[:-1]
        return told[-1]

    def _moves(self) -> Iterator[str]:
        """Yield commands that lead to the deep directory, none of which names a long path."""
        place, names = len(str(self.root)), list[str]()
        for name in self.names:
            length = len("/".join([*names, name])) + 1
            if place + 2 * length >= 4_090:
                yield f"cd {'/'.join(names)}"
                place, names = place + len("/".join(names)) + 1, []
            names.append(name)
        yield f"cd {'/'.join(names)}"


@pytest.fixture
def deep(tmp_path: Path) -> DeepWorld:
    return DeepWorld(tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        "cat <k>",
        "head -1 ./<k>",
        "cat <u>/secret.txt",
        "ls <u>/",
        "grep -r . <k>",
        "cd <u> && cat secret.txt",
        "cat < <k>",
        "cat < <u>/secret.txt",
        "cat k*",
        "git -C <u> status",
        "wc -l <k> | head",
        "find <u>/ -name s*",
    ],
)
def test_a_link_that_is_too_deep_to_look_at_asks(command: str, deep: DeepWorld) -> None:
    assert deep.deep_session(command, "default") == ASKED


@pytest.mark.parametrize(
    ("mode", "allow"),
    [("default", ()), ("default", ("Bash(cat:*)", "Bash(grep:*)")), ("bypassPermissions", ())],
)
@pytest.mark.parametrize(
    "command", ["cat <e>", "grep -r KEY <g>", "cat g*/.e*", "cat <g>/*v", "cat < <e>"]
)
def test_a_denied_file_that_is_too_deep_to_look_at_asks_in_every_mode(
    command: str, mode: str, allow: tuple[str, ...], deep: DeepWorld
) -> None:
    assert deep.deep_session(command, mode, allow, deny=("Read(.env)",)) == ASKED


@pytest.mark.parametrize(
    "command",
    ["echo P > <w>", "echo P > <x>", "tee <w>", "cp ../x <w>", "touch <w>", "sed -i s/k/P/ <x>"],
)
def test_a_file_behind_a_link_too_deep_to_look_at_is_not_written(
    command: str, deep: DeepWorld
) -> None:
    assert deep.deep_session(command, "acceptEdits", deny=("Edit(/docs/keep.md)",)) == ASKED
    assert not (deep.root / ".envrc").exists()


def test_a_link_below_a_directory_that_cannot_be_looked_at_asks(world: World) -> None:
    (world.root / "closed").mkdir()
    (world.root / "closed").chmod(0)
    printed = without_privileges(lambda: world.session("cat closed/x", mode="default"))
    assert printed == [ASKED]


def test_links_in_a_circle_and_many_links_ask(world: World) -> None:
    (world.root / "a").symlink_to("b")
    (world.root / "b").symlink_to("a")
    (world.root / "l0").symlink_to("docs")
    for number in range(45):
        (world.root / f"l{number + 1}").symlink_to(f"l{number}")
    assert world.session("cat a", "ls l45/", mode="default") == [ASKED, ASKED]
    assert world.session("cat l3/keep.md", mode="default") == ["keep"]


def test_a_long_text_that_is_no_path_does_not_ask(world: World) -> None:
    message = "a word and " * 600
    told = world.session(
        f"echo '{message}'",
        f"true '{message}'",
        mode="default",
        deny=("Read(.env)",),
        allow=("Bash(true:*)",),
    )
    assert ASKED not in told


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    (world.root / "sub/deep").mkdir(parents=True)
    (world.root / "sub/other").symlink_to("deep")
    (world.root / "hop").symlink_to("sub/deep")
    for name, target in (
        ("l", "hop/../.."),
        ("c", "hop/../config"),
        ("k", "hop/../docs"),
        ("n", "hop/../m"),
        ("m", "."),
        ("e", ".envrc"),
        ("two", "hop/../other/../../.."),
    ):
        (world.root / name).symlink_to(target)
    for name in ("config/prod.key", "docs/keep.md", "m/e"):
        world.file(f"sub/{name}", "own\n")
    return world


DENY = ("Read(/config/prod.key)", "Edit(/docs/keep.md)")
SWAPPED = [
    "cat l/secret.txt",
    "cat < l/secret.txt",
    "head -1 two/secret.txt",
    "cp l/secret.txt got",
    "touch l/z",
    "echo P > l/written.txt",
    "cat c/prod.key",
    "echo P > k/keep.md",
    "echo P > n/e",
    "grep -r . c/",
]


@pytest.mark.parametrize("command", SWAPPED)
@pytest.mark.parametrize(
    "swap",
    [
        "rm hop && mkdir hop && ",
        "rm hop; cp -r sub hop; ",
        "rm hop; mv sub hop; ",
        "[ -f x ] || rm hop; mkdir hop; ",
        "",
    ],
)
def test_a_link_counts_as_a_directory_that_may_replace_it(
    command: str, swap: str, world: World
) -> None:
    assert world.session(swap + command, deny=DENY) == [ASKED]
    assert (world.root / "docs/keep.md").read_text() == "keep\n"


@pytest.mark.parametrize("command", SWAPPED)
def test_a_link_is_not_replaced_while_a_command_waits(command: str, world: World) -> None:
    told = world.session(background(f"sleep 1; {command}"), "rm hop", "mkdir hop", ended, deny=DENY)
    assert SECRET not in "".join(told)
    assert DENIED not in "".join(told)
    assert (world.root / "docs/keep.md").read_text() == "keep\n"
    assert not (world.root / ".envrc").exists()
    assert not (world.root.parent / "written.txt").exists()


def test_files_do_not_change_unasked_while_a_command_runs(world: World) -> None:
    told = world.session(
        background("sleep 1; cat docs/keep.md"), "touch x", "rm hop", "echo x > y", "ls docs", ended
    )
    assert told[1:4] == [ASKED, ASKED, ASKED]
    assert ASKED not in told[4:]


def git(world: World, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *arguments], cwd=world.root, check=True, capture_output=True)


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("git checkout", "git checkout -q evil && cat notes.txt"),
        ("git checkout", "git checkout -q evil; wc -l < notes.txt"),
        ("git checkout", "git checkout -q evil | cat notes.txt"),
        ("git checkout", "git checkout -q evil && cd up && cat secret.txt"),
        ("git checkout", "git checkout -q evil && true > notes.txt"),
        ("ln", "ln -s ../secret.txt x && cat x"),
        ("ln", "ln -s .. x; grep -r CANARY x/secret.txt"),
        ("ln", "for i in 1 2; do cat x/secret.txt; ln -s .. x; done"),
        ("git mv", "cd a/d && git mv ../d ../../b && cat ../../secret.txt"),
        ("tar", "tar xf evil.tar && sed -n 1p notes.txt"),
        ("tar", "cat notes.txt & tar xf evil.tar"),
    ],
)
def test_a_part_that_a_rule_allows_changes_no_file_that_another_part_is_judged_by(
    rule: str, command: str, world: World
) -> None:
    world.file("a/d/f")
    git(world, "init", "-q")
    git(world, "add", "-A")
    git(world, "commit", "-qm", "x")
    git(world, "checkout", "-qb", "evil")
    (world.root / "notes.txt").symlink_to("../secret.txt")
    (world.root / "up").symlink_to("..")
    git(world, "add", "-A")
    git(world, "commit", "-qm", "y")
    git(world, "checkout", "-q", "-")
    for mode in ("default", "acceptEdits"):
        assert world.session(command, mode=mode, allow=(f"Bash({rule}:*)",)) == [ASKED]


@pytest.mark.parametrize(
    ("mode", "allow"), [("default", ("Bash(ln:*)", "Bash(cat:*)")), ("bypassPermissions", ())]
)
def test_rules_for_both_parts_do_not_lead_to_a_denied_file(
    mode: str, allow: tuple[str, ...], world: World
) -> None:
    for command in ("ln -s config x && cat x/prod.key", "ln -s config/prod* x; cat x"):
        assert world.session(command, mode=mode, allow=allow, deny=DENY) == [ASKED]


@pytest.mark.parametrize(
    ("command", "mode", "allow"),
    [
        ("mkdir -p new/x && touch new/x/f && ls new", "acceptEdits", ()),
        ("cp docs/keep.md new.md && cat new.md", "acceptEdits", ()),
        ("echo x > f && cat f", "acceptEdits", ()),
        ("cd docs && touch f", "acceptEdits", ()),
        ("rm secret.txt && echo done", "acceptEdits", ()),
        ("true && pwd", "default", ("Bash(true:*)",)),
        ("make -v 2>&1 | tail -2", "default", ("Bash(make:*)",)),
        ("cd docs && make -v", "default", ("Bash(make:*)",)),
        ("make -v && make --help", "default", ("Bash(make:*)",)),
        ("make -v && git status", "default", ("Bash(make:*)",)),
        ("git status && make -v | head -1; echo $?", "default", ("Bash(make:*)",)),
        ("ls && make -v", "default", ("Bash(make:*)",)),
        ("cat docs/keep.md | grep -n keep && ls docs; head -1 secret.txt", "default", ()),
    ],
)
def test_everyday_commands_of_several_parts_need_no_permission(
    command: str, mode: str, allow: tuple[str, ...], world: World
) -> None:
    assert ASKED not in world.session(command, mode=mode, allow=allow)


def test_git_beside_a_part_that_a_rule_allows_runs_nothing_that_the_repository_names(
    world: World,
) -> None:
    git(world, "init", "-q")
    world.file("set.sh", "git config core.fsmonitor 'touch PWNED; false'\n")
    told = world.session("sh ./set.sh && git status", mode="default", allow=("Bash(sh ./set.sh)",))
    assert ASKED not in told
    assert not (world.root / "PWNED").exists()


@pytest.mark.parametrize("command", ["echo *", "wc -l *", "ls *; true", "[ -n * ]", "cat l* >f"])
def test_a_pattern_that_matches_too_much_asks(command: str, world: World) -> None:
    for number in range(600):
        world.file(f"many/{'l' * 200}{number}")
    told = world.session("cd many", command, allow=("Bash(true:*)",))
    assert told[1] == ASKED
