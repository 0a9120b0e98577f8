"""The tool `search` by meaning: for a question in other words, and for related sessions."""

from pathlib import Path

import pytest

from support.build import assistant, session, text, user
from support.mcp_peer import FIRST, OTHER, SHOP, put
from turnlog.mcp_server.tool_runs import ToolRuns
from turnlog.store.paths import Store

BREAD = "0be40000-0000-4000-8000-000000000003"
OVEN = "0ce40000-0000-4000-8000-000000000004"


@pytest.fixture
def runs(root: Path) -> ToolRuns:
    talks = {
        BREAD: ("How long does bread bake?", "A loaf takes forty minutes at 220 degrees."),
        OVEN: ("Preheat the oven for the dough", "It needs a quarter of an hour."),
    }
    for id_, (asked, answered) in talks.items():
        lines = (user(asked, cwd=SHOP), assistant(text(answered), cwd=SHOP))
        put(root, SHOP, session(*lines, session_id=id_), id_)
    return ToolRuns([Store(root)], Path(SHOP))


def test_a_question_in_other_words_is_answered(runs: ToolRuns) -> None:
    given = {"query": "which SQL server stores purchases", "like": True, "limit": 1}
    answer, _ = runs.run("search", given, {})
    assert "We decided on Postgres" in answer
    assert FIRST[:8] in answer


@pytest.mark.parametrize("query", [BREAD[:8], f"{BREAD[:8]}:1", BREAD])
def test_the_id_of_a_session_finds_related_ones(runs: ToolRuns, query: str) -> None:
    answer, _ = runs.run("search", {"query": query, "like": True, "limit": 1}, {})
    assert f"## {OVEN[:8]}" in answer
    assert f"## {BREAD[:8]}" not in answer


def test_sessions_of_other_projects_stay_out_of_sight(runs: ToolRuns) -> None:
    answer, _ = runs.run("search", {"query": "database of the bank", "like": True}, {})
    assert OTHER[:8] not in answer
    answer, _ = runs.run("search", {"query": OTHER[:8], "like": True}, {})
    assert "bank" not in answer
    # A whole id is no question, and those of other projects get the words of unknown ones.
    for id_ in (OTHER, "0fe40000-0000-4000-8000-000000000009"):
        answer, is_error = runs.run("search", {"query": id_, "like": True}, {})
        assert answer.startswith(f"no session {id_!r} in project {SHOP}")
        assert is_error


def test_like_and_regex_exclude_each_other(runs: ToolRuns) -> None:
    answer, is_error = runs.run("search", {"query": "x", "like": True, "regex": True}, {})
    assert "like and regex exclude each other" in answer
    assert is_error
