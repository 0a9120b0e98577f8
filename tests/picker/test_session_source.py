"""What is typed into the picker: a list, a search, or a hint."""

import pytest

from turnlog.picker.session_source import EVERYTHING, ListQuestion, SessionSource


@pytest.mark.parametrize(
    ("line", "is_search", "problem"),
    [
        ("", False, None),
        ("walrus", True, None),
        ("walrus ++", True, None),
        ("++", False, "type a word to search for"),
    ],
)
def test_signs_without_a_word_are_not_searched(
    line: str, is_search: bool, problem: str | None
) -> None:
    found = SessionSource().find({}, ListQuestion(line, EVERYTHING, {}))
    assert (found.query is not None, found.problem) == (is_search, problem)
