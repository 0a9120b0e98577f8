"""Files at DEST that were truncated or changed: a machine that has their lines sends them again."""

import hashlib
import random
from pathlib import Path

import msgspec
import pytest
from backports import zstd

from support.build import assistant, session, text, user
from support.machines import SyncedMachine, all_sync, machines
from turnlog.exchange.machine_manifest import (
    FORMAT,
    MachineManifest,
    ManifestName,
    decode_manifest,
    encode_manifest,
)

OTHER = "5e551011-0000-4000-8000-00000000000b"
START = session(user("hi"), assistant(text("hello")))


@pytest.fixture(params=[None, "correct horse"], ids=["plain", "encrypted"])
def password(request: pytest.FixtureRequest) -> str | None:
    return request.param


@pytest.fixture
def three(tmp_path: Path) -> list[SyncedMachine]:
    return machines(tmp_path)


def files(machine: SyncedMachine, folder: str) -> list[Path]:
    return sorted((Path(machine.dest) / folder).iterdir())


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    """Change a byte and keep the size."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def test_a_truncated_pack_is_sent_again(three: list[SyncedMachine], password: str | None) -> None:
    a, b, _ = three
    a.write(START)
    a.sync(password=password)
    (pack,) = files(a, "packs")
    truncate(pack)
    report = a.sync(password=password)
    assert report.repaired == [f"packs/{pack.name}"]
    assert not report.problems
    b.sync(password=password)
    assert b.path().read_bytes() == START


def test_a_machine_that_cannot_read_a_pack_has_it_sent_again(
    three: list[SyncedMachine], password: str | None
) -> None:
    a, b, _ = three
    a.write(START)
    a.sync(password=password)
    flip(files(a, "packs")[0])
    assert not a.sync(password=password).repaired, "its size is right, so nobody noticed yet"
    assert b.sync(password=password).problems
    assert a.sync(password=password).repaired
    report = b.sync(password=password)
    assert not report.problems
    assert b.path().read_bytes() == START
    assert not a.sync(password=password).repaired


def test_whoever_has_the_lines_sends_them(three: list[SyncedMachine]) -> None:
    a, b, c = three
    a.write(START)
    all_sync([a, b])
    flip(files(a, "packs")[0])
    c.sync()
    assert b.sync().repaired, "a is gone"
    c.sync()
    assert c.path().read_bytes() == START


def test_pieces_are_found_in_another_pack_than_the_damaged_one(three: list[SyncedMachine]) -> None:
    a, b, c = three
    a.write(START)
    a.sync()
    (pack,) = files(a, "packs")
    b.write(START)
    b.write(session(user("other")), OTHER)
    b.sync()
    truncate(pack)
    (b.path(OTHER)).unlink()
    b.sync(leave_removed=True)
    a.sync()
    b.sync()
    c.sync()
    assert c.path().read_bytes() == START


def test_a_verifying_sync_finds_damage_that_no_size_shows(three: list[SyncedMachine]) -> None:
    a, b, _ = three
    a.write(START)
    a.sync()
    flip(files(a, "packs")[0])
    assert a.sync(is_verifying=True).repaired
    b.sync()
    assert b.path().read_bytes() == START


def test_a_damaged_manifest_is_written_again(three: list[SyncedMachine]) -> None:
    a, b, _ = three
    a.write(START)
    a.sync()
    (manifest,) = files(a, "manifests")
    truncate(manifest)
    report = a.sync()
    assert report.repaired == [f"manifests/{manifest.name}"]
    b.sync()
    assert b.path().read_bytes() == START
    assert not a.sync().repaired


def test_a_pack_that_nobody_has_any_more_is_reported(three: list[SyncedMachine]) -> None:
    a, b, _ = three
    a.write(START)
    a.sync()
    a.path().unlink()
    a.sync(leave_removed=True)
    (pack,) = files(a, "packs")
    intact = pack.read_bytes()
    truncate(pack)
    for machine in (a, b):
        (problem, *_) = list(machine.sync(leave_removed=True).problems)[-1:]
        assert problem.name == f"packs/{pack.name}"
        assert "sent again" in problem.reason
    pack.write_bytes(intact)  # as by a program that had copied half of it
    a.sync(leave_removed=True)
    assert not b.sync().problems
    assert b.path().read_bytes() == START


def test_removed_lines_that_nobody_can_read_do_not_stop_a_session(
    three: list[SyncedMachine],
) -> None:
    a, b, _ = three
    a.write(START)
    all_sync(three)
    shorter = b"".join(START.splitlines(keepends=True)[:-1])
    for machine in three:
        machine.write(shorter)
    (pack,) = files(a, "packs")
    truncate(pack)
    a.append(session(user("from a", uuid="a1")))
    b.append(session(user("from b", uuid="b1")))
    all_sync(three, rounds=2)
    assert all(b"from a" in m.path().read_bytes() for m in three)
    assert all(b"from b" in m.path().read_bytes() for m in three)
    assert [problem.name for problem in a.sync().problems][-1] == f"packs/{pack.name}"


def test_a_sync_without_damage_writes_nothing(three: list[SyncedMachine]) -> None:
    a, b, _ = three
    a.write(START)
    all_sync([a, b], rounds=2)
    before = {path: path.stat().st_ino for path in Path(a.dest).rglob("*")}
    all_sync([a, b], rounds=2)
    assert {path: path.stat().st_ino for path in Path(a.dest).rglob("*")} == before


@pytest.mark.parametrize("seed", range(6))
def test_random_damage_costs_no_line(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    these = machines(tmp_path)
    for number, machine in enumerate(these):
        machine.write(
            session(user(f"prompt {number}")), f"5e551011-0000-4000-8000-00000000000{number}"
        )
    written = set[bytes]().union(*(machine.lines() for machine in these))
    for _ in range(4):
        dice.choice(these).sync()
        found = sorted(path for path in Path(these[0].dest).rglob("*") if path.is_file())
        if found:
            dice.choice([truncate, flip, Path.unlink])(dice.choice(found))
    all_sync(these, rounds=3)
    assert all(machine.lines() == written for machine in these)


def test_a_piece_that_a_hostile_manifest_puts_elsewhere_is_sent_after_all(
    three: list[SyncedMachine],
) -> None:
    a, b, _ = three
    a.write(session(user("something else")), OTHER)
    a.sync()
    (pack,) = files(a, "packs")
    claimed = [(hashlib.sha256(START).digest(), 0, 0)]
    hostile = MachineManifest(FORMAT, "f" * 32, [bytes.fromhex(pack.name)], claimed, [])
    raw = encode_manifest(hostile)
    name = ManifestName("f" * 32, 1, hashlib.sha256(raw).hexdigest())
    (Path(a.dest) / str(name)).write_bytes(raw)
    a.write(START)
    a.sync()
    assert b.sync().problems
    a.sync()
    assert not b.sync().problems
    assert b.path().read_bytes() == START


def test_manifests_of_older_versions_are_read(three: list[SyncedMachine]) -> None:
    a, b, _ = three
    a.write(START)
    a.sync()
    (path,) = files(a, "manifests")
    name = ManifestName.parse(f"manifests/{path.name}")
    assert name
    value = msgspec.to_builtins(decode_manifest(path.read_bytes(), name), builtin_types=(bytes,))
    older = {key: value[key] for key in ("format", "machine", "packs", "places", "sessions")}
    raw = zstd.compress(msgspec.msgpack.encode(older))
    digest = hashlib.sha256(raw).hexdigest()
    path.unlink()
    path.with_name(f"{name.machine}.{1:012d}.{digest}").write_bytes(raw)
    assert not b.sync().problems
    assert b.path().read_bytes() == START
