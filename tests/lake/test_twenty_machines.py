"""Twenty machines, copies, edits, wrong clocks and crashes: the lake adds up to the truth.

`TURNLOG_LAKE_ROUNDS=50` runs more rounds of crashes.
"""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from support.lake_machines import lake_totals
from support.lake_world import LakeWorld
from turnlog.index.reports.reports import ReportRequest
from turnlog.index.service import report_batch
from turnlog.lake.lake_compaction import CompactOptions, compact
from turnlog.lake.lake_forgetting import ForgetRequest, forget
from turnlog.lake.lake_reports import LakeSource, lake_report_batch
from turnlog.lake.lake_verification import verify
from turnlog.store.deletion_consent import agreed

ROUNDS = int(os.environ.get("TURNLOG_LAKE_ROUNDS", "4"))
CRASHING = (3, 11)
EDITED, REDACTED, FORGOTTEN, TWICE, DELETED = 5, 6, 7, 8, 9
PHASES = ("before", "half", "after")
AT_ONCE = CompactOptions(grace=0)


@pytest.fixture
def world(tmp_path: Path) -> LakeWorld:
    found = LakeWorld(tmp_path, 20, seed=19)
    found.populate()
    for machine in found.machines:
        machine.push()
    return found


def approximately(totals: dict[str, int | float]) -> dict[str, Any]:
    return totals | {"cost": pytest.approx(totals["cost"], rel=1e-12)}


def own_session(world: LakeWorld, machine: int) -> str:
    """Return a session that no other machine has a copy of."""
    elsewhere = {
        turn.number
        for other, files in enumerate(world.files)
        for file in files.values()
        for _, turn in file.turns
        if other != machine
    }
    return next(
        name
        for name, file in world.files[machine].items()
        if not any(turn.number in elsewhere for _, turn in file.turns)
    )


def change_some(world: LakeWorld) -> None:
    """Edit, redact, delete and forget sessions, and push everything; one machine pushes twice."""
    edited = world.files[EDITED][own_session(world, EDITED)]
    world.put(EDITED, edited._replace(turns=edited.turns[:-1] or edited.turns))
    name = own_session(world, REDACTED)
    path = world.machines[REDACTED].path(name)
    path.write_bytes(path.read_bytes().replace(b"Prompt", b"[name]"))
    gone = own_session(world, DELETED)
    world.machines[DELETED].path(gone).unlink()
    del world.files[DELETED][gone]
    world.grow(TWICE, own_session(world, TWICE))
    for machine in world.machines:
        machine.push()
    assert world.machines[TWICE].push().parts == 0


def test_totals_are_the_truth_whatever_happens(world: LakeWorld) -> None:
    assert lake_totals(world.dest) == approximately(world.totals())
    change_some(world)
    truth = world.totals()
    assert lake_totals(world.dest) == approximately(truth)
    _compare_with_index(world)
    compact(world.dest, AT_ONCE)
    assert lake_totals(world.dest) == approximately(truth)
    _compare_with_index(world)
    forgotten = own_session(world, FORGOTTEN)
    admin = world.machines[0]
    with admin.environment():
        request = ForgetRequest(session=forgotten, consent=agreed)
        forget(world.dest, admin.settings, request)
    world.forgotten.add(forgotten)
    world.grow(FORGOTTEN, forgotten)
    world.machines[FORGOTTEN].push()
    _require_reported(world)


def _compare_with_index(world: LakeWorld) -> None:
    """Compare reports on the lake with those of one index over all twenty stores."""
    stores = [machine.store for machine in world.machines]
    requests = [ReportRequest(name) for name in ("daily", "model", "tool", "latency")]
    with world.machines[0].environment():
        expected = report_batch(stores, requests)
    found = lake_report_batch(LakeSource(world.dest), requests)
    for mine, theirs in zip(expected, found, strict=True):
        assert len(mine.rows) == len(theirs.rows), mine.name
        for one, other in zip([*mine.rows, mine.total], [*theirs.rows, theirs.total], strict=True):
            assert one == {
                name: pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
                for name, value in other.items()
            }, mine.name
    truth, total = world.totals(), found[0].total
    assert total["cost_usd"] == pytest.approx(truth["cost"], rel=1e-12)
    for name in ("input", "output", "turns", "calls", "sessions"):
        assert total[name] == truth[name], name


def _require_reported(world: LakeWorld) -> None:
    """Check that reports and the rule of live rows give the truth."""
    truth = world.totals()
    assert lake_totals(world.dest) == approximately(truth)
    total = lake_report_batch(LakeSource(world.dest), [ReportRequest("daily")])[0].total
    for name in ("input", "output", "turns", "calls", "sessions"):
        assert total[name] == truth[name], name


def test_pushes_and_compactions_at_the_same_time(world: LakeWorld) -> None:
    busy = (1, 2, 13)
    for machine in busy:
        world.grow(machine, own_session(world, machine))
    running = [world.start_push(machine, 0, "before") for machine in busy]
    while any(process.poll() is None for process in running):
        compact(world.dest, AT_ONCE)
        lake_totals(world.dest)
    assert [process.wait() for process in running] == [0, 0, 0]
    _require_reported(world)
    compact(world.dest, AT_ONCE)
    _require_reported(world)


def test_crashes_lose_nothing_and_count_nothing_twice(world: LakeWorld) -> None:
    outcomes = {"old": 0, "new": 0}
    before = world.snapshot()
    for number in range(ROUNDS):
        machine = CRASHING[number % 2]
        world.grow(machine, next(iter(world.files[machine])))
        _crash(world, machine, number)
        # The other machine may have been killed in the round before: each is as it was, or as new.
        found = lake_totals(world.dest)
        mixed = [dict(each) for each in before]
        mixed[machine] = dict(world.files[machine])
        is_new = found == approximately(world.totals(mixed))
        assert is_new or found == approximately(world.totals(before)), number
        outcomes["new" if is_new else "old"] += 1
        before = mixed if is_new else before
        if number % 10 == 9:
            compact(world.dest, AT_ONCE)
    for machine in CRASHING:
        world.machines[machine].push()
    _require_reported(world)
    compact(world.dest, AT_ONCE)
    _require_reported(world)
    for number in CRASHING:
        machine = world.machines[number]
        with machine.environment():
            assert verify(machine.store, world.dest, machine.settings).findings == []
    assert ROUNDS < 10 or min(outcomes.values()) > 0, outcomes


def _crash(world: LakeWorld, machine: int, number: int) -> None:
    """Kill a push at one of its writes or, every third time, at any moment."""
    if number % 3 == 2:
        with world.start_push(machine, 0, "before") as process:
            time.sleep(world.random.uniform(0, 3))
            process.kill()
            process.wait()
        return
    # Five writes are one push: four tables and the units, which come last.
    stop = (5, 1, 0, 3, 5, 0, 4, 2, 0)[number % 9]
    code = world.push(machine, stop, PHASES[(number + number // 9) % 3] if number else "half")
    assert code == -9
