"""Machines that meet at several DESTs: an edition is one session, whichever way it arrived."""

import random
from pathlib import Path

import pytest

from support.build import assistant, nth, session, text, user
from support.machines import SyncedMachine, machines

START = session(user("hi"), assistant(text("hello")))
EDITED = START.replace(b"hello", b"HELLO")


def sync(machine: SyncedMachine, dest: str) -> None:
    """Sync a machine with one of several places next to its home."""
    machine.dest = str(machine.home.parent / dest)
    assert not machine.sync().problems


def contents(machine: SyncedMachine) -> list[bytes]:
    return sorted(path.read_bytes() for path in machine.logs())


ORDERS = {
    "one after the other": ["a1", "b1", "a1", "a2", "b2", "a2", "b1", "a1"],
    "the fork is published first": ["a1", "b1", "b2", "a2", "b2", "a1", "b1", "a2", "b2"],
    "each starts elsewhere": ["a1", "b2", "b1", "a2", "a1", "b2", "b1", "a2", "a1", "b1", "b2"],
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("is_known", [True, False], ids=["both know it", "edited before any sync"])
def test_an_edition_is_forked_once(tmp_path: Path, order: str, is_known: bool) -> None:
    a, b = named = machines(tmp_path, 2)
    a.write(START)
    if is_known:
        for dest in "12":
            for machine in (*named, a):
                sync(machine, dest)
    else:
        sync(a, "1")
        sync(b, "1")
    a.write(EDITED)
    for who, dest in ORDERS[order] * 3:
        sync(a if who == "a" else b, dest)
    assert contents(a) == contents(b) == sorted([START, EDITED])


def test_a_lost_data_directory_does_not_fork_again(tmp_path: Path) -> None:
    a, b = machines(tmp_path, 2)
    a.write(START)
    for machine in (a, b, a):
        sync(machine, "1")
    a.write(EDITED)
    for machine in (a, b, a):
        sync(machine, "1")
    b.lose_state()
    for who, dest in ["b2", "a2", "b2", "a1", "b1", "a2", "b2"]:
        sync(a if who == "a" else b, dest)
    assert contents(a) == contents(b) == sorted([START, EDITED])


@pytest.mark.parametrize("seed", range(8))
def test_a_ring_of_places_does_not_multiply_forks(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    these = machines(tmp_path)
    ring = {"a": "12", "b": "23", "c": "31"}
    steps = [(machine, dest) for machine in these for dest in ring[machine.home.name]]
    these[0].write(START)
    for machine, dest in steps * dice.choice([1, 2]):
        sync(machine, dest)
    these[0].write(EDITED)
    these[1].write(START.replace(b"hello", b"twice"))
    for number in range(8):
        dice.shuffle(steps)
        for machine, dest in steps:
            sync(machine, dest)
        if number < 3:
            grown = dice.choice(dice.choice(these).logs())
            with grown.open("ab") as file:
                file.write(session(user("more", uuid=f"more{number}", parent=nth(2))))
    for machine in these:
        found = [set(content.splitlines()) for content in contents(machine)]
        assert len(found) == 3
        assert all(a - b for a in found for b in found if a is not b)
