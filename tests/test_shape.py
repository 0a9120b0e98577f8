"""The shape of the code: short functions, modules that fit a head, names that occur once."""

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median, quantiles

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "turnlog"


def function_lengths() -> dict[str, int]:
    lengths: dict[str, int] = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                lengths[f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}"] = length
    return lengths


def test_functions_are_short() -> None:
    lengths = function_lengths()
    assert median(lengths.values()) <= 10
    assert quantiles(lengths.values(), n=20)[-1] < 40
    assert {name: length for name, length in lengths.items() if length > 60} == {}


def test_modules_are_short() -> None:
    counts = {path: path.read_text("utf-8").count("\n") for path in SOURCE.rglob("*.py")}
    assert {path: count for path, count in counts.items() if count > 500} == {}


def used_twice(named: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the places of each name that has several."""
    places: dict[str, list[str]] = defaultdict(list)
    for name, place in named:
        places[name].append(place)
    return {name: sorted(found) for name, found in places.items() if len(found) > 1}


def test_class_names_are_unique() -> None:
    classes = (
        (node.name, f"{path.relative_to(SOURCE)}:{node.lineno}")
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert used_twice(classes) == {}


def test_names_of_test_files_are_unique() -> None:
    files = ((path.name, str(path.relative_to(TESTS))) for path in TESTS.rglob("test_*.py"))
    assert used_twice(files) == {}
