"""Generated commands against a real bash: allowed ones have no other effect."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from agent.permissions.arena import TRIALS, Arena
from agent.permissions.fuzz import try_command
from agent.permissions.grammar import GROUPS

COMMANDS_PER_GROUP = 130
USEFUL = [
    *("ls -la", "cat src/app.py", "cat src/*.py | head -5", "grep -rn import src", "git status"),
    *(
        "git log --oneline -5",
        "git diff --stat",
        "find . -name '*.py'",
        "cd src && ls",
        "wc -l *.md",
    ),
    *("sed -n 1,5p README.md", "sort list.txt | uniq -c", "[[ -f README.md ]] && cat README.md"),
    *("printf '%s\\n' x", "head -n 5 src/app.py 2>/dev/null", "rg import src", "LANG=C ls"),
]
"""Commands that must stay possible: a policy that allows nothing is safe and useless."""


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    with pytest.MonkeyPatch.context() as patch:
        made = Arena(tmp_path_factory.mktemp("arena") / "a")
        patch.setenv("HOME", str(made.world / "home"))
        yield made


def test_there_are_twelve_groups_and_enough_commands() -> None:
    made = {
        name: {make(random) for random in map(Random, range(COMMANDS_PER_GROUP))}
        for name, make in GROUPS.items()
    }
    assert len(made) == 12
    assert sum(map(len, made.values())) >= 1_400


@pytest.mark.parametrize("group", GROUPS)
def test_nothing_of_a_group_gets_through(group: str, arena: Arena) -> None:
    commands = [GROUPS[group](Random(seed)) for seed in range(COMMANDS_PER_GROUP)]
    through = {command: found for command in commands if (found := try_command(arena, command))}
    assert not through


@pytest.mark.parametrize("command", USEFUL)
def test_everyday_commands_need_no_permission(command: str, arena: Arena) -> None:
    assert arena.is_allowed(command, TRIALS[0])
    assert not arena.breaches(command, TRIALS[0])


def test_the_arena_notices_what_gets_through(arena: Arena, tmp_path: Path) -> None:
    default = TRIALS[0]
    assert arena.breaches("touch pwned", default) == ["changed project/pwned"]
    assert arena.breaches("evil", default) == ["ran evil"]
    assert arena.breaches("cat out.txt", default) == ["showed a file outside"]
    assert arena.breaches("cat .env", TRIALS[2]) == ["showed a denied file"]
    assert arena.breaches("echo x > .mcp.json", TRIALS[3]) == ["changed project/.mcp.json"]
    assert arena.breaches("rm docs/keep.md", TRIALS[4]) == ["changed project/docs/keep.md"]
    assert not arena.breaches("ls", default)


@pytest.mark.needs_bwrap
def test_what_a_rule_for_everything_allows_cannot_change_the_machine(
    arena: Arena, tmp_path: Path
) -> None:
    """`make fuzz` runs whatever it makes up, often as root."""
    (tmp_path / "mine").write_text("mine")
    arena.breaches(f"echo x >> {tmp_path}/mine; touch {tmp_path}/new", TRIALS[-1])
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert (tmp_path / "mine").read_text() == "mine"
