"""Turns of directories that were switched off are not sent."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from conversation.conftest import Opened
from support.build import assistant, text, user
from turnlog.format.timestamps import stamp_of
from turnlog.trace.ownership import Ownership
from turnlog.trace.switch import Switches
from turnlog.trace.work import turns_of

SHOP = "/home/ada/shop"


@pytest.mark.parametrize("is_on", [True, False])
def test_a_turn_without_times_is_judged_by_the_switch_as_it_is_now(
    opened: Opened, tmp_path: Path, is_on: bool
) -> None:
    session = opened(user("q", timestamp=""), assistant(text("a"), timestamp=""))
    switches = Switches(str(tmp_path / "switches"))
    switches.events = {SHOP: [(1.0, False), (2.0, is_on)]}
    owner = Ownership(tmp_path, SHOP, "route", frozenset({SHOP}), switches)
    assert set(owner.foreign_turns(session, turns_of(session))) == (set() if is_on else {1})


def test_a_turn_of_the_millisecond_of_the_switch_is_on(opened: Opened, tmp_path: Path) -> None:
    for milliseconds in range(1_794_980_000_000, 1_794_980_000_100):
        moment = milliseconds / 1000
        stamp = stamp_of(datetime.fromtimestamp(moment, UTC))
        session = opened(user("q", timestamp=stamp), assistant(text("a"), timestamp=stamp))
        switches = Switches(str(tmp_path / "switches"))
        switches.events = {SHOP: [(1.0, False), (moment, True)]}
        owner = Ownership(tmp_path, SHOP, "route", frozenset({SHOP}), switches)
        assert owner.foreign_turns(session, turns_of(session)) == {}, stamp
