"""docs/requirements.md is complete: each statement once, with a test that exists or a reason."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/requirements.md"
STATEMENTS = 404
LONGEST = 200
ROW = re.compile(r"\| (\d+) \| ([^|]+) \| (.+?) \| (.+) \|")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
REASON = "Differs: "


class Requirement(NamedTuple):
    id: int
    section: str
    """The section of the document: its number or heading."""
    text: str
    proof: str

    @property
    def tests(self) -> list[tuple[str, str]]:
        return TEST.findall(self.proof)

    @property
    def reason(self) -> str:
        rest = TEST.sub("", self.proof).strip(" ,")
        return rest.removeprefix(REASON) if rest.startswith(REASON) else ""


def requirements() -> Iterator[Requirement]:
    for row in PAGE.read_text("utf-8").splitlines():
        if found := ROW.fullmatch(row):
            yield Requirement(int(found[1]), found[2], found[3], found[4])


@cache
def names_in(path: str) -> set[str]:
    """The names of the tests in a file, found without importing it."""
    file = ROOT / path
    tree = ast.parse(file.read_text("utf-8")) if file.is_file() else ast.Module([], [])
    functions = (
        each for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return {each.name for each in functions if each.name.startswith("test_")}


def test_every_statement_has_one_row() -> None:
    assert [each.id for each in requirements()] == list(range(1, STATEMENTS + 1))


def test_every_named_test_exists() -> None:
    missing = [
        (each.id, f"{path}::{name}")
        for each in requirements()
        for path, name in each.tests
        if name not in names_in(path)
    ]
    assert missing == []


def test_every_row_has_a_test_or_a_reason() -> None:
    bare = [each.id for each in requirements() if not (each.tests or each.reason)]
    assert [name for name in bare if name not in open_rows()] == []


def test_a_proof_holds_nothing_but_tests_and_a_reason() -> None:
    odd = [
        each.id
        for each in requirements()
        if TEST.sub("", each.proof).strip(" ,") != (REASON + each.reason if each.reason else "")
    ]
    assert [name for name in odd if name not in open_rows()] == []


def test_no_requirement_is_open() -> None:
    assert open_rows() == []


def test_rows_are_short() -> None:
    assert [each.id for each in requirements() if len(each.text) > LONGEST] == []
    assert [each.id for each in requirements() if len(each.reason) > LONGEST] == []


def open_rows() -> list[int]:
    return [each.id for each in requirements() if each.proof == "OPEN"]
