"""Sent spans are remembered, whatever happens in between."""

from pathlib import Path

import pytest

from turnlog.errors import Conflict
from turnlog.trace.sent_state import open_state


def test_what_was_added_is_there_the_next_time(tmp_path: Path) -> None:
    with open_state(tmp_path, "target", "s") as state:
        state.add(["a", "b"])
        state.add(["c"])
    with open_state(tmp_path, "target", "s") as state:
        assert state.sent == {"a", "b", "c"}


def test_targets_and_sessions_do_not_know_each_other(tmp_path: Path) -> None:
    with open_state(tmp_path, "target", "s") as state:
        state.add(["a"])
    for target, name in (("other", "s"), ("target", "t")):
        with open_state(tmp_path, target, name) as state:
            assert state.sent == set()


@pytest.mark.parametrize(
    "damage", [b"", b"{torn", b"[]", b'{"sent": 5}', b'{"sent": [1, "a"]}', b"[" * 100_000]
)
def test_a_damaged_state_is_as_good_as_none(tmp_path: Path, damage: bytes) -> None:
    with open_state(tmp_path, "target", "s") as state:
        state.path.write_bytes(damage)
    with open_state(tmp_path, "target", "s") as state:
        assert state.sent <= {"a"}
        state.add(["b"])
    with open_state(tmp_path, "target", "s") as state:
        assert "b" in state.sent


def test_a_state_in_use_is_a_conflict_for_those_who_do_not_wait(tmp_path: Path) -> None:
    with (
        open_state(tmp_path, "target", "s"),
        pytest.raises(Conflict),
        open_state(tmp_path, "target", "s", wait=False),
    ):
        pass
    with open_state(tmp_path, "target", "s", wait=False):
        pass


def test_nothing_but_the_state_is_left_behind(tmp_path: Path) -> None:
    with open_state(tmp_path, "target", "s") as state:
        state.add(["a"])
    assert sorted(path.name for path in (tmp_path / "target").iterdir()) == ["s.json", "s.lock"]
    assert state.path.stat().st_mode & 0o077 == 0
