"""The saved state of a machine: read again by every later version of turnlog."""

from pathlib import Path

import msgspec

from turnlog.exchange.machine_manifest import SessionVersion
from turnlog.exchange.machine_state import State, load_state, save_state, sessions_elsewhere


def write(folder: Path, number: int) -> None:
    state = {"format": number, "machine": "ada", "sequence": 7, "names": ["7-ada"]}
    (folder / "state").write_bytes(msgspec.msgpack.encode(state))


def test_a_state_is_read_as_it_was_saved(tmp_path: Path) -> None:
    write(tmp_path, 1)
    state = load_state(tmp_path)
    assert (state.machine, state.sequence, state.names) == ("ada", 7, ["7-ada"])
    save_state(tmp_path, state)
    assert load_state(tmp_path) == state


def test_without_a_state_that_can_be_read_a_machine_is_a_new_one(tmp_path: Path) -> None:
    new = {load_state(tmp_path).machine}
    write(tmp_path, 2)
    new.add(load_state(tmp_path).machine)
    (tmp_path / "state").write_bytes(b"torn")
    new.add(load_state(tmp_path).machine)
    assert len(new) == 3
    assert "ada" not in new


def test_sessions_are_known_from_the_other_dests_of_the_same_store(tmp_path: Path) -> None:
    store = tmp_path / "home"
    for name, place in (("here", store), ("share", store), ("stranger", tmp_path / "other")):
        (tmp_path / name).mkdir()
        known = [SessionVersion(name, "", [])]
        save_state(tmp_path / name, State(1, "ada", sessions=known, store=str(place)))
    found = sessions_elsewhere(tmp_path / "here", store)
    assert [each.session for each in found] == ["share"]


def test_a_state_is_not_written_again_if_nothing_has_changed(tmp_path: Path) -> None:
    state = State(1, "ada", 7)
    save_state(tmp_path, state)
    before = (tmp_path / "state").stat()
    save_state(tmp_path, state)
    assert (tmp_path / "state").stat().st_ino == before.st_ino
    state.sequence += 1
    save_state(tmp_path, state)
    assert load_state(tmp_path) == state
