"""Lines of words and filters, as typed into the picker and the web app's search box."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.errors import UsageError
from turnlog.index.reports.session_list import ListFilters
from turnlog.index.search.query import parse_query
from turnlog.index.session_query import FILTERS, parse_session_query, with_last_prefix


def test_filters_may_be_anywhere() -> None:
    found = parse_session_query("project:shop fix cost:1..5 the branch:main bug model:opus")
    assert found.text == "fix the bug"
    assert found.filters == ListFilters(
        project="shop", branch="main", model="opus", min_cost=1.0, max_cost=5.0
    )


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [(">1", 1, None), (">=0.5", 0.5, None), ("<2", None, 2), ("$3", 3, None), ("<=$.5", None, 0.5)],
)
def test_costs(value: str, least: float | None, most: float | None) -> None:
    filters = parse_session_query(f"cost:{value}").filters
    assert (filters.min_cost, filters.max_cost) == (least, most)


def test_quotes_keep_a_value_together_and_protect_words() -> None:
    found = parse_session_query('project:"my shop" "tool:Bash is" -"file:x"')
    assert found.filters == ListFilters(project="my shop")
    assert found.text == '"tool:Bash is" -"file:x"'


def test_what_looks_like_a_filter_but_is_none_is_searched_for() -> None:
    found = parse_session_query("http://localhost:8000 TypeError:x a:b")
    assert found.text == "http://localhost:8000 TypeError:x a:b"
    assert found.filters == ListFilters()


@pytest.mark.parametrize("line", ["cost:>", "cost:dear", "since:soon", "health:fine"])
def test_a_filter_that_makes_no_sense_yet_is_reported_and_ignored(line: str) -> None:
    found = parse_session_query(f"word {line}")
    assert (found.text, found.filters) == ("word", ListFilters())
    assert len(found.problems) == 1


def test_an_empty_filter_excludes_nothing() -> None:
    found = parse_session_query("project: cost: fix")
    assert (found.text, found.filters, found.problems) == ("fix", ListFilters(), ())


def test_live_selects_running_sessions_by_state() -> None:
    states = {"a": "working", "b": "waiting for permission", "c": "idle"}
    assert parse_session_query("fix").with_live(states).ids is None
    assert parse_session_query("live:").with_live(states).ids == ("a", "b", "c")
    assert parse_session_query("live:perm").with_live(states).ids == ("b",)
    assert parse_session_query("live:idle").with_live({}).ids == ()


@given(st.text(st.sampled_from('ab:"> .$<=-*()\0\n') | st.characters(), max_size=30))
def test_any_input_is_valid(line: str) -> None:
    for name in ("", *FILTERS):
        found = parse_session_query(f"{name}:{line}" if name else line)
        with suppress(UsageError):
            parse_query(with_last_prefix(found.text) if found.text else "x")


@pytest.mark.parametrize(
    ("typed", "query"),
    [
        ("lo", "lo*"),
        ("lo ", "lo "),
        ("a OR", "a OR"),
        ('"a b', '"a b"*'),
        ('"a b"', '"a b"'),
        ("C++", "C++"),
    ],
)
def test_the_word_that_is_being_typed_matches_as_a_prefix(typed: str, query: str) -> None:
    assert with_last_prefix(typed) == query
