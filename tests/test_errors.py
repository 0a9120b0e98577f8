"""Errors say what is wrong and what to type next."""

import pytest

from turnlog.errors import NotFound, TurnlogError, UsageError


def test_a_hint_is_part_of_the_line_and_of_a_traceback() -> None:
    error = NotFound("no session matches", "turnlog ls")
    assert error.line == "no session matches (try: turnlog ls)"
    assert error.__notes__ == ["try: turnlog ls"]


def test_without_a_hint_the_message_is_all() -> None:
    error = NotFound("no session matches")
    assert error.line == "no session matches"
    assert not hasattr(error, "__notes__")


@pytest.mark.parametrize(("kind", "code"), [(TurnlogError, 1), (NotFound, 1), (UsageError, 2)])
def test_only_a_wrong_command_line_ends_with_2(kind: type[TurnlogError], code: int) -> None:
    assert kind("no").exit_code == code
