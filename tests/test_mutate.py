"""Mutants: each changes one thing, and the rest of the file stays as it is."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts/mutate.py"


@pytest.fixture(scope="module")
def mutate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutate", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutate"] = module
    spec.loader.exec_module(module)
    return module


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


def test_every_package_has_tests(mutate: ModuleType) -> None:
    assert [name for name in mutate.package_names() if len(mutate.tests_of(name)) < 2] == []
