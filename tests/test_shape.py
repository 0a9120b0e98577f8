"""The shape of the code: short functions, modules that fit a head."""

import ast
from pathlib import Path
from statistics import median, quantiles

SOURCE = Path(__file__).parent.parent / "src" / "turnlog"


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
