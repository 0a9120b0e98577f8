"""Turns of directories that were switched off are not sent."""

from pathlib import Path

import pytest

from conversation.conftest import Opened
from support.build import assistant, text, user
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
    assert owner.foreign_turns(session, turns_of(session)) == (set() if is_on else {1})
