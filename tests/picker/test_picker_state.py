"""The state of the picker: which answers count, and what stays selected."""

from collections.abc import Callable
from pathlib import Path

import pytest

from support.build import session, user
from turnlog.index.reports.session_list import ListedSession
from turnlog.index.search.query import parse_query
from turnlog.picker import session_actions
from turnlog.picker.picker import Picker, PickerOptions
from turnlog.picker.picker_state import PickerMode, PickerState
from turnlog.picker.session_source import SessionNumbers
from turnlog.store.paths import Store


def listed(*numbers: int, query: str | None = None) -> SessionNumbers:
    return SessionNumbers(
        [(0, number) for number in numbers], {}, parse_query(query) if query else None
    )


def row(path: str) -> ListedSession:
    return ListedSession(
        id=path, path=path, store="/s", marks="", title=None,
        project=None, branch=None, models=[], turns=0, calls=0,
        errors=0, tokens=0, cost_usd=None, subagents=0, started=None, last_active=0.0,
        is_checked=False, finding=None, is_ambiguous=False,
    )  # fmt: skip


def test_an_answer_to_an_earlier_keystroke_is_dropped() -> None:
    state = PickerState()
    state.generation = 2
    assert not state.take(1, listed(1, 2))
    assert state.found.numbers == []
    assert state.take(2, listed(3))
    assert state.selected == (0, 3)


def test_a_chosen_session_stays_selected_while_it_matches() -> None:
    state = PickerState()
    state.take(0, listed(1, 2, 3))
    state.move(1)
    state.take(0, listed(9, 8, 2, 1))
    assert state.selected == (0, 2)
    state.take(0, listed(9, 8, query="other"))
    assert state.selected == (0, 9)


def test_without_a_choice_the_first_session_is_selected() -> None:
    state = PickerState()
    state.take(0, listed(1, 2, 3))
    state.take(0, listed(7, 1))
    assert state.selected == (0, 7)


def test_the_next_session_is_selected_after_a_deletion() -> None:
    state = PickerState()
    state.take(0, listed(1, 2, 3))
    state.move(1)
    state.take(0, listed(1, 3))
    assert state.selected == (0, 3)


def test_a_session_that_is_waited_for_is_selected_when_its_row_arrives() -> None:
    state = PickerState(wanted="/new.jsonl")
    state.take(0, listed(1, 2))
    state.learn({(0, 1): row("/old.jsonl"), (0, 2): row("/new.jsonl")})
    assert state.selected == (0, 2)


@pytest.mark.parametrize("mode", [PickerMode.DELETE, PickerMode.RENAME, PickerMode.EXPORT])
def test_an_answer_is_about_the_session_of_the_question(
    store: Store, monkeypatch: pytest.MonkeyPatch, mode: PickerMode
) -> None:
    changed: list[str] = []

    def note(of: Store, session: ListedSession, *text: str) -> None:
        changed.append(session.path)

    def perform(action: Callable[[], object]) -> None:
        action()

    monkeypatch.setattr(session_actions, mode.value, note)
    picker = Picker([store], PickerOptions())
    picker._worker.close()
    monkeypatch.setattr(picker, "perform", perform)
    picker.state.generation = 0
    picker.state.take(0, listed(1, 2))
    picker.state.learn({(0, 1): row("/one"), (0, 2): row("/two"), (0, 3): row("/new")})
    picker.ask(mode, "title")
    picker.state.take(0, listed(3, 1, 2))
    assert picker.state.selected == (0, 3)
    picker.finish()
    assert changed == ["/one"]


def test_an_export_below_the_home_of_an_unknown_user_goes_where_it_says(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "s.jsonl"
    source.write_bytes(session(user("hi")))
    with pytest.raises(OSError, match="no-such-user"):
        session_actions.export(store, row(str(source)), "~no-such-user/x.md")


def test_the_selection_is_always_on_the_screen() -> None:
    state = PickerState()
    state.take(0, listed(*range(100)))
    for step in (5, 40, -3, 1_000, -7, -1_000):
        state.move(step)
        assert state.selected in state.visible(10)
        assert len(state.visible(10)) == 10
