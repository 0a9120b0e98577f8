"""Mutants: each changes one thing, and the rest of the file stays as it is."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parent.parent / "scripts"


@pytest.fixture
def mutate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(SCRIPTS), *sys.path])
    return importlib.import_module("mutate")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("ok = a == b", {"ok = a != b"}),
        ("ok = é < b", {"ok = é <= b"}),
        ("ok = (a) not in (b)", {"ok = (a) in (b)"}),
        ("ok = a and b and c", {"ok = a or b or c"}),
        ("ok = not (a)", {"ok = (a)"}),
        ("n: Literal[1] = 2", {"n: Literal[1] = 3"}),
        ("ok = True", {"ok = False"}),
        ("def f(): return a", {"def f(): return None"}),
        ("if a: b()", {"if True: b()", "if False: b()"}),
        ("x = f'{a == 1}' 'text'", set[str]()),
        ("class A(Struct, frozen=True): pass", set[str]()),
    ],
)
def test_a_mutant_changes_one_thing(mutate: ModuleType, source: str, expected: set[str]) -> None:
    raw = source.encode()
    found = [each.apply(raw).decode() for each in mutate.mutants_of(Path("a.py"), raw)]
    assert set(found) == expected
    assert len(found) == len(expected)


def test_the_same_seed_gives_the_same_sample(mutate: ModuleType) -> None:
    one = mutate.sample("render", 5, 1)
    assert one == mutate.sample("render", 5, 1)
    assert one != mutate.sample("render", 5, 2)


def test_every_module_has_tests_near_it(mutate: ModuleType) -> None:
    samples = [mutate.sample(name, 1, 1) for name in mutate.package_names()]
    assert all(len(next(mutate.stages_of(mutant, 40))) >= 2 for [mutant] in samples)


def test_the_tests_that_run_a_changed_command_come_first(mutate: ModuleType) -> None:
    mutant, *_ = mutate.sample("cli", 1, 1, "history_of.py")
    assert next(mutate.stages_of(mutant, 40))[0] == "tests/cli/test_files_at_a_moment.py"


def test_the_tests_of_a_changed_function_come_first(mutate: ModuleType) -> None:
    mutant, *_ = mutate.sample("agent/mcp", 1, 1, "elicitation.py")
    first, second, *_ = mutate.stages_of(mutant, 40)
    assert "tests/agent/mcp/test_elicitation.py" in first
    assert not {*first} & {*second}
