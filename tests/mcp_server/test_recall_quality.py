"""Sixty questions with known answers: how many does the first result of a tool answer?"""

from collections.abc import Callable
from pathlib import Path

import pytest

from support.recall_held_out import HELD_OUT_PROJECT, build_held_out
from support.recall_questions import PROJECT, RecallQuestion, build_history
from turnlog.mcp_server.answers import MOST_TOKENS, estimate_tokens
from turnlog.mcp_server.tool_runs import ToolRuns
from turnlog.store.paths import Store

LEAST = 55


@pytest.mark.parametrize(
    ("project", "build"), [(PROJECT, build_history), (HELD_OUT_PROJECT, build_held_out)]
)
def test_the_first_result_answers_at_least_55_of_60_questions(
    root: Path, tmp_path: Path, project: str, build: Callable[[Path], list[RecallQuestion]]
) -> None:
    store = tmp_path / "market"
    questions = build(store)
    runs = ToolRuns([Store(store)], Path(project))
    missed: list[RecallQuestion] = []
    for each in questions:
        answer, is_error = runs.run(each.tool, each.given, {})
        assert not is_error, answer
        assert estimate_tokens(answer) <= MOST_TOKENS
        if each.answer not in answer:
            missed.append(each)
    assert len(questions) == 60
    assert len(questions) - len(missed) >= LEAST, missed
