"""Each row of the table of cases."""

from pathlib import Path

import pytest

from agent.permissions.cases import CASES, Case
from agent.permissions.trial import make_project, verdict_of


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("case"))


@pytest.fixture(autouse=True)
def home(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(project.parent / "home"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.call[:60])
def test_a_call_is_decided_as_its_row_says(case: Case, project: Path) -> None:
    verdict = verdict_of(case, project)
    assert verdict.kind == case.verdict, verdict.reason


def test_the_table_is_large_and_has_no_row_twice() -> None:
    assert len(CASES) >= 200
    assert len(set(CASES)) == len(CASES)
